"""Rank tests against loops and published tables."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from permll.report.tables.rank_table import rank_tables, tie_letters
from permll.report.tables.rank_tests import (
    bootstrap_intervals,
    complete_blocks,
    critical_difference,
    friedman_test,
    rank_methods,
    tie_groups,
)
from tests.helpers.bench_rows import grid, row

SMALL = st.integers(0, 4).map(lambda value: value / 4)  # few values, so that there are ties


@st.composite
def tables(draw: st.DrawFn) -> np.ndarray:
    n, k = draw(st.integers(2, 8)), draw(st.integers(2, 6))
    return np.array(draw(st.lists(st.lists(SMALL, min_size=k, max_size=k), min_size=n, max_size=n)))


@given(tables())
def test_friedman_test_equals_loops(scores: np.ndarray) -> None:
    ranks = stats.rankdata(scores, axis=1)
    statistic, p = friedman_test(ranks)
    n, k = scores.shape
    above = below = 0.0
    for method in range(k):
        total = sum(ranks[block, method] for block in range(n))
        above += (total - n * (k + 1) / 2) ** 2
        below += sum((ranks[block, method] - (k + 1) / 2) ** 2 for block in range(n))
    expected = (k - 1) * above / below if below else 0.0
    assert (statistic, p) == pytest.approx((expected, stats.chi2.sf(expected, k - 1)), abs=1e-9)


# Demšar, Statistical Comparisons of Classifiers over Multiple Data Sets, JMLR 2006, Table 5 (a): q / √2 at 5 %.
@pytest.mark.parametrize(("methods", "q"), [(2, 1.960), (3, 2.343), (5, 2.728), (10, 3.164)])
def test_critical_difference_matches_table(methods: int, q: float) -> None:
    expected = q * math.sqrt(methods * (methods + 1) / (6 * 14))
    assert critical_difference(methods, 14) == pytest.approx(expected, rel=5e-4)


@given(st.lists(st.floats(1, 9), min_size=1, max_size=7).map(sorted), st.floats(0.1, 5))
def test_tie_groups_are_maximal(means: list[float], critical: float) -> None:
    groups = tie_groups(means, critical)
    expected_groups = set()
    for start, end in itertools.combinations(range(len(means)), 2):
        if means[end] - means[start] < critical:
            expected_groups.add(tuple(range(start, end + 1)))
    largest = {one for one in expected_groups if not any(set(one) < set(other) for other in expected_groups)}
    assert set(groups) == largest
    assert len(groups) == len(largest)


def test_bootstrap_resamples_settings_then_seeds() -> None:
    ranks = np.array([[1.0, 2], [1, 2], [2, 1], [2, 1]])
    settings = [("a", "x"), ("a", "x"), ("b", "x"), ("b", "x")]
    # Whole settings are drawn: the mean rank is 1, 1.5 or 2 and nothing between, with chances 1/4, 1/2, 1/4.
    np.testing.assert_array_equal(bootstrap_intervals(ranks, settings, seed=0), [[1, 2], [1, 2]])
    half = bootstrap_intervals(ranks, settings, seed=0, level=0.4)
    np.testing.assert_array_equal(half, [[1.5, 1.5], [1.5, 1.5]])
    generator = np.random.default_rng(3)
    many = generator.permuted(np.tile(np.arange(1.0, 5), (12, 1)), axis=1)
    of_many = [(f"{index // 3}", "x") for index in range(12)]
    first, same, different = (bootstrap_intervals(many, of_many, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, different)
    assert (first[:, 0] <= many.mean(0)).all()
    assert (first[:, 1] >= many.mean(0)).all()


def test_ranking_uses_common_blocks() -> None:
    rows = grid(("ce", "elr", "permll"), ("sym-20", "sym-60"), seeds=2)
    rows += [row("ce", "sym-80"), row("permll", "sym-80"), row("sop", "sym-20")]
    ranking = rank_methods(rows)
    assert ranking is not None
    assert set(ranking.methods) == {("ce", ""), ("elr", ""), ("permll", "")}
    assert ranking.blocks == tuple(("fashion_mnist", noise, seed) for noise in ("sym-20", "sym-60") for seed in (1, 2))
    assert ranking.left_out == (("sop", ""),)
    assert ranking.methods[0] == ("permll", "")
    expected_groups: dict[str, list[int]] = {}
    for noise, seed in itertools.product(("sym-20", "sym-60"), (1, 2)):
        block = {one["method"]: one["last"] for one in rows if (one["noise"], one["seed"]) == (noise, seed)}
        for method in ("ce", "elr", "permll"):
            better = [other for other in ("ce", "elr", "permll") if block[other] > block[method]]
            expected_groups.setdefault(method, []).append(1 + len(better))
    expected = {method: sum(ranks) / 4 for method, ranks in expected_groups.items()}
    assert dict(zip((key[0] for key in ranking.methods), ranking.mean_ranks, strict=True)) == pytest.approx(expected)


def test_complete_blocks_maximizes_comparisons() -> None:
    blocks = [("d", "n", seed) for seed in range(4)]
    sets = {("a", ""): set(blocks), ("b", ""): set(blocks), ("c", ""): set(blocks[:3]), ("e", ""): set(blocks[:1])}
    methods, shared = complete_blocks(sets)
    assert (methods, shared) == ([("a", ""), ("b", ""), ("c", "")], blocks[:3])
    assert complete_blocks({}) == ([], [])


def test_ranking_needs_two_methods_and_blocks() -> None:
    assert rank_methods([row("ce"), row("elr")]) is None  # one block
    assert rank_methods(grid(("ce",))) is None
    assert rank_methods([row("ce", last=None), row("elr", seed=2)]) is None


def test_ranking_ignores_row_order() -> None:
    rows = grid(("ce", "elr", "permll"), ("sym-60", "asym-40"))
    ranking, reversed_ranking = rank_methods(rows), rank_methods(rows[::-1])
    assert ranking is not None
    assert reversed_ranking is not None
    assert ranking.methods == reversed_ranking.methods
    np.testing.assert_array_equal(ranking.intervals, reversed_ranking.intervals)


def test_rank_table_marks_ties() -> None:
    rows = [*grid(seeds=3), *(row("glc", noise, seed, 0.99) for noise in ("sym-20", "sym-60") for seed in (1, 2, 3))]
    (table,) = rank_tables(rows)
    ranking = rank_methods([one for one in rows if one["method"] != "glc"])
    assert ranking is not None
    assert [line.method for line in table.lines] == [
        method for method, _ in ranking.methods
    ]  # GLC was given right labels
    ranks = [line.cells[0].mean for line in table.lines]
    assert ranks == sorted(ranks)
    for one, other in itertools.combinations(range(len(ranks)), 2):
        tied = ranks[other] - ranks[one] < ranking.critical_difference
        shared = set(table.lines[one].cells[3].note.split()) & set(table.lines[other].cells[3].note.split())
        assert bool(shared) == tied
    best = {line.method for line in table.lines if line.cells[0].bold}
    assert best == {
        line.method
        for line, mean in zip(table.lines, ranks, strict=True)
        if mean - ranks[0] < ranking.critical_difference
    }
    assert tie_letters(ranking)[0].split()[0] == "a"
    assert "over 18 blocks (6 settings of data and noise, with their seeds)" in table.caption
