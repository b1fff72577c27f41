"""The queue against a slow version: plain loops over findings."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from permll.cleaning.findings import Findings
from permll.review.queue import MAX_PAGE_SIZE, Filter, Queue
from permll.review.state import STATES


def some(rows: int, classes: int, seed: int) -> tuple[Findings, np.ndarray]:
    rng = np.random.default_rng(seed)
    posterior = rng.dirichlet(np.full(classes, 0.5), rows)
    names = [f"class {number}" for number in range(classes)]
    found = Findings.of_posterior([str(row) for row in range(rows)], names, rng.integers(0, classes, rows), posterior)
    return found, rng.integers(0, 3, rows).astype(np.uint8)


def slow(found: Findings, state: np.ndarray, wish: Filter) -> list[int]:
    return [
        row
        for row in found.order.tolist()
        if (wish.include_unflagged or found.flagged[row])
        and (wish.pair is None or (int(found.given[row]), int(found.proposed[row])) == wish.pair)
        and wish.state in ("any", STATES[state[row]])
    ]


wishes = st.builds(
    Filter,
    st.sampled_from([*STATES, "any"]),
    st.booleans(),
    st.none() | st.tuples(st.integers(0, 4), st.integers(0, 4)),
)


@given(st.integers(1, 80), st.integers(2, 5), st.integers(0, 1000), wishes, st.integers(1, 9))
@settings(max_examples=40)
def test_queue_pages_equal_loops(rows: int, classes: int, seed: int, wish: Filter, limit: int) -> None:
    found, state = some(rows, classes, seed)
    queue, expected = Queue(found), slow(found, state, wish)
    forwards: list[int] = []
    while page := queue.page(wish, state, after=int(found.rank[forwards[-1]]) if forwards else 0, limit=limit).tolist():
        assert len(page) <= limit
        forwards += page
    assert forwards == expected
    backwards: list[int] = []
    while page := queue.page(
        wish, state, before=int(found.rank[backwards[0]]) if backwards else rows + 1, limit=limit
    ).tolist():
        backwards = page + backwards
    assert backwards == expected
    assert queue.count(wish, state) == len(expected)
    for place, row in enumerate(expected, 1):
        assert queue.count(wish, state, max_rank=int(found.rank[row])) == place


@given(st.integers(1, 80), st.integers(2, 5), st.integers(0, 1000), st.booleans())
@settings(max_examples=40)
def test_queue_pairs_and_progress(rows: int, classes: int, seed: int, everything: bool) -> None:
    found, state = some(rows, classes, seed)
    queue, wish = Queue(found), Filter("any", everything)
    scope = slow(found, state, wish)
    pairs = Counter((found.classes[found.given[row]], found.classes[found.proposed[row]]) for row in scope)
    listed = queue.pairs(wish, state, limit=1000)
    assert {(one["given"], one["proposed"]): one["count"] for one in listed} == {
        pair: count for pair, count in pairs.items() if pair[0] != pair[1]
    }
    assert [one["count"] for one in listed] == sorted((one["count"] for one in listed), reverse=True)
    for one in listed:
        first, second = map(int, one["pair"].split("-"))
        assert one["count"] == queue.count(Filter("any", everything, (first, second)), state)
        assert one["open"] == queue.count(Filter("open", everything, (first, second)), state)
    progress = queue.progress(wish, state)
    assert progress["total"] == len(scope) == progress["open"] + progress["decided"] + progress["unsure"]
    assert progress["decided"] == len(slow(found, state, Filter("decided", everything)))


def test_queue_limits_page_size() -> None:
    found, state = some(100_000, 10, 0)
    queue = Queue(found)
    assert len(queue.page(Filter("any", True), state, limit=10**6)) == MAX_PAGE_SIZE
    seen = queue.page(Filter("any", True), state, after=99_990)
    assert seen.tolist() == found.order[99_990:].tolist()
    assert len(queue.pairs(Filter("any", True), state)) == 50


def test_filter_refuses_unknown_state() -> None:
    with pytest.raises(ValueError, match="open, decided, unsure or any"):
        Filter("maybe")
