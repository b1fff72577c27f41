"""Which methods are not significantly worse than the best, by paired t intervals over seeds."""

import math
import statistics
from collections.abc import Hashable, Mapping
from typing import TypeVar

LEVEL = 0.95
RULE = (
    "Bold: the best mean, and every method whose difference from it has a 95 % interval that contains 0 "
    "(paired t interval over common seeds, not corrected for multiple comparisons). With fewer than two common seeds "
    "only the best mean is bold."
)
Scores = Mapping[int, float]  # by seed
Name = TypeVar("Name", bound=Hashable)


def paired_interval(a: Scores, b: Scores) -> tuple[float, float] | None:
    """Return the 95 % paired t interval of the mean difference a - b over common seeds; None for fewer than two.

    mean(d) ± t_{0.975, n - 1} · sd(d) / √n, with d_s = a_s - b_s.

    Examples:
        >>> low, high = paired_interval({1: 0.80, 2: 0.82, 3: 0.81}, {1: 0.79, 2: 0.80, 3: 0.81})
        >>> round(low, 4), round(high, 4)
        (-0.0148, 0.0348)
    """
    differences = [a[seed] - b[seed] for seed in a.keys() & b.keys()]
    n = len(differences)
    if n < 2:
        return None
    from scipy import stats

    mean = statistics.fmean(differences)
    margin = float(stats.t.ppf((1 + LEVEL) / 2, n - 1)) * statistics.stdev(differences) / math.sqrt(n)
    return mean - margin, mean + margin


def best_methods(column: Mapping[Name, Scores], better: int) -> set[Name]:
    """Return the best method of a column and those not significantly worse; see ``RULE``.

    Args:
        column: scores of each method; methods without scores are ignored.
        better: 1 if high is good, -1 if low is good, 0 if neither, which makes no method the best.

    Examples:
        >>> column = {"a": {1: 0.80, 2: 0.82}, "b": {1: 0.79, 2: 0.83}, "c": {1: 0.50, 2: 0.52}, "d": {1: 0.6}}
        >>> sorted(best_methods(column, better=1)), best_methods(column, better=-1), best_methods(column, better=0)
        (['a', 'b'], {'c'}, set())
    """
    means = {name: better * statistics.fmean(scores.values()) for name, scores in column.items() if scores}
    if not means or not better:
        return set()
    best = {name for name, mean in means.items() if mean == max(means.values())}  # several if they are equal
    intervals = {name: [paired_interval(column[first], column[name]) for first in best] for name in means}
    ties = {name for name, pairs in intervals.items() if any(pair and pair[0] <= 0 <= pair[1] for pair in pairs)}
    return best | ties
