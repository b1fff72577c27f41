"""Review decisions: the log is append-only, concurrent writers conflict, and committed entries survive a kill."""

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from permll.cleaning.review_decisions import DECISIONS_FILE, VERDICTS, ConflictError, Decision, Decisions

IDS = st.sampled_from(["a.png", "b/ü.png", "<c>"])
REVIEWERS = st.sampled_from(["Ada", "Bob"])
LABELS = st.sampled_from(["cat", "dog", "O'Hara; DROP TABLE entries"])


class DecisionMachine(RuleBasedStateMachine):
    """Add, undo and conflict, compared with a plain list of the decisions that are not undone."""

    @initialize()
    def start(self) -> None:
        self.folder = TemporaryDirectory()
        self.decisions = Decisions(self.folder.name)
        self.active: list[tuple[str, str, str, str]] = []  # id, verdict, label, reviewer
        self.newest: dict[str, int] = {}
        self.before: list[Decision] = []

    @rule(id=IDS, verdict=st.sampled_from(VERDICTS), label=LABELS, reviewer=REVIEWERS)
    def add(self, id: str, verdict: str, label: str, reviewer: str) -> None:
        number = self.decisions.add(id, verdict, label, reviewer, expected=self.newest.get(id))
        assert number == len(self.before) + 1
        self.newest[id] = number
        self.active.append((id, verdict, label, reviewer))

    @rule(id=IDS, off=st.sampled_from([-1, 1, 7]), reviewer=REVIEWERS)
    def conflict(self, id: str, off: int, reviewer: str) -> None:
        newest = self.newest.get(id, 0)
        with pytest.raises(ConflictError) as error:
            self.decisions.add(id, "keep", "cat", reviewer, expected=newest + off)
        assert (error.value.id, error.value.newest) == (id, newest)

    @rule(reviewer=REVIEWERS)
    def undo(self, reviewer: str) -> None:
        positions = [k for k, decision in enumerate(self.active) if decision[3] == reviewer]
        undone = self.decisions.undo(reviewer)
        if not positions:
            assert undone is None
            return
        expected = self.active.pop(positions[-1])
        assert undone is not None
        assert undone[:4] == expected
        self.newest[undone.id] = len(self.before) + 1

    @invariant()
    def log_is_append_only(self) -> None:
        if not hasattr(self, "decisions"):
            return
        log = self.decisions.log()
        assert log[: len(self.before)] == self.before
        assert [entry.number for entry in log] == list(range(1, len(log) + 1))
        assert self.decisions.log(after=len(self.before)) == log[len(self.before) :]
        self.before = log
        current = self.decisions.current()
        assert {id: decision[:4] for id, decision in current.items()} == {each[0]: each for each in self.active}

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()


TestDecisions = DecisionMachine.TestCase
TestDecisions.settings = settings(max_examples=8, stateful_step_count=15)


VERSION_1 = """
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
INSERT INTO entries VALUES (1, 'a', 'accept', 'dog', 'Ada', '2024-05-01T10:00:00+00:00', NULL);
INSERT INTO entries VALUES (2, 'b', 'keep', 'cat', 'Ada', '2024-05-01T10:00:01+00:00', NULL);
INSERT INTO entries VALUES (3, 'b', 'undo', 'cat', 'Ada', '2024-05-01T10:00:02+00:00', 2);
PRAGMA user_version = 1;
"""


def test_log_of_version_1_is_upgraded(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / DECISIONS_FILE)) as connection:
        connection.executescript(VERSION_1)
    decisions, fresh = Decisions(tmp_path), Decisions(tmp_path / "fresh")
    before = decisions.log()
    assert [(entry.id, entry.verdict, entry.takes_back) for entry in before] == [
        ("a", "accept", None),
        ("b", "keep", None),
        ("b", "undo", 2),
    ]
    assert decisions.add("b", "drop", "", "Bob", expected=3) == 4
    assert decisions.log()[:3] == before
    fresh.path.parent.mkdir()
    fresh.add("a", "drop", "", "Bob", expected=None)
    schemas = []
    for each in (decisions, fresh):
        with closing(sqlite3.connect(each.path)) as connection:
            rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")
            schemas.append(rows.fetchall())
    assert schemas[0] == schemas[1]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET label = 'x'",
        "DELETE FROM entries",
        "INSERT OR REPLACE INTO entries VALUES (1, 'a', 'keep', 'x', 'Eve', 'now', NULL)",
        "INSERT OR REPLACE INTO entries VALUES (9, 'a', 'undo', 'x', 'Eve', 'now', 1)",
        "INSERT INTO entries (id, verdict, label, reviewer, at) VALUES ('a', 'undo', 'x', 'Eve', 'now')",
        "INSERT INTO entries (id, verdict, label, reviewer, at) VALUES ('a', 'guess', 'x', 'Eve', 'now')",
    ],
)
def test_log_refuses_changes_in_sql(tmp_path: Path, statement: str) -> None:
    decisions = Decisions(tmp_path)
    decisions.add("a", "accept", "dog", "Ada", expected=None)
    decisions.undo("Ada")
    before = decisions.log()
    with closing(sqlite3.connect(tmp_path / DECISIONS_FILE)) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute(statement)
    assert decisions.log() == before


