"""How probably right the labels are: a histogram, with those that are flagged before all."""

import math
from typing import Any

import numpy as np

from permll.report.findings.html_text import counted

BINS = 20
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 420, 190, 44, 34, 14
CROWDED = 20  # if the fullest bin has so many times the labels of the emptiest that has any, counts are drawn as logs


def histogram(findings: Any) -> str:
    """Return a drawing of the quality of all labels in [0, 1].

    Args:
        findings: a ``permll.findings.Findings``.
    """
    bins = np.minimum((findings.label_quality * BINS).astype(int), BINS - 1)
    every = np.bincount(bins, minlength=BINS).tolist()
    flagged = np.bincount(bins[findings.is_issue], minlength=BINS).tolist()
    most = max(every)
    logs = most > CROWDED * min(count for count in every if count)
    bars = "".join(
        f"<g><title>{place / BINS:.2f} to {(place + 1) / BINS:.2f}: {counted(count, 'label')}, {hit:,} flagged</title>"
        f"{_bar(place, count, most, logs, 'every')}{_bar(place, hit, most, logs, 'flagged')}</g>"
        for place, (count, hit) in enumerate(zip(every, flagged, strict=True))
        if count
    )
    scale = ", counts on a logarithmic scale" if logs else ""
    sure = int((findings.label_quality > 0.95).sum())
    said = (
        f"Histogram of the probability that a label is right{scale}: {sure:,} of {len(findings):,} labels are right "
        f"with more than 95 %, {sum(flagged):,} are flagged"
    )
    return (
        '<figure class="histogram"><figcaption>How probably each label is right '
        f'<span>{"logarithmic" if logs else ""}</span></figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{said}">{_axes(most, logs)}{bars}{_threshold(findings.threshold)}</svg>'
        '<p class="key"><span class="flagged"></span>flagged <span class="every"></span>all labels</p></figure>'
    )


def ticks(most: int, logs: bool) -> list[int]:
    """Return the counts at the lines of the scale.

    Examples:
        >>> ticks(1500, logs=True), ticks(60, logs=False), ticks(3, logs=False)
        ([1, 10, 100, 1000], [20, 40, 60], [1, 2, 3])
    """
    if logs:
        return [10**power for power in range(int(math.log10(most)) + 1)]
    rough = most / 4
    unit = 10 ** max(math.floor(math.log10(rough)), 0) if rough > 0 else 1
    step = next(unit * times for times in (1, 2, 5, 10) if unit * times >= rough)
    return list(range(step, most + 1, step))


def _x(share: float) -> float:
    return LEFT + (WIDTH - LEFT - 8) * share


def _height(count: int, most: int, logs: bool) -> float:
    part = math.log1p(count) / math.log1p(most) if logs else count / most
    return (HEIGHT - BOTTOM - TOP) * part


def _bar(place: int, count: int, most: int, logs: bool, kind: str) -> str:
    if not count:
        return ""
    left, right, height = _x(place / BINS) + 1, _x((place + 1) / BINS) - 1, max(_height(count, most, logs), 1.0)
    y = HEIGHT - BOTTOM - height
    return f'<rect class="{kind}" x="{left:.1f}" y="{y:.1f}" width="{right - left:.1f}" height="{height:.1f}"/>'


def _axes(most: int, logs: bool) -> str:
    floor, parts = HEIGHT - BOTTOM, []
    for count in ticks(most, logs):
        y = floor - _height(count, most, logs)
        parts.append(f'<path class="grid-line" d="M{LEFT} {y:.1f}H{WIDTH - 8}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_short(count)}</text>')
    for share, side in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        parts.append(f'<text x="{_x(share):.1f}" y="{floor + 15}" text-anchor="{side}">{100 * share:.0f} %</text>')
    parts.append(f'<text x="{_x(0):.1f}" y="{HEIGHT - 3}">surely wrong</text>')
    parts.append(f'<text x="{_x(1):.1f}" y="{HEIGHT - 3}" text-anchor="end">surely right</text>')
    parts.append(f'<path class="floor" d="M{LEFT} {floor + 0.5}H{WIDTH - 8}"/>')
    return "".join(parts)


def _threshold(share: float) -> str:
    side, gap = ("end", -4) if share > 0.7 else ("start", 4)
    return (
        f'<path class="threshold" d="M{_x(share):.1f} {TOP - 10}V{HEIGHT - BOTTOM}"/>'
        f'<text class="threshold-said" x="{_x(share) + gap:.1f}" y="{TOP - 3}" text-anchor="{side}">'
        f"flagged up to {100 * share:g} %</text>"
    )


def _short(count: int) -> str:
    for size, letter in ((10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:g}{letter}"
    return str(count)
