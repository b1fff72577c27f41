"""The review queue against plain loops over findings."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from permll.findings import Findings
from permll.review.queue import MAX_PAGE_SIZE, Filter, Queue
from permll.review.state import STATES


def make_findings(rows: int, classes: int, seed: int) -> tuple[Findings, np.ndarray]:
    rng = np.random.default_rng(seed)
    posterior = rng.dirichlet(np.full(classes, 0.5), rows)
    names = [f"class {number}" for number in range(classes)]
    findings = Findings.from_posterior(
        [str(row) for row in range(rows)], names, rng.integers(0, classes, rows), posterior
    )
    return findings, rng.integers(0, 3, rows).astype(np.uint8)


def matching_rows(findings: Findings, codes: np.ndarray, filter_: Filter) -> list[int]:
    return [
        row
        for row in findings.order.tolist()
        if (filter_.include_unflagged or findings.is_issue[row])
        and (
            filter_.pair is None
            or (int(findings.given_labels[row]), int(findings.proposed_labels[row])) == filter_.pair
        )
        and filter_.state in ("any", STATES[codes[row]])
    ]


filters = st.builds(
    Filter,
    st.sampled_from([*STATES, "any"]),
    st.booleans(),
    st.none() | st.tuples(st.integers(0, 4), st.integers(0, 4)),
)


@given(st.integers(1, 80), st.integers(2, 5), st.integers(0, 1000), filters, st.integers(1, 9))
@settings(max_examples=40)
def test_queue_pages_equal_loops(rows: int, classes: int, seed: int, filter_: Filter, limit: int) -> None:
    findings, codes = make_findings(rows, classes, seed)
    queue, expected = Queue(findings), matching_rows(findings, codes, filter_)
    forwards: list[int] = []
    while page := queue.page(
        filter_, codes, after=int(findings.rank[forwards[-1]]) if forwards else 0, limit=limit
    ).tolist():
        assert len(page) <= limit
        forwards += page
    assert forwards == expected
    backwards: list[int] = []
    while page := queue.page(
        filter_, codes, before=int(findings.rank[backwards[0]]) if backwards else rows + 1, limit=limit
    ).tolist():
        backwards = page + backwards
    assert backwards == expected
    assert queue.count(filter_, codes) == len(expected)
    for position, row in enumerate(expected, 1):
        assert queue.count(filter_, codes, max_rank=int(findings.rank[row])) == position


@given(st.integers(1, 80), st.integers(2, 5), st.integers(0, 1000), st.booleans())
@settings(max_examples=40)
def test_queue_pairs_and_progress(rows: int, classes: int, seed: int, everything: bool) -> None:
    findings, codes = make_findings(rows, classes, seed)
    queue, filter_ = Queue(findings), Filter("any", everything)
    scope = matching_rows(findings, codes, filter_)
    pairs = Counter(
        (findings.classes[findings.given_labels[row]], findings.classes[findings.proposed_labels[row]]) for row in scope
    )
    pairs_of_queue = queue.pairs(filter_, codes, limit=1000)
    assert {(pair_info["given"], pair_info["proposed"]): pair_info["count"] for pair_info in pairs_of_queue} == {
        pair: count for pair, count in pairs.items() if pair[0] != pair[1]
    }
    assert [pair_info["count"] for pair_info in pairs_of_queue] == sorted(
        (pair_info["count"] for pair_info in pairs_of_queue), reverse=True
    )
    for pair_info in pairs_of_queue:
        first, second = map(int, pair_info["pair"].split("-"))
        assert pair_info["count"] == queue.count(Filter("any", everything, (first, second)), codes)
        assert pair_info["open"] == queue.count(Filter("open", everything, (first, second)), codes)
    progress = queue.progress(filter_, codes)
    assert progress["total"] == len(scope) == progress["open"] + progress["decided"] + progress["unsure"]
    assert progress["decided"] == len(matching_rows(findings, codes, Filter("decided", everything)))


def test_queue_limits_page_size() -> None:
    findings, codes = make_findings(100_000, 10, 0)
    queue = Queue(findings)
    assert len(queue.page(Filter("any", True), codes, limit=10**6)) == MAX_PAGE_SIZE
    page = queue.page(Filter("any", True), codes, after=99_990)
    assert page.tolist() == findings.order[99_990:].tolist()
    assert len(queue.pairs(Filter("any", True), codes)) == 50


def test_filter_refuses_unknown_state() -> None:
    with pytest.raises(ValueError, match="open, decided, unsure or any"):
        Filter("maybe")