def test_decisions_use_wal_and_full_sync(tmp_path: Path) -> None:
    decisions = Decisions(tmp_path)
    decisions.add("a", "accept", "dog", "Ada", expected=0)
    with decisions._connect() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL


WRITER = """
import sys
from permll.cleaning.review_decisions import ConflictError, Decisions

decisions, name = Decisions(sys.argv[1]), sys.argv[2]
for number in range(int(sys.argv[3])):
    print(decisions.add(f"{name}-{number}", "accept", "dog", name, expected=None), flush=True)
    try:
        decisions.add(f"shared-{number}", "keep", "cat", name, expected=None)
    except ConflictError:
        pass
"""


def start_writer(folder: Path, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, folder, name, str(count)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_concurrent_writers_conflict(tmp_path: Path) -> None:
    names, count = ("Ada", "Bob", "Cem", "Dan"), 12
    writers = [start_writer(tmp_path, name, count) for name in names]  # they also create the file
    outputs = [writer.communicate(timeout=120) for writer in writers]
    assert [errors for _, errors in outputs] == [""] * len(names)
    current = Decisions(tmp_path).current()
    assert {f"{name}-{number}" for name in names for number in range(count)} <= set(current)
    shared = [entry for entry in Decisions(tmp_path).log() if entry.id.startswith("shared")]
    assert sorted(entry.id for entry in shared) == sorted(f"shared-{number}" for number in range(count))
    numbers = [int(line) for output, _ in outputs for line in output.split()]
    assert len(set(numbers)) == len(numbers) == len(names) * count


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@pytest.mark.parametrize("count", [1, 2, 17])
def test_returned_entries_survive_kill(tmp_path: Path, count: int) -> None:
    with start_writer(tmp_path, "Ada", 100_000) as writer:
        assert writer.stdout is not None
        returned = [int(writer.stdout.readline()) for _ in range(count)]
        writer.kill()
        returned += [int(line) for line in writer.stdout.read().split("\n")[:-1] if line]
    decisions = Decisions(tmp_path)
    log = decisions.log()
    assert set(returned) <= {entry.number for entry in log}
    assert len(decisions.current()) == len(log)
    assert decisions.add("after", "keep", "cat", "Bob", expected=None) == len(log) + 1


def test_reading_creates_no_file(tmp_path: Path) -> None:
    decisions = Decisions(tmp_path)
    assert (decisions.current(), decisions.log(), decisions.undo("Ada")) == ({}, [], None)
    assert list(tmp_path.iterdir()) == []


def test_entry_times_are_utc_and_ordered(tmp_path: Path) -> None:
    decisions = Decisions(tmp_path)
    for name in "abc":
        decisions.add(name, "keep", "cat", "Ada", expected=None)
    times = [entry.at for entry in decisions.log()]
    assert times == sorted(times)
    assert all(time.endswith("+00:00") for time in times)


def test_decision_error_messages(tmp_path: Path) -> None:
    decisions = Decisions(tmp_path)
    with pytest.raises(ValueError, match="accept, keep, choose, unsure, drop"):
        decisions.add("a", "guess", "cat", "Ada", expected=None)  # type: ignore[arg-type]
    for write in (lambda: decisions.add("a", "keep", "cat", "  ", expected=None), lambda: decisions.undo("")):
        with pytest.raises(ValueError, match="needs the name of its reviewer"):
            write()
    (tmp_path / DECISIONS_FILE).write_bytes(b"not a database, but long enough to look like one" * 20)
    with pytest.raises(OSError, match="cannot be used"):
        decisions.log()
    (tmp_path / DECISIONS_FILE).unlink()
    decisions.add("a", "keep", "cat", "Ada", expected=None)
    with closing(sqlite3.connect(tmp_path / DECISIONS_FILE)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(ValueError, match="newer version of permll"):
        decisions.current()
