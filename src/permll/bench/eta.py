"""How long a plan will take: from what finished cells took, else from what methods cost."""

import statistics
from collections.abc import Iterable, Sequence

from permll.bench.jobs import Cell
from permll.bench.results import Row
from permll.methods import METHODS
from permll.training.run import Run

# Seconds of an epoch of cross-entropy with its evaluation, on one core; at tier paper on a GPU. Only a first guess.
REMEMBERED = {"tiny": 0.03, "mini": 0.35, "lite": 130.0, "paper": 30.0}


def cell_seconds(cell: Cell, rows: Sequence[Row]) -> float:
    """Return how long the rest of a cell will take.

    A second per epoch is taken from finished cells of the same tier and method if any was measured, else from those of
    other methods and what both cost in steps of cross-entropy, else from memory.
    """
    paces = _paces(row for row in rows if (row["tier"], row["method"]) == (cell.tier, cell.method))
    cost = _cost(cell.method)
    if not paces:
        others = [row for row in rows if row["tier"] == cell.tier]
        paces = [cost * pace / _cost(str(row["method"])) for row in others for pace in _paces([row])] or [
            cost * REMEMBERED[cell.tier]
        ]
    return statistics.median(paces) * max(cell.recipe.training.epochs - len(Run(cell.folder).metrics), 0)


def duration(seconds: float) -> str:
    """Return a time as people say it.

    Examples:
        >>> duration(0.4), duration(75), duration(7_300), duration(200_000)
        ('1 s', '1 min 15 s', '2 h 1 min', '2 d 7 h')
    """
    whole = max(round(seconds), 1)
    for large, small, per_large, per_small in (("d", "h", 86_400, 3_600), ("h", "min", 3_600, 60), ("min", "s", 60, 1)):
        if whole >= per_large:
            many, rest = divmod(whole, per_large)
            few = rest // per_small
            return f"{many} {large}" + (f" {few} {small}" if few else "")
    return f"{whole} s"


def _paces(rows: Iterable[Row]) -> list[float]:
    """Return seconds per epoch where they were measured."""
    return [
        float(row["seconds"]) / float(row["epochs"]) for row in rows if row["seconds"] is not None and row["epochs"]
    ]


def _cost(method: str) -> float:
    return METHODS[method].cost if method in METHODS else 1.0
