"""Estimated time of a plan, from measured jobs if there are any, else from the relative costs of the methods."""

import statistics
from collections.abc import Iterable, Sequence

from permll.bench.jobs import Job
from permll.bench.results import Row
from permll.methods import METHODS
from permll.training.run import Run

# Seconds per epoch of cross-entropy with evaluation, on one CPU core; at tier paper on a GPU.
DEFAULT_EPOCH_SECONDS = {"tiny": 0.03, "mini": 0.35, "lite": 130.0, "paper": 30.0}


def estimate_seconds(job: Job, rows: Sequence[Row]) -> float:
    """Return the estimated time of the remaining epochs of a job.

    The seconds per epoch are the median of the finished jobs with the same tier and method. Without any, the jobs of
    other methods at this tier are scaled by the relative costs of the methods; without those,
    ``DEFAULT_EPOCH_SECONDS`` are.
    """
    epoch_seconds = _epoch_seconds(row for row in rows if (row["tier"], row["method"]) == (job.tier, job.method))
    if not epoch_seconds:
        same_tier = [row for row in rows if row["tier"] == job.tier]
        relative = [seconds / _cost(str(row["method"])) for row in same_tier for seconds in _epoch_seconds([row])]
        epoch_seconds = [_cost(job.method) * seconds for seconds in relative or [DEFAULT_EPOCH_SECONDS[job.tier]]]
    return statistics.median(epoch_seconds) * max(job.recipe.training.epochs - len(Run(job.folder).metrics), 0)


def format_duration(seconds: float) -> str:
    """Return a duration in its two largest units.

    Examples:
        >>> format_duration(0.4), format_duration(75), format_duration(7_300), format_duration(200_000)
        ('1 s', '1 min 15 s', '2 h 1 min', '2 d 7 h')
    """
    rest = max(round(seconds), 1)
    parts: list[str] = []
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, length)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
    return " ".join(part for part in parts[:2] if part)


def _epoch_seconds(rows: Iterable[Row]) -> list[float]:
    return [
        float(row["seconds"]) / float(row["epochs"]) for row in rows if row["seconds"] is not None and row["epochs"]
    ]


def _cost(method: str) -> float:
    return METHODS[method].cost if method in METHODS else 1.0
