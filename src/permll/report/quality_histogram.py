"""Histogram of label quality as SVG."""

import math
from typing import Any

import numpy as np
from markupsafe import Markup

from permll.report.jinja import render
from permll.report.text import pluralize

BINS = 20
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 420, 190, 44, 34, 14
RIGHT, FLOOR = WIDTH - 8, HEIGHT - BOTTOM
SIZE = {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": RIGHT, "top": TOP, "floor": FLOOR}
LOG_RATIO = 20  # counts are drawn on a log scale if the largest is more than this times the smallest


def quality_histogram(findings: Any) -> Markup:
    """Return a histogram of the quality of all labels in [0, 1], with flagged labels in front.

    Args:
        findings: a ``permll.findings.Findings``.
    """
    bins = np.minimum((findings.label_quality * BINS).astype(int), BINS - 1)
    counts = np.bincount(bins, minlength=BINS).tolist()
    flagged = np.bincount(bins[findings.is_issue], minlength=BINS).tolist()
    highest = max(counts)
    log = highest > LOG_RATIO * min(count for count in counts if count)

    def bar_height(count: int) -> float:
        fraction = math.log1p(count) / math.log1p(highest) if log else count / highest
        return (FLOOR - TOP) * fraction

    bars = []
    for k, (count, hits) in enumerate(zip(counts, flagged, strict=True)):
        title = f"{k / BINS:.2f} to {(k + 1) / BINS:.2f}: {pluralize(count, 'label')}, {hits:,} flagged"
        heights = [(kind, max(bar_height(n), 1.0)) for kind, n in (("all", count), ("flagged", hits)) if n]
        if count:
            bars.append({"x": _x(k / BINS) + 1, "title": title, "heights": heights})
    sure = int((findings.label_quality > 0.95).sum())
    label = (
        f"Histogram of the probability that a label is right{', counts on a logarithmic scale' if log else ''}: "
        f"{sure:,} of {len(findings):,} labels are right with more than 95 %, {sum(flagged):,} are flagged"
    )
    levels = [(FLOOR - bar_height(count), _abbreviate(count)) for count in ticks(highest, log)]
    qualities = [(_x(0.0), "start", "0 %"), (_x(0.5), "middle", "50 %"), (_x(1.0), "end", "100 %")]
    threshold = {"x": _x(findings.threshold), "value": findings.threshold} if findings.flagged is None else None
    drawing = {"bars": bars, "bar_width": _x(1 / BINS) - LEFT - 2, "levels": levels, "qualities": qualities}
    return Markup(render("histogram.html.j2", label=label, log=log, size=SIZE, threshold=threshold, **drawing))


def ticks(highest: int, log: bool) -> list[int]:
    """Return the counts at the grid lines.

    Examples:
        >>> ticks(1500, log=True), ticks(60, log=False), ticks(3, log=False)
        ([1, 10, 100, 1000], [20, 40, 60], [1, 2, 3])
    """
    if log:
        return [10**power for power in range(int(math.log10(highest)) + 1)]
    rough = highest / 4
    unit = 10 ** max(math.floor(math.log10(rough)), 0) if rough > 0 else 1
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
    return list(range(step, highest + 1, step))


def _x(quality: float) -> float:
    return LEFT + (RIGHT - LEFT) * quality


def _abbreviate(count: int) -> str:
    for size, letter in ((10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:g}{letter}"
    return str(count)
