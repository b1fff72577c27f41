"""Histogram of label quality as SVG."""

import math
from typing import Any

import numpy as np
from markupsafe import Markup

from permll.report.text import pluralize

BINS = 20
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 420, 190, 44, 34, 14
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
    bars = "".join(
        f"<g><title>{k / BINS:.2f} to {(k + 1) / BINS:.2f}: {pluralize(count, 'label')}, {hit:,} flagged</title>"
        f"{_bar(k, count, highest, log, 'all')}{_bar(k, hit, highest, log, 'flagged')}</g>"
        for k, (count, hit) in enumerate(zip(counts, flagged, strict=True))
        if count
    )
    scale = ", counts on a logarithmic scale" if log else ""
    sure = int((findings.label_quality > 0.95).sum())
    label = (
        f"Histogram of the probability that a label is right{scale}: {sure:,} of {len(findings):,} labels are right "
        f"with more than 95 %, {sum(flagged):,} are flagged"
    )
    return Markup(
        '<figure class="histogram"><figcaption>Probability that each label is right '
        f'<span>{"logarithmic" if log else ""}</span></figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{label}">{_axes(highest, log)}{bars}{_threshold(findings.threshold)}</svg>'
        '<p class="key"><span class="flagged"></span>flagged <span class="all"></span>all labels</p></figure>'
    )


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
    return LEFT + (WIDTH - LEFT - 8) * quality


def _height(count: int, highest: int, log: bool) -> float:
    fraction = math.log1p(count) / math.log1p(highest) if log else count / highest
    return (HEIGHT - BOTTOM - TOP) * fraction


def _bar(k: int, count: int, highest: int, log: bool, kind: str) -> str:
    if not count:
        return ""
    left, right, height = _x(k / BINS) + 1, _x((k + 1) / BINS) - 1, max(_height(count, highest, log), 1.0)
    y = HEIGHT - BOTTOM - height
    return f'<rect class="{kind}" x="{left:.1f}" y="{y:.1f}" width="{right - left:.1f}" height="{height:.1f}"/>'


def _axes(highest: int, log: bool) -> str:
    floor, parts = HEIGHT - BOTTOM, []
    for count in ticks(highest, log):
        y = floor - _height(count, highest, log)
        parts.append(f'<path class="grid-line" d="M{LEFT} {y:.1f}H{WIDTH - 8}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_abbreviate(count)}</text>')
    for quality, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        parts.append(
            f'<text x="{_x(quality):.1f}" y="{floor + 15}" text-anchor="{anchor}">{100 * quality:.0f} %</text>'
        )
    parts.append(f'<text x="{_x(0):.1f}" y="{HEIGHT - 3}">likely wrong</text>')
    parts.append(f'<text x="{_x(1):.1f}" y="{HEIGHT - 3}" text-anchor="end">likely right</text>')
    parts.append(f'<path class="floor" d="M{LEFT} {floor + 0.5}H{WIDTH - 8}"/>')
    return "".join(parts)


def _threshold(quality: float) -> str:
    anchor, gap = ("end", -4) if quality > 0.7 else ("start", 4)
    return (
        f'<path class="threshold" d="M{_x(quality):.1f} {TOP - 10}V{HEIGHT - BOTTOM}"/>'
        f'<text class="threshold-label" x="{_x(quality) + gap:.1f}" y="{TOP - 3}" text-anchor="{anchor}">'
        f"flagged if at most {100 * quality:g} %</text>"
    )


def _abbreviate(count: int) -> str:
    for size, letter in ((10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:g}{letter}"
    return str(count)
