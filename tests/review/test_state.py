"""Incremental review state against a replay of the log."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from permll.cleaning.review_decisions import Decision, current_decisions
from permll.review.state import STATES, ReviewState

IDS = ("a", "b", "c")


@st.composite
def logs(draw: st.DrawFn) -> list[Decision]:
    """Draw a log as the store could have written it: nothing is taken back twice, and no undo is."""
    log: list[Decision] = []
    for number in range(1, draw(st.integers(0, 25)) + 1):
        in_force = [e for e in log if e.takes_back is None and e.number not in {u.takes_back for u in log}]
        if in_force and draw(st.booleans()):
            undone = draw(st.sampled_from(in_force))
            log.append(undone._replace(number=number, verdict="undo", takes_back=undone.number))
        else:
            verdict = draw(st.sampled_from(["accept", "keep", "choose", "unsure"]))
            id = draw(st.sampled_from([*IDS, "of another data set"]))
            log.append(Decision(id, verdict, f"label {number}", "Ada", "2024-05-01", number))
    return log


@given(logs(), st.lists(st.integers(0, 25), max_size=4))
@settings(max_examples=50)
def test_incremental_update_equals_replay(log: list[Decision], cuts: list[int]) -> None:
    state = ReviewState(IDS)
    positions = sorted([0, *(min(cut, len(log)) for cut in cuts), len(log)])
    for start, end in pairwise(positions):
        state.update(log[start:end])
    holds = current_decisions(log)
    for row, id in enumerate(IDS):
        assert state.decision(row) == holds.get(id)
        assert state.newest[row] == max([entry.number for entry in log if entry.id == id], default=0)
        verdict = holds[id].verdict if id in holds else None
        expected = {None: "open", "unsure": "unsure"}.get(verdict, "decided")
        assert STATES[state.codes[row]] == expected
        assert state.history(row) == [entry for entry in log if entry.id == id]
    assert state.last_entry == len(log)
