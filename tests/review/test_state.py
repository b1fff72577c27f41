"""How things stand follows from the log, in whatever pieces it comes."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from permll.cleaning.decisions import Entry, replay
from permll.review.state import STATES, ReviewState

IDS = ("a", "b", "c")


@st.composite
def logs(draw: st.DrawFn) -> list[Entry]:
    """Draw a log as the store could have written it: nothing is taken back twice, and no undo is."""
    log: list[Entry] = []
    for number in range(1, draw(st.integers(0, 25)) + 1):
        standing = [e for e in log if e.takes_back is None and e.number not in {u.takes_back for u in log}]
        if standing and draw(st.booleans()):
            undone = draw(st.sampled_from(standing))
            log.append(undone._replace(number=number, verdict="undo", takes_back=undone.number))
        else:
            verdict = draw(st.sampled_from(["accept", "keep", "choose", "unsure"]))
            id = draw(st.sampled_from([*IDS, "of another data set"]))
            log.append(Entry(number, id, verdict, f"label {number}", "Ada", "2024-05-01", None))
    return log


@given(logs(), st.lists(st.integers(0, 25), max_size=4))
@settings(max_examples=50)
def test_incremental_update_equals_replay(log: list[Entry], cuts: list[int]) -> None:
    standing = ReviewState(IDS)
    places = sorted([0, *(min(cut, len(log)) for cut in cuts), len(log)])
    for start, end in pairwise(places):
        standing.update(log[start:end])
    holds = replay(log)
    for row, id in enumerate(IDS):
        assert standing.decision(row) == holds.get(id)
        assert standing.newest[row] == max([entry.number for entry in log if entry.id == id], default=0)
        verdict = holds[id].verdict if id in holds else None
        expected = {None: "open", "unsure": "unsure"}.get(verdict, "decided")
        assert STATES[standing.codes[row]] == expected
        assert standing.history(row) == [entry for entry in log if entry.id == id]
    assert standing.last_entry == len(log)
