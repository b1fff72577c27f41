"""The review queue against plain loops over findings."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from permll.findings import Findings
from permll.review.queue import MAX_PAGE_SIZE, SORTS, Filter, Queue
from permll.review.state import STATES


def make_findings(rows: int, classes: int, seed: int) -> tuple[Findings, np.ndarray]:
    rng = np.random.default_rng(seed)
    posterior = rng.dirichlet(np.full(classes, 0.5), rows)
    names = [f"class {number}" for number in range(classes)]
    findings = Findings.from_posterior(
        [str(row) for row in range(rows)], names, rng.integers(0, classes, rows), posterior
    )
    return findings, rng.integers(0, 3, rows).astype(np.uint8)


def order_of(findings: Findings, sort: str) -> list[int]:
    """Return all rows in order, by a plain sort with the words of the documentation as key."""
    given, proposed = findings.given_labels.tolist(), findings.proposed_labels.tolist()
    flagged = Counter((given[row], proposed[row]) for row in range(len(given)) if findings.is_issue[row])

    def key(row: int) -> tuple[object, ...]:
        pair, rank = (given[row], proposed[row]), int(findings.rank[row])
        if sort == "suspicion":
            return (rank,)
        if sort == "confidence":
            return (given[row] == proposed[row], -float(findings.confidence[row]), rank)
        return (given[row] == proposed[row], -flagged[pair], pair, rank)

    return sorted(range(len(given)), key=key)


def matching_rows(findings: Findings, codes: np.ndarray, filter_: Filter) -> list[int]:
    return [
        row
        for row in order_of(findings, filter_.sort)
        if (filter_.include_unflagged or findings.is_issue[row])
        and (
            filter_.pair is None
            or (int(findings.given_labels[row]), int(findings.proposed_labels[row])) == filter_.pair
        )
        and filter_.state in ("any", STATES[codes[row]])
        and all(word in findings.ids[row] for word in filter_.find.split())
    ]


filters = st.builds(
    Filter,
    st.sampled_from([*STATES, "any"]),
    st.booleans(),
    st.none() | st.tuples(st.integers(0, 4), st.integers(0, 4)),
    st.sampled_from(["", " ", "1", "2 3"]),
    st.sampled_from(SORTS),
)


@given(st.integers(1, 80), st.integers(2, 5), st.integers(0, 1000), filters, st.integers(1, 9))
@settings(max_examples=40)
def test_queue_pages_equal_loops(rows: int, classes: int, seed: int, filter_: Filter, limit: int) -> None:
    findings, codes = make_findings(rows, classes, seed)
    queue, expected = Queue(findings), matching_rows(findings, codes, filter_)
    forwards: list[int] = []
    while page := queue.page(
        filter_, codes, after=queue.place(forwards[-1], filter_.sort) if forwards else 0, limit=limit
    ).tolist():
        assert len(page) <= limit
        forwards += page
    assert forwards == expected
    backwards: list[int] = []
    while page := queue.page(
        filter_, codes, before=queue.place(backwards[0], filter_.sort) if backwards else rows + 1, limit=limit
    ).tolist():
        backwards = page + backwards
    assert backwards == expected
    assert queue.count(filter_, codes) == len(expected)
    for position, row in enumerate(expected, 1):
        assert queue.count(filter_, codes, max_place=queue.place(row, filter_.sort)) == position


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


def test_filter_refuses_unknown_order() -> None:
    with pytest.raises(ValueError, match="suspicion, confidence, pair"):
        Filter(sort="random")


@given(st.integers(1, 80), st.integers(2, 5), st.integers(0, 1000), filters, st.integers(1, 5))
@settings(max_examples=40)
def test_matrix_counts_what_its_cells_open(rows: int, classes: int, seed: int, filter_: Filter, limit: int) -> None:
    findings, codes = make_findings(rows, classes, seed)
    queue, filter_ = Queue(findings), replace(filter_, pair=None)
    matrix = queue.matrix(filter_, codes, limit)
    for cell in matrix["cells"]:
        given, proposed = map(int, cell["pair"].split("-"))
        names = findings.classes[given], findings.classes[proposed]
        assert (matrix["classes"][cell["given"]], matrix["classes"][cell["proposed"]]) == names
        assert cell["count"] == queue.count(replace(filter_, pair=(given, proposed)), codes) > 0
    assert matrix["matching"] == queue.count(filter_, codes)
    assert len(matrix["classes"]) == min(limit, matrix["num_classes"])
    if limit >= matrix["num_classes"]:  # nothing is hidden
        assert sum(cell["count"] for cell in matrix["cells"]) == matrix["matching"]


def test_matrix_of_many_classes_shows_those_with_most_confusions() -> None:
    given = [0] * 3 + [1] * 2 + [2] * 9
    posterior = np.eye(4)[[3] * 3 + [0] * 2 + [2] * 9]
    findings = Findings.from_posterior([str(row) for row in range(14)], list("abcd"), given, posterior)
    codes = np.zeros(14, np.uint8)
    matrix = Queue(findings).matrix(Filter("any", include_unflagged=True), codes, limit=2)
    assert matrix["classes"] == ["a", "d"]  # not c, which has most samples but none of another class
    assert matrix["cells"] == [{"given": 0, "proposed": 1, "pair": "0-3", "count": 3}]
    assert (matrix["matching"], matrix["num_classes"]) == (14, 4)


def test_search_finds_equal_id_first() -> None:
    ids = ["cat/11.png", "cat/1.png", "dog/1.png", "1.png", "Straße 1", "x"]
    findings = Findings.from_posterior(ids, ["a", "b"], [0] * 6, [[0.1, 0.9]] * 6)
    queue = Queue(findings)
    rows, count = queue.search("1.PNG")
    assert ([ids[row] for row in rows], count) == (["1.png", "cat/11.png", "cat/1.png", "dog/1.png"], 4)
    assert queue.search("1.png", limit=1) == ([3], 4)
    assert queue.search("dog png") == ([2], 1)  # words in any order
    assert queue.search("STRASSE") == ([4], 1)
    assert queue.search("nothing") == queue.search("") == queue.search("  ") == ([], 0)
