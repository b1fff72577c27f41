"""Who is better over many settings: mean ranks, whether they differ at all, and which of them are ties."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Key = tuple[str, str]  # a method and its variant
Block = tuple[str, str, int]  # data, noise and seed
LEVEL = 0.95
DRAWS = 2000


@dataclass(frozen=True)
class Ranking:
    """Methods from the best mean rank to the worst.

    Args:
        methods: k of them.
        mean_ranks: (k,), 1 is best; equal numbers share the mean of their ranks.
        intervals: (k, 2) bootstrap intervals of the mean ranks.
        blocks: on which the methods were compared: each has a number in each of them.
        statistic: Friedman's chi-square, corrected for ties.
        p: its p value: how likely such a statistic is if all methods are alike.
        critical_difference: Nemenyi's: mean ranks nearer than this are ties.
        groups: of ties, as large as they can be, each with the places of its methods.
        left_out: methods that have too few numbers to be compared.
    """

    methods: tuple[Key, ...]
    mean_ranks: Floats
    intervals: Floats
    blocks: tuple[Block, ...]
    statistic: float
    p: float
    critical_difference: float
    groups: tuple[tuple[int, ...], ...]
    left_out: tuple[Key, ...]


def rank(rows: Iterable[Mapping[str, Any]], *, measure: str = "last", better: int = 1, seed: int = 0) -> Ranking | None:
    """Return the mean ranks of the methods in rows of one tier; None where no two have two blocks in common.

    A block is one data set with one noise and one seed. Methods are compared on the blocks that all of them have. Where
    some have few, as many comparisons as possible are kept, (k - 1) · n for k methods on n blocks, and the others left
    out by name.

    Args:
        rows: finished cells.
        measure: what is ranked.
        better: 1 if high is good, -1 if low is.
        seed: of the bootstrap.

    Examples:
        >>> cells = [("ce", 1, 0.5), ("elr", 1, 0.7), ("ce", 2, 0.4), ("elr", 2, 0.8)]
        >>> rows = [{"data": "digits", "noise": "sym-40", "method": m, "seed": s, "last": x} for m, s, x in cells]
        >>> found = rank(rows)
        >>> found.methods, found.mean_ranks
        ((('elr', ''), ('ce', '')), array([1., 2.]))
    """
    numbers: dict[Key, dict[Block, float]] = {}
    for row in rows:
        if row.get(measure) is not None:
            key, block = (row["method"], row.get("variant") or ""), (row["data"], row["noise"], row["seed"])
            numbers.setdefault(key, {})[block] = row[measure]
    methods, blocks = comparable({key: set(of_key) for key, of_key in numbers.items()})
    if len(methods) < 2 or len(blocks) < 2:
        return None
    ranks = block_ranks(better * np.array([[numbers[key][block] for key in methods] for block in blocks]))
    order = np.argsort(ranks.mean(0), kind="stable")
    ranks = ranks[:, order]
    statistic, p = friedman(ranks)
    means, critical = ranks.mean(0), critical_difference(len(methods), len(blocks))
    return Ranking(
        tuple(methods[place] for place in order),
        means,
        bootstrap(ranks, [block[:2] for block in blocks], seed=seed),
        tuple(blocks),
        statistic,
        p,
        critical,
        ties(means, critical),
        tuple(sorted(numbers.keys() - set(methods))),
    )


def comparable(blocks: Mapping[Key, set[Block]]) -> tuple[list[Key], list[Block]]:
    """Return methods, and blocks that all of them have, so that (k - 1) · n is large; more methods among equals.

    Tried are the blocks of each method, and those that two methods share.

    Examples:
        >>> few, many = ("digits", "sym-40", 1), ("digits", "sym-40", 2)
        >>> comparable({("a", ""): {few, many}, ("b", ""): {few, many}, ("c", ""): {few}})[0]
        [('a', ''), ('b', ''), ('c', '')]
    """
    sets = [frozenset(of_key) for of_key in blocks.values()]
    tried = {one & other for one in sets for other in sets}
    found: list[tuple[int, int, list[Key], list[Block]]] = []
    for shared in tried:
        methods = sorted(key for key, of_key in blocks.items() if shared <= of_key)
        found.append(((len(methods) - 1) * len(shared), len(methods), methods, sorted(shared)))
    best = max(found, default=(0, 0, [], []))
    return best[2], best[3]


def block_ranks(scores: Floats) -> Floats:
    """Return the ranks (n, k) of scores (n, k) within each row, 1 for the highest; equal ones share their mean rank.

    Examples:
        >>> block_ranks(np.array([[0.5, 0.75, 0.5, 0.25]]))
        array([[2.5, 1. , 2.5, 4. ]])
    """
    higher = (scores[:, None, :] > scores[:, :, None]).sum(-1)
    equal = (scores[:, None, :] == scores[:, :, None]).sum(-1)
    return np.asarray(higher + (equal + 1) / 2, dtype=np.float64)


def friedman(ranks: Floats) -> tuple[float, float]:
    """Return Friedman's statistic of ranks (n, k), corrected for ties, and its p value; (0, 1) if all are equal.

    χ² = (k - 1) Σ_j (R_j - n (k + 1)/2)² / Σ_ij (r_ij - (k + 1)/2)², with R_j = Σ_i r_ij, and k - 1 degrees of freedom.

    Examples:
        >>> statistic, p = friedman(np.array([[1.0, 2.0, 3.0]] * 4))
        >>> statistic, round(p, 4)
        (8.0, 0.0183)
    """
    from scipy.special import chdtrc  # comes with scikit-learn

    n, k = ranks.shape
    middle = (k + 1) / 2
    within = ((ranks - middle) ** 2).sum()
    if within == 0:
        return 0.0, 1.0
    statistic = float((k - 1) * ((ranks.sum(0) - n * middle) ** 2).sum() / within)
    return statistic, float(chdtrc(k - 1, statistic))


def critical_difference(methods: int, blocks: int, level: float = LEVEL) -> float:
    """Return Nemenyi's critical difference of two mean ranks, q_{level, k, ∞} / √2 · √(k (k + 1) / (6 n)).

    q is the quantile of the studentised range of k means with infinitely many degrees of freedom.

    Examples:
        >>> round(critical_difference(methods=5, blocks=10), 3)  # q / √2 = 2.728 in Demšar's table
        1.929
    """
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(level, methods, np.inf)) / math.sqrt(2)
    return q * math.sqrt(methods * (methods + 1) / (6 * blocks))


def bootstrap(
    ranks: Floats, settings: Sequence[tuple[str, str]], *, seed: int, draws: int = DRAWS, level: float = LEVEL
) -> Floats:
    """Return the interval (k, 2) of each mean rank by the bootstrap: settings are drawn, then seeds within each.

    Seeds of one setting are alike, so blocks that were drawn one by one would give intervals that are too narrow.

    Args:
        ranks: (n, k).
        settings: data and noise of each of the n blocks.
        seed: of the draws.
        draws: how many.
        level: the share of the draws that the interval covers.
    """
    generator = np.random.default_rng(seed)
    groups = [np.flatnonzero([one == setting for one in settings]) for setting in sorted(set(settings))]
    sums, counts = np.zeros((draws, ranks.shape[1])), np.zeros((draws, 1))
    for chosen in generator.integers(len(groups), size=(len(groups), draws)):
        for group, places in enumerate(groups):
            those = np.flatnonzero(chosen == group)  # the draws that took this setting
            seeds = places[generator.integers(len(places), size=(len(those), len(places)))]
            sums[those] += ranks[seeds].sum(1)
            counts[those] += len(places)
    tail = (1 - level) / 2
    return np.quantile(sums / counts, [tail, 1 - tail], axis=0).T


def ties(mean_ranks: Sequence[float] | Floats, critical: float) -> tuple[tuple[int, ...], ...]:
    """Return the groups of places whose mean ranks, in ascending order, differ by less than the critical difference.

    A group is as large as it can be, no group lies in another, and a method that ties with none is in no group.

    Examples:
        >>> ties([1.0, 1.5, 2.2, 4.0], critical=1.0)
        ((0, 1), (1, 2))
    """
    found: list[tuple[int, ...]] = []
    for start in range(len(mean_ranks)):
        end = max(place for place in range(len(mean_ranks)) if mean_ranks[place] - mean_ranks[start] < critical)
        if end > start and (not found or end > found[-1][-1]):
            found.append(tuple(range(start, end + 1)))
    return tuple(found)
