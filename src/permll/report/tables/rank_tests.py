"""Comparison of methods over many settings: mean ranks, Friedman test, Nemenyi critical difference and ties."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from permll.report.tables.titles import Key, Row, method_key

Floats = NDArray[np.float64]
Block = tuple[str, str, int]  # data, noise and seed
LEVEL = 0.95
NUM_RESAMPLES = 2000


@dataclass(frozen=True)
class Ranking:
    """Methods from the best mean rank to the worst."""

    methods: tuple[Key, ...]  # k methods
    mean_ranks: Floats  # (k,), 1 is best; tied scores share the mean of their ranks
    intervals: Floats  # (k, 2) bootstrap intervals of the mean ranks
    blocks: tuple[Block, ...]  # n blocks on which all methods have a score
    statistic: float  # Friedman's chi-square, corrected for ties
    p: float  # of the Friedman test, whose null hypothesis is that all methods perform the same
    critical_difference: float  # of mean ranks, by Nemenyi
    groups: tuple[tuple[int, ...], ...]  # maximal groups of tied methods, as indices into methods
    left_out: tuple[Key, ...]  # methods with too few scores to be compared


def rank_methods(rows: Iterable[Row]) -> Ranking | None:
    """Rank the methods in rows of one tier by last accuracy; None if no two methods have two blocks in common.

    A block is one data set with one noise and one seed. Methods are compared on the blocks that all of them have; see
    ``complete_blocks`` for the choice of methods if some have few blocks.

    Examples:
        >>> jobs = [("ce", 1, 0.5), ("elr", 1, 0.7), ("ce", 2, 0.4), ("elr", 2, 0.8)]
        >>> rows = [{"data": "digits", "noise": "sym-40", "method": m, "seed": s, "last": x} for m, s, x in jobs]
        >>> ranking = rank_methods(rows)
        >>> ranking.methods, ranking.mean_ranks
        ((('elr', ''), ('ce', '')), array([1., 2.]))
    """
    from scipy.stats import rankdata

    scores: dict[Key, dict[Block, float]] = {}
    for row in rows:
        if row.get("last") is not None:
            scores.setdefault(method_key(row), {})[row["data"], row["noise"], row["seed"]] = row["last"]
    methods, blocks = complete_blocks({key: set(by_block) for key, by_block in scores.items()})
    if len(methods) < 2 or len(blocks) < 2:
        return None
    ranks = rankdata([[-scores[key][block] for key in methods] for block in blocks], axis=1)
    order = np.argsort(ranks.mean(0), kind="stable")
    ranks = ranks[:, order]
    statistic, p = friedman_test(ranks)
    means, critical = ranks.mean(0), critical_difference(len(methods), len(blocks))
    return Ranking(
        tuple(methods[index] for index in order),
        means,
        bootstrap_intervals(ranks, [block[:2] for block in blocks]),
        tuple(blocks),
        statistic,
        p,
        critical,
        tie_groups(means, critical),
        tuple(sorted(scores.keys() - set(methods))),
    )


def complete_blocks(blocks: Mapping[Key, set[Block]]) -> tuple[list[Key], list[Block]]:
    """Return k methods and the n blocks that all of them have, with (k - 1) · n large, then k large.

    Candidates are the blocks of each method, and those that two methods share.

    Examples:
        >>> first, second = ("digits", "sym-40", 1), ("digits", "sym-40", 2)
        >>> complete_blocks({("a", ""): {first, second}, ("b", ""): {first, second}, ("c", ""): {first}})[0]
        [('a', ''), ('b', ''), ('c', '')]
    """
    sets = [frozenset(of_method) for of_method in blocks.values()]
    candidates: list[tuple[int, int, list[Key], list[Block]]] = []
    for shared in {a & b for a in sets for b in sets}:
        methods = sorted(key for key, of_method in blocks.items() if shared <= of_method)
        candidates.append(((len(methods) - 1) * len(shared), len(methods), methods, sorted(shared)))
    *_, methods, chosen = max(candidates, default=(0, 0, [], []))
    return methods, chosen


def friedman_test(ranks: Floats) -> tuple[float, float]:
    """Return Friedman's statistic of ranks (n, k), corrected for ties, and its p value; (0, 1) if all are tied.

    Examples:
        >>> statistic, p = friedman_test(np.array([[1.0, 2.0, 3.0]] * 4))
        >>> statistic, round(p, 4)
        (8.0, 0.0183)
    """
    from scipy.stats import chisquare, friedmanchisquare

    if np.ptp(ranks, axis=1).max() == 0:
        return 0.0, 1.0
    if ranks.shape[1] == 2:  # which friedmanchisquare refuses: the test is then that of equally many wins
        statistic, p = chisquare((ranks == 1).sum(0))
    else:
        statistic, p = friedmanchisquare(*ranks.T)
    return float(statistic), float(p)


def critical_difference(methods: int, blocks: int) -> float:
    """Return Nemenyi's critical difference of two mean ranks, q_{0.95, k, ∞} / √2 · √(k (k + 1) / (6 n)).

    q is the quantile of the studentized range of k means with infinitely many degrees of freedom.

    Examples:
        >>> round(critical_difference(methods=5, blocks=10), 3)  # q / √2 = 2.728 in Demšar's table
        1.929
    """
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(LEVEL, methods, np.inf)) / math.sqrt(2)
    return q * math.sqrt(methods * (methods + 1) / (6 * blocks))


def bootstrap_intervals(
    ranks: Floats, settings: Sequence[tuple[str, str]], *, seed: int = 0, level: float = LEVEL
) -> Floats:
    """Return the (k, 2) intervals of the mean ranks by a hierarchical bootstrap: settings, then seeds within each.

    Seeds of one setting are correlated, so ``scipy.stats.bootstrap``, which draws single blocks, would give intervals
    that are too narrow.

    Args:
        ranks: (n, k) ranks.
        settings: data and noise of each of the n blocks.
        seed: seed of the draws.
        level: coverage of the intervals.
    """
    generator = np.random.default_rng(seed)
    groups = [np.flatnonzero([one == setting for one in settings]) for setting in sorted(set(settings))]
    sums, counts = np.zeros((NUM_RESAMPLES, ranks.shape[1])), np.zeros((NUM_RESAMPLES, 1))
    for drawn in generator.integers(len(groups), size=(len(groups), NUM_RESAMPLES)):
        for group, blocks in enumerate(groups):
            rows = np.flatnonzero(drawn == group)  # the resamples that drew this setting
            seeds = blocks[generator.integers(len(blocks), size=(len(rows), len(blocks)))]
            sums[rows] += ranks[seeds].sum(1)
            counts[rows] += len(blocks)
    tail = (1 - level) / 2
    return np.quantile(sums / counts, [tail, 1 - tail], axis=0).T


def tie_groups(mean_ranks: Sequence[float] | Floats, critical: float) -> tuple[tuple[int, ...], ...]:
    """Return maximal groups of indices whose ascending mean ranks differ by less than the critical difference.

    No group contains another, and a method without ties is in no group.

    Examples:
        >>> tie_groups([1.0, 1.5, 2.2, 4.0], critical=1.0)
        ((0, 1), (1, 2))
    """
    groups: list[tuple[int, ...]] = []
    for start in range(len(mean_ranks)):
        end = max(index for index in range(len(mean_ranks)) if mean_ranks[index] - mean_ranks[start] < critical)
        if end > start and (not groups or end > groups[-1][-1]):
            groups.append(tuple(range(start, end + 1)))
    return tuple(groups)
