"""Mean and spread over seeds, and which methods cannot be told from the best."""

import math
import statistics
from collections.abc import Hashable, Mapping
from typing import NamedTuple, TypeVar

LEVEL = 0.95
RULE = (
    "Bold: the best mean, and every method whose difference from it has a 95 % interval that contains 0 "
    "(paired t interval over the seeds that both have, not corrected for the number of methods). With fewer than two "
    "such seeds there is no interval, and only the best mean is bold."
)
Scores = Mapping[int, float]  # by seed
Name = TypeVar("Name", bound=Hashable)


class Spread(NamedTuple):
    """Mean, standard deviation (n - 1 in the denominator; None for one seed) and number of seeds."""

    mean: float
    sd: float | None
    n: int


def spread(scores: Scores) -> Spread:
    """Return mean and standard deviation over seeds, of which there must be one.

    Examples:
        >>> spread({1: 0.5, 2: 0.75})
        Spread(mean=0.625, sd=0.1767766952966369, n=2)
        >>> spread({1: 0.5}).sd
    """
    values = [scores[seed] for seed in sorted(scores)]
    return Spread(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))


def difference_interval(one: Scores, other: Scores, level: float = LEVEL) -> tuple[float, float] | None:
    """Return the interval of the mean difference one - other over the seeds that both have; None for fewer than two.

    mean(d) ± t_{(1 + level)/2, n - 1} · sd(d) / √n, with d_s = one_s - other_s.

    Examples:
        >>> low, high = difference_interval({1: 0.80, 2: 0.82, 3: 0.81}, {1: 0.79, 2: 0.80, 3: 0.81})
        >>> round(low, 4), round(high, 4)
        (-0.0148, 0.0348)
    """
    shared = sorted(one.keys() & other.keys())
    if len(shared) < 2:
        return None
    from scipy.special import stdtrit  # comes with scikit-learn

    differences = [one[seed] - other[seed] for seed in shared]
    mean, n = statistics.fmean(differences), len(shared)
    reach = float(stdtrit(n - 1, (1 + level) / 2)) * statistics.stdev(differences) / math.sqrt(n)
    return mean - reach, mean + reach


def best_set(column: Mapping[Name, Scores], better: int) -> set[Name]:
    """Return the best method of a column and those that cannot be told from it: see ``RULE``.

    Args:
        column: the scores of each method; one without any is left out.
        better: 1 if high is good, -1 if low is good, 0 if neither: then none is best.

    Examples:
        >>> column = {"a": {1: 0.80, 2: 0.82}, "b": {1: 0.79, 2: 0.83}, "c": {1: 0.50, 2: 0.52}, "d": {1: 0.6}}
        >>> sorted(best_set(column, better=1)), sorted(best_set(column, better=-1)), best_set(column, better=0)
        (['a', 'b'], ['c'], set())
    """
    means = {name: spread(scores).mean for name, scores in column.items() if scores}
    if not means or not better:
        return set()
    highest = max(better * mean for mean in means.values())
    first = [name for name, mean in means.items() if better * mean == highest]  # all of them, if they are equal
    return {name for name in means if any(name == best or _alike(column[best], column[name]) for best in first)}


def _alike(best: Scores, other: Scores) -> bool:
    interval = difference_interval(best, other)
    return interval is not None and interval[0] <= 0 <= interval[1]
