"""Decisions: what people say about labels, kept in one SQLite file that only ever grows.

Every decision is an entry of a log. Nothing is changed or deleted: to take a decision back is another entry. What holds
now follows from the log: of each sample the newest decision that was not taken back.
"""

import random
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_args

FILE = "decisions.sqlite"
VERSION = 1
PATIENCE = 30.0  # seconds that a writer waits for another one
Verdict = Literal["accept", "keep", "choose", "unsure"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

_SCHEMA = """
CREATE TABLE entries (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL,
  verdict TEXT NOT NULL CHECK (verdict IN ('accept', 'keep', 'choose', 'unsure', 'undo')),
  label TEXT NOT NULL,
  reviewer TEXT NOT NULL,
  at TEXT NOT NULL,
  takes_back INTEGER UNIQUE REFERENCES entries (number),
  CHECK ((verdict = 'undo') = (takes_back IS NOT NULL))
);
CREATE INDEX entries_by_id ON entries (id, number);
CREATE INDEX entries_by_reviewer ON entries (reviewer, number);
CREATE TRIGGER never_changed BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'the log is never changed'); END;
CREATE TRIGGER never_deleted BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'the log is never shortened'); END;
CREATE TRIGGER never_replaced BEFORE INSERT ON entries
WHEN EXISTS (SELECT 1 FROM entries WHERE number = NEW.number OR takes_back = NEW.takes_back)
BEGIN SELECT RAISE(ABORT, 'the log is never changed'); END;
"""
_STANDING = "takes_back IS NULL AND NOT EXISTS (SELECT 1 FROM entries AS undo WHERE undo.takes_back = entries.number)"


class ConflictError(ValueError):
    """Somebody decided on the sample in the meantime; ``newest`` is the number of the entry the caller had not seen."""

    def __init__(self, id: str, newest: int) -> None:
        super().__init__(f"{id} was decided on in the meantime (entry {newest}): look at it again, then decide.")
        self.id, self.newest = id, newest


class Decision(NamedTuple):
    """What holds for a sample.

    Args:
        id: of the sample.
        verdict: ``accept`` the proposal, ``keep`` the given label, ``choose`` another one, or ``unsure``.
        label: the label that holds from now on; the given one if unsure.
        reviewer: who says so.
        at: when, ISO 8601 in UTC.
    """

    id: str
    verdict: Verdict
    label: str
    reviewer: str
    at: str


class Entry(NamedTuple):
    """A line of the log: a decision, or ``undo``, which takes back the entry with the number ``takes_back``."""

    number: int
    id: str
    verdict: str
    label: str
    reviewer: str
    at: str
    takes_back: int | None

    @property
    def decision(self) -> Decision:
        """What was decided, without the number."""
        return Decision(self.id, cast(Verdict, self.verdict), self.label, self.reviewer, self.at)


def replay(entries: Iterable[Entry]) -> dict[str, Decision]:
    """Return what holds after a log, by id: of each sample the newest decision that was not taken back.

    Examples:
        >>> first = Entry(1, "a", "keep", "cat", "Ada", "2024-05-01T10:00:00+00:00", None)
        >>> replay([first])["a"].label
        'cat'
        >>> replay([first, first._replace(number=2, verdict="undo", takes_back=1)])
        {}
    """
    entries = list(entries)
    gone = {entry.takes_back for entry in entries}
    standing = (entry for entry in entries if entry.takes_back is None and entry.number not in gone)
    return {entry.id: entry.decision for entry in standing}  # a later one replaces an earlier one


class Decisions:
    """The decisions on the labels of a run, in ``decisions.sqlite`` of its folder.

    Several processes may write at once. What ``add`` has returned is on the disk and stays there.

    Args:
        folder: of the run. The file is made with the first decision.

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
        self.path = Path(folder) / FILE

    def add(self, id: str, verdict: Verdict, label: str, reviewer: str, *, expected: int | None) -> int:
        """Write down a decision and return the number of its entry.

        Args:
            id: of the sample.
            verdict: one of ``VERDICTS``.
            label: the label that holds from now on.
            reviewer: who decides.
            expected: the number of the newest entry about this sample that the reviewer has seen; None or 0 for none.
                If there is a newer one, nothing is written and ``ConflictError`` raised.
        """
        if verdict not in VERDICTS:
            raise ValueError(f"a verdict is one of {', '.join(VERDICTS)}, got {verdict!r}.")
        self._check(reviewer)
        with self._writing() as store:
            newest = store.execute("SELECT max(number) FROM entries WHERE id = ?", (id,)).fetchone()[0] or 0
            if newest != (expected or 0):
                raise ConflictError(id, newest)
            return _append(store, id, verdict, label, reviewer, None)

    def undo(self, reviewer: str) -> Decision | None:
        """Take back this reviewer's latest decision that still stands and return it; None if there is none."""
        self._check(reviewer)
        if not self.path.exists():
            return None
        last = f"SELECT * FROM entries WHERE reviewer = ? AND {_STANDING} ORDER BY number DESC LIMIT 1"
        with self._writing() as store:
            found = store.execute(last, (reviewer,)).fetchone()
            if found is None:
                return None
            entry = Entry(*found)
            _append(store, entry.id, "undo", entry.label, reviewer, entry.number)
        return entry.decision

    def current(self) -> dict[str, Decision]:
        """Return what holds now, by id."""
        standing = f"SELECT *, max(number) FROM entries WHERE {_STANDING} GROUP BY id ORDER BY number"
        return {row[1]: Entry(*row[:7]).decision for row in self._read(standing)}

    def log(self, after: int = 0) -> list[Entry]:
        """Return every entry ever made, in order, or those with a number above ``after``."""
        return [Entry(*row) for row in self._read("SELECT * FROM entries WHERE number > ? ORDER BY number", (after,))]

    def _read(self, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
        if not self.path.exists():  # to look leaves no trace
            return []
        with self._open() as store:
            return store.execute(query, values).fetchall()

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open the file for a moment, so that processes and threads share nothing but the file."""
        try:
            with closing(sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)) as store:
                version = store.execute("PRAGMA user_version").fetchone()[0]
                if version > VERSION:
                    raise ValueError(f"{self.path} was written by a newer permll: install that one to go on with it.")
                if version == 0:
                    _make(store)
                store.execute("PRAGMA synchronous = FULL")  # on the disk before anybody is told so
                yield store
        except sqlite3.Error as problem:
            raise OSError(
                f"{self.path} cannot be used ({problem}): is the disk full, or the file damaged?"
            ) from problem

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Keep other writers out from the first look to the last line: all of it is written, or nothing."""
        with self._open() as store:
            store.execute("BEGIN IMMEDIATE")
            try:
                yield store
            except BaseException:
                store.execute("ROLLBACK")
                raise
            store.execute("COMMIT")

    @staticmethod
    def _check(reviewer: str) -> None:
        if not reviewer.strip():
            raise ValueError("a decision needs the name of its reviewer: say who you are.")


def _make(store: sqlite3.Connection) -> None:
    _write_ahead(store)
    store.execute("BEGIN IMMEDIATE")
    if store.execute("PRAGMA user_version").fetchone()[0] == 0:  # nobody was faster
        for statement in _statements(_SCHEMA):
            store.execute(statement)
        store.execute(f"PRAGMA user_version = {VERSION}")
    store.execute("COMMIT")


def _write_ahead(store: sqlite3.Connection) -> None:
    """Let readers go on while somebody writes; SQLite does not wait for others who switch at the same moment."""
    patient_until = time.monotonic() + PATIENCE
    while True:
        try:
            store.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > patient_until:
                raise
            time.sleep(random.uniform(0.001, 0.02))


def _statements(script: str) -> Iterator[str]:
    """Cut a script, as ``executescript`` would commit between its statements."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _append(store: sqlite3.Connection, id: str, verdict: str, label: str, reviewer: str, takes_back: int | None) -> int:
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    made = store.execute(
        "INSERT INTO entries (id, verdict, label, reviewer, at, takes_back) VALUES (?, ?, ?, ?, ?, ?)",
        (id, verdict, label, reviewer, at, takes_back),
    )
    return int(made.lastrowid or 0)
