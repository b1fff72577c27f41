"""Mean and standard deviation over seeds, and which methods are not significantly worse than the best."""

import math
import statistics
from collections.abc import Hashable, Mapping
from typing import NamedTuple, TypeVar

LEVEL = 0.95
RULE = (
    "Bold: the best mean, and every method whose difference from it has a 95 % interval that contains 0 "
    "(paired t interval over common seeds, not corrected for multiple comparisons). With fewer than two common seeds "
    "only the best mean is bold."
)
Scores = Mapping[int, float]  # by seed
Name = TypeVar("Name", bound=Hashable)


class MeanStd(NamedTuple):
    """Mean, standard deviation (n - 1 in the denominator; None for one seed) and number of seeds."""

    mean: float
    sd: float | None
    n: int


def mean_and_std(scores: Scores) -> MeanStd:
    """Return mean and standard deviation over one or more seeds.

    Examples:
        >>> mean_and_std({1: 0.5, 2: 0.75})
        MeanStd(mean=0.625, sd=0.1767766952966369, n=2)
        >>> mean_and_std({1: 0.5}).sd
    """
    values = [scores[seed] for seed in sorted(scores)]
    return MeanStd(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))


def paired_interval(a: Scores, b: Scores) -> tuple[float, float] | None:
    """Return the 95 % paired t interval of the mean difference a - b over common seeds; None for fewer than two.

    mean(d) ± t_{0.975, n - 1} · sd(d) / √n, with d_s = a_s - b_s.

    Examples:
        >>> low, high = paired_interval({1: 0.80, 2: 0.82, 3: 0.81}, {1: 0.79, 2: 0.80, 3: 0.81})
        >>> round(low, 4), round(high, 4)
        (-0.0148, 0.0348)
    """
    seeds = sorted(a.keys() & b.keys())
    if len(seeds) < 2:
        return None
    from scipy import stats

    mean, sd, n = mean_and_std({seed: a[seed] - b[seed] for seed in seeds})
    margin = float(stats.t.ppf((1 + LEVEL) / 2, n - 1)) * (sd or 0.0) / math.sqrt(n)
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
    means = {name: mean_and_std(scores).mean for name, scores in column.items() if scores}
    if not means or not better:
        return set()
    highest = max(better * mean for mean in means.values())
    first = [name for name, mean in means.items() if better * mean == highest]  # several if they are equal
    return {name for name in means if any(name == best or _is_tie(column[best], column[name]) for best in first)}


def _is_tie(a: Scores, b: Scores) -> bool:
    interval = paired_interval(a, b)
    return interval is not None and interval[0] <= 0 <= interval[1]
