"""The store of decisions: its log says everything, nobody overwrites anybody, and what was acknowledged stays."""

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

from permll.cleaning.decisions import FILE, VERDICTS, ConflictError, Decisions, Entry, replay

IDS = st.sampled_from(["a.png", "b/ü.png", "<c>"])
NAMES = st.sampled_from(["Ada", "Bob"])
LABELS = st.sampled_from(["cat", "dog", "O'Hara; DROP TABLE entries"])


class Reviewing(RuleBasedStateMachine):
    """People decide, take back and come too late; a plain list of what still stands is the slow version."""

    @initialize()
    def begin(self) -> None:
        self.folder = TemporaryDirectory()
        self.decisions = Decisions(self.folder.name)
        self.standing: list[tuple[str, str, str, str]] = []  # id, verdict, label, reviewer
        self.newest: dict[str, int] = {}
        self.before: list[Entry] = []

    @rule(id=IDS, verdict=st.sampled_from(VERDICTS), label=LABELS, reviewer=NAMES)
    def decide(self, id: str, verdict: str, label: str, reviewer: str) -> None:
        number = self.decisions.add(id, verdict, label, reviewer, expected=self.newest.get(id))
        assert number == len(self.before) + 1
        self.newest[id] = number
        self.standing.append((id, verdict, label, reviewer))

    @rule(id=IDS, off=st.sampled_from([-1, 1, 7]), reviewer=NAMES)
    def come_too_late(self, id: str, off: int, reviewer: str) -> None:
        seen = self.newest.get(id, 0)
        with pytest.raises(ConflictError) as conflict:
            self.decisions.add(id, "keep", "cat", reviewer, expected=seen + off)
        assert (conflict.value.id, conflict.value.newest) == (id, seen)

    @rule(reviewer=NAMES)
    def undo(self, reviewer: str) -> None:
        own = [place for place, one in enumerate(self.standing) if one[3] == reviewer]
        undone = self.decisions.undo(reviewer)
        if not own:
            assert undone is None
            return
        expected = self.standing.pop(own[-1])
        assert undone is not None
        assert undone[:4] == expected
        self.newest[undone.id] = len(self.before) + 1

    @invariant()
    def the_log_only_grows_and_says_everything(self) -> None:
        if not hasattr(self, "decisions"):
            return
        log = self.decisions.log()
        assert log[: len(self.before)] == self.before
        assert [entry.number for entry in log] == list(range(1, len(log) + 1))
        assert self.decisions.log(after=len(self.before)) == log[len(self.before) :]
        self.before = log
        current = self.decisions.current()
        assert {id: decision[:4] for id, decision in current.items()} == {one[0]: one for one in self.standing}
        assert replay(log) == current

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()


TestReviewing = Reviewing.TestCase
TestReviewing.settings = settings(max_examples=8, stateful_step_count=15)


@pytest.mark.parametrize(
    "attack",
    [
        "UPDATE entries SET label = 'x'",
        "DELETE FROM entries",
        "INSERT OR REPLACE INTO entries VALUES (1, 'a', 'keep', 'x', 'Eve', 'now', NULL)",
        "INSERT OR REPLACE INTO entries VALUES (9, 'a', 'undo', 'x', 'Eve', 'now', 1)",
        "INSERT INTO entries (id, verdict, label, reviewer, at) VALUES ('a', 'undo', 'x', 'Eve', 'now')",
        "INSERT INTO entries (id, verdict, label, reviewer, at) VALUES ('a', 'guess', 'x', 'Eve', 'now')",
    ],
)
def test_the_log_cannot_be_changed_even_with_sql(tmp_path: Path, attack: str) -> None:
    decisions = Decisions(tmp_path)
    decisions.add("a", "accept", "dog", "Ada", expected=None)
    decisions.undo("Ada")
    before = decisions.log()
    with closing(sqlite3.connect(tmp_path / FILE)) as store, pytest.raises(sqlite3.IntegrityError):
        store.execute(attack)
    assert decisions.log() == before


