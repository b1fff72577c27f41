"""Review decisions: an append-only log in an SQLite file.

Entries are never changed or deleted; undoing a decision appends another entry. The current decision about a sample is
its newest one that is not undone.
"""

import random
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple, get_args

DECISIONS_FILE = "decisions.sqlite"
SCHEMA_VERSION = 2  # version 1 had no drop
LOCK_TIMEOUT = 30.0  # seconds
Verdict = Literal["accept", "keep", "choose", "unsure", "drop"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

_SCHEMA = (
    """
CREATE TABLE entries (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL,
  verdict TEXT NOT NULL CHECK (verdict IN ('accept', 'keep', 'choose', 'unsure', 'drop', 'undo')),
  label TEXT NOT NULL,
  reviewer TEXT NOT NULL,
  at TEXT NOT NULL,
  takes_back INTEGER UNIQUE REFERENCES entries (number),
  CHECK ((verdict = 'undo') = (takes_back IS NOT NULL))
)""",
    "CREATE INDEX entries_by_id ON entries (id, number)",
    "CREATE INDEX entries_by_reviewer ON entries (reviewer, number)",
    "CREATE TRIGGER never_changed BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'the log is never changed'); END",
    "CREATE TRIGGER never_deleted BEFORE DELETE ON entries "
    "BEGIN SELECT RAISE(ABORT, 'the log is never shortened'); END",
    """
CREATE TRIGGER never_replaced BEFORE INSERT ON entries
WHEN EXISTS (SELECT 1 FROM entries WHERE number = NEW.number OR takes_back = NEW.takes_back)
BEGIN SELECT RAISE(ABORT, 'the log is never changed'); END""",
)
_UPGRADE = (  # a CHECK cannot be altered, so the table is copied
    "ALTER TABLE entries RENAME TO entries_1",
    *(f"DROP TRIGGER {name}" for name in ("never_changed", "never_deleted", "never_replaced")),
    *("DROP INDEX entries_by_id", "DROP INDEX entries_by_reviewer"),
    _SCHEMA[0],
    "INSERT INTO entries SELECT * FROM entries_1",
    "DROP TABLE entries_1",
    *_SCHEMA[1:],
)
_SELECT = "SELECT id, verdict, label, reviewer, at, number, takes_back FROM entries"
_LAST_DECISION = f"""{_SELECT} WHERE reviewer = ? AND takes_back IS NULL
AND NOT EXISTS (SELECT 1 FROM entries AS undo WHERE undo.takes_back = entries.number)
ORDER BY number DESC LIMIT 1"""


class ConflictError(ValueError):
    """A sample has an entry, ``newest``, that the reviewer had not seen."""

    def __init__(self, id: str, newest: int) -> None:
        super().__init__(f"{id} has a newer decision (entry {newest}): reload it, then decide.")
        self.id, self.newest = id, newest


class Decision(NamedTuple):
    """An entry of the log: a decision about the label of a sample, or the undo of one.

    Args:
        id: of the sample.
        verdict: ``accept`` the proposal, ``keep`` the given label, ``choose`` another one, which may be a new class,
            ``unsure``, or ``drop`` the sample, which belongs to no class; or ``undo``.
        label: the decided label; the given one if unsure, "" for ``drop``.
        reviewer: name of the reviewer.
        at: time, ISO 8601 in UTC.
        number: of the entry, from 1.
        takes_back: number of the entry that an ``undo`` takes back.
    """

    id: str
    verdict: str
    label: str
    reviewer: str
    at: str
    number: int = 0
    takes_back: int | None = None


def current_decisions(entries: Iterable[Decision]) -> dict[str, Decision]:
    """Return the current decisions of a log by sample id: for each sample the newest one that is not undone.

    Examples:
        >>> first = Decision("a", "keep", "cat", "Ada", "2024-05-01T10:00:00+00:00", number=1)
        >>> current_decisions([first])["a"].label
        'cat'
        >>> current_decisions([first, first._replace(number=2, verdict="undo", takes_back=1)])
        {}
    """
    entries = list(entries)
    undone = {entry.takes_back for entry in entries}
    return {entry.id: entry for entry in entries if entry.takes_back is None and entry.number not in undone}


def to_verdict(label: str, given: str, proposed: str) -> Verdict:
    """Return the verdict that decides on a label.

    Examples:
        >>> [to_verdict(label, given="cat", proposed="dog") for label in ("cat", "dog", "owl")]
        ['keep', 'accept', 'choose']
    """
    return "keep" if label == given else "accept" if label == proposed else "choose"


class Decisions:
    """The decisions about the labels of a run, in ``decisions.sqlite`` of its folder.

    Several processes may write at once. Once ``add`` returns, its entry is on disk.

    Args:
        folder: of the run. The first decision creates the file.

    Examples:
        >>> import tempfile
        >>> decisions = Decisions(Path(tempfile.mkdtemp()))
        >>> decisions.add("a", "accept", "dog", "Ada", expected=None)
        1
        >>> decisions.current()["a"].label
        'dog'
        >>> decisions.undo("Ada").id
        'a'
        >>> decisions.current(), len(decisions.log())
        ({}, 2)
    """

    def __init__(self, folder: Path | str) -> None:
        self.path = Path(folder) / DECISIONS_FILE

    def add(self, id: str, verdict: Verdict, label: str, reviewer: str, *, expected: int | None) -> int:
        """Append a decision and return the number of its entry.

        Args:
            id: of the sample.
            verdict: one of ``VERDICTS``.
            label: the decided label.
            reviewer: name of the reviewer.
            expected: number of the newest entry about this sample that the reviewer has seen; None or 0 for none. If
                there is a newer one, nothing is written and ``ConflictError`` is raised.
        """
        if verdict not in VERDICTS:
            raise ValueError(f"unknown verdict {verdict!r}: choose from {', '.join(VERDICTS)}.")
        _check_reviewer(reviewer)
        with self._connect() as connection:
            connection.execute("BEGIN IMMEDIATE")
            newest = connection.execute("SELECT max(number) FROM entries WHERE id = ?", (id,)).fetchone()[0] or 0
            if newest != (expected or 0):
                raise ConflictError(id, newest)
            return _append(connection, id, verdict, label, reviewer, None)

    def undo(self, reviewer: str) -> Decision | None:
        """Undo this reviewer's last decision that is not undone, and return it; None if there is none."""
        _check_reviewer(reviewer)
        if not self.path.exists():
            return None
        with self._connect() as connection:
            connection.execute("BEGIN IMMEDIATE")
            row = connection.execute(_LAST_DECISION, (reviewer,)).fetchone()
            if row is None:
                return None
            entry = Decision(*row)
            _append(connection, entry.id, "undo", entry.label, reviewer, entry.number)
        return entry

    def current(self) -> dict[str, Decision]:
        """Return the current decisions by sample id."""
        return current_decisions(self.log())

    def log(self, after: int = 0) -> list[Decision]:
        """Return all entries in order, or those with a number above ``after``."""
        if not self.path.exists():  # reading does not create the file
            return []
        with self._connect() as connection:
            rows = connection.execute(f"{_SELECT} WHERE number > ? ORDER BY number", (after,)).fetchall()
        return [Decision(*row) for row in rows]

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one operation; processes and threads share no connection."""
        try:
            with closing(sqlite3.connect(self.path, timeout=LOCK_TIMEOUT, isolation_level=None)) as connection:
                version = connection.execute("PRAGMA user_version").fetchone()[0]
                if version > SCHEMA_VERSION:
                    raise ValueError(f"{self.path} was written by a newer version of permll: upgrade permll.")
                if version < SCHEMA_VERSION:
                    _create_tables(connection)
                connection.execute("PRAGMA synchronous = FULL")  # a commit returns when it is on disk
                with connection:  # commits at the end, or rolls back after an error
                    yield connection
        except sqlite3.Error as error:
            raise OSError(f"{self.path} cannot be used ({error}): check for a full disk or a damaged file.") from error


def _check_reviewer(reviewer: str) -> None:
    if not reviewer.strip():
        raise ValueError("a decision needs the name of its reviewer: enter your name.")


def _create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables, or upgrade those of version 1."""
    _enable_wal(connection)
    connection.execute("BEGIN IMMEDIATE")
    version = connection.execute("PRAGMA user_version").fetchone()[0]  # another process may have been faster
    for statement in {0: _SCHEMA, 1: _UPGRADE}.get(version, ()):  # not executescript, which commits in between
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")


def _enable_wal(connection: sqlite3.Connection) -> None:
    """Let readers continue during a write. SQLite's timeout does not cover this switch, so it is tried repeatedly."""
    deadline = time.monotonic() + LOCK_TIMEOUT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(random.uniform(0.001, 0.02))


def _append(
    connection: sqlite3.Connection, id: str, verdict: str, label: str, reviewer: str, takes_back: int | None
) -> int:
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    cursor = connection.execute(
        "INSERT INTO entries (id, verdict, label, reviewer, at, takes_back) VALUES (?, ?, ?, ?, ?, ?)",
        (id, verdict, label, reviewer, at, takes_back),
    )
    return int(cursor.lastrowid or 0)