def test_it_writes_ahead_and_waits_for_the_disk(tmp_path: Path) -> None:
    decisions = Decisions(tmp_path)
    decisions.add("a", "accept", "dog", "Ada", expected=0)
    with decisions._open() as store:
        assert store.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert store.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL


WRITER = """
import sys
from permll.cleaning.decisions import ConflictError, Decisions

decisions, who = Decisions(sys.argv[1]), sys.argv[2]
for number in range(int(sys.argv[3])):
    print(decisions.add(f"{who}-{number}", "accept", "dog", who, expected=None), flush=True)
    try:
        decisions.add(f"shared-{number}", "keep", "cat", who, expected=None)
    except ConflictError:
        pass
"""


def start(folder: Path, who: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, folder, who, str(count)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_several_processes_write_at_once_and_one_of_them_is_first(tmp_path: Path) -> None:
    people, count = ("Ada", "Bob", "Cem", "Dan"), 12
    writers = [start(tmp_path, who, count) for who in people]  # they make the file, too
    printed = [writer.communicate(timeout=120) for writer in writers]
    assert [complaints for _, complaints in printed] == [""] * len(people)
    current = Decisions(tmp_path).current()
    assert {f"{who}-{number}" for who in people for number in range(count)} <= set(current)
    shared = [entry for entry in Decisions(tmp_path).log() if entry.id.startswith("shared")]
    assert sorted(entry.id for entry in shared) == sorted(f"shared-{number}" for number in range(count))
    numbers = [int(line) for output, _ in printed for line in output.split()]
    assert len(set(numbers)) == len(numbers) == len(people) * count


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="nothing is killed this way here")
@pytest.mark.parametrize("acknowledged", [1, 2, 17])
def test_what_was_acknowledged_survives_a_kill(tmp_path: Path, acknowledged: int) -> None:
    with start(tmp_path, "Ada", 100_000) as writer:
        assert writer.stdout is not None
        seen = [int(writer.stdout.readline()) for _ in range(acknowledged)]
        writer.kill()
        seen += [int(line) for line in writer.stdout.read().split("\n")[:-1] if line]
    decisions = Decisions(tmp_path)
    log = decisions.log()
    assert set(seen) <= {entry.number for entry in log}
    assert replay(log) == decisions.current()
    assert decisions.add("after", "keep", "cat", "Bob", expected=None) == len(log) + 1


def test_looking_leaves_no_trace(tmp_path: Path) -> None:
    decisions = Decisions(tmp_path)
    assert (decisions.current(), decisions.log(), decisions.undo("Ada")) == ({}, [], None)
    assert list(tmp_path.iterdir()) == []


def test_times_are_utc_and_in_order(tmp_path: Path) -> None:
    decisions = Decisions(tmp_path)
    for name in "abc":
        decisions.add(name, "keep", "cat", "Ada", expected=None)
    times = [entry.at for entry in decisions.log()]
    assert times == sorted(times)
    assert all(time.endswith("+00:00") for time in times)


def test_problems_are_one_sentence(tmp_path: Path) -> None:
    decisions = Decisions(tmp_path)
    with pytest.raises(ValueError, match="accept, keep, choose, unsure"):
        decisions.add("a", "guess", "cat", "Ada", expected=None)  # type: ignore[arg-type]
    for write in (lambda: decisions.add("a", "keep", "cat", "  ", expected=None), lambda: decisions.undo("")):
        with pytest.raises(ValueError, match="needs the name of its reviewer"):
            write()
    (tmp_path / FILE).write_bytes(b"this is no database, but long enough to be taken for one" * 20)
    with pytest.raises(OSError, match="cannot be used"):
        decisions.log()
    (tmp_path / FILE).unlink()
    decisions.add("a", "keep", "cat", "Ada", expected=None)
    with closing(sqlite3.connect(tmp_path / FILE)) as store:
        store.execute("PRAGMA user_version = 99")
    with pytest.raises(ValueError, match="newer permll"):
        decisions.current()
