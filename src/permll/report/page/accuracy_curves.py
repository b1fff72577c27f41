"""Accuracy over the epochs on the page: a small panel for each method, with cross-entropy behind it."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from permll.report.figures.curves import Curve, curve
from permll.report.figures.memorization import band
from permll.report.page.html import escape, filtered_by
from permll.report.tables.builder import BASE, by_tier, setting_order, unique_rows
from permll.report.tables.titles import Key, Row, method_key, method_order, method_title, point, setting_title

WIDTH, HEIGHT, LEFT, BOTTOM, EDGE = 224, 120, 24, 14, 6
# Lines are cut at the edges of the scale: one method that begins far below must not flatten all others.
_BOX = f"{WIDTH - LEFT} {HEIGHT - BOTTOM + 1}"
_INSIDE = 'x="{}" width="{}" height="{}" viewBox="{} 0 {}"'.format(LEFT, *_BOX.split(), LEFT, _BOX)
MOST = 80  # points of a line: more cannot be seen
Setting = tuple[str, str, str]  # tier, data and noise


class Line(NamedTuple):
    """A method over the epochs: accuracies in per cent, mean over seeds, lowest and highest."""

    epochs: list[int]
    mean: list[float]
    low: list[float]
    high: list[float]


class Frame(NamedTuple):
    """What the panels of a setting share: the last epoch, the lowest and the highest accuracy."""

    last: int
    low: float
    high: float

    def x(self, epoch: float) -> float:
        """Return where an epoch is drawn."""
        return LEFT + (WIDTH - LEFT - EDGE) * epoch / self.last

    def y(self, value: float) -> float:
        """Return where an accuracy is drawn."""
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - EDGE) * (value - self.low) / (self.high - self.low)


def curves(rows: Iterable[Row]) -> str:
    """Return the panels of all settings whose runs can be read; nothing if none can."""
    parts: list[str] = []
    for tier, of_tier in by_tier(row for row in rows if point(row) is None).items():
        settings: dict[tuple[str, str], list[Row]] = {}
        for row in unique_rows(of_tier):
            settings.setdefault((row["data"], row["noise"]), []).append(row)
        for setting in sorted(settings, key=setting_order):
            lines = _lines(settings[setting])
            if lines:
                title = f"{setting_title(*setting)}, tier {tier}"
                parts.append(_setting(title, lines, is_open=not parts))
    return "\n".join(parts)


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of a run's metrics.jsonl; none without such a file, and none after a broken one."""
    path = folder / "metrics.jsonl"
    found: list[dict[str, Any]] = []
    for line in path.read_text().splitlines() if path.is_file() else ():
        try:
            found.append(json.loads(line))
        except ValueError:
            break
    return found


def _lines(rows: Sequence[Row]) -> dict[Key, Line]:
    seeds: dict[Key, list[Curve]] = {}
    for row in rows:
        accuracy = curve(read_metrics(Path(row["folder"])), "test_accuracy") if row.get("folder") else {}
        if accuracy:
            seeds.setdefault(method_key(row), []).append(accuracy)
    return {key: found for key in sorted(seeds, key=method_order) if (found := _line(seeds[key])) is not None}


def _line(seeds: Sequence[Curve]) -> Line | None:
    epochs, *values = band(seeds)
    if not epochs:
        return None
    return Line(epochs, *((100 * one).tolist() for one in values))


def _setting(title: str, lines: Mapping[Key, Line], *, is_open: bool) -> str:
    low = math.floor(min(min(line.mean[-1], line.low[-1]) for line in lines.values()) / 10) * 10
    high = math.ceil(max(max(line.high) for line in lines.values()) / 10) * 10
    frame = Frame(max(line.epochs[-1] for line in lines.values()), low, max(high, low + 10))
    panels = "\n".join(_panel(key, line, lines.get((BASE, "")), frame) for key, line in lines.items())
    opened = " open" * is_open
    return f'<details{opened}><summary>{escape(title)}</summary>\n<div class="panels">\n{panels}\n</div></details>'


def _panel(key: Key, line: Line, base: Line | None, frame: Frame) -> str:
    best = line.mean.index(max(line.mean))
    top, end, last = line.mean[best], line.mean[-1], line.epochs[-1]
    said = (
        f"{method_title(key)}: test accuracy over {last} epochs, best {top:.1f} % in epoch {line.epochs[best]}, "
        f"last {end:.1f} %"
    )
    parts = []
    if base is not None and base is not line:
        parts.append(f'<polyline class="base-line" points="{_points(base.epochs, base.mean, frame)}"/>')
    around = _points(line.epochs, line.high, frame) + " " + _points(line.epochs, line.low, frame, backwards=True)
    parts.append(f'<polygon class="band" points="{around}"/>')
    parts.append(f'<polyline class="mean" points="{_points(line.epochs, line.mean, frame)}"/>')
    x, y = frame.x(line.epochs[best]), frame.y(top)
    parts.append(f'<path class="fall" d="M{x:.1f} {y:.1f}H{frame.x(last):.1f}V{frame.y(end):.1f}"/>')
    parts.append(f'<circle class="best-epoch" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>')
    lost = round(end - top, 1) + 0.0
    return (
        f'<figure class="panel" {filtered_by(key)}><figcaption>{escape(method_title(key))} '
        f"<span>{end:.1f} ({lost:.1f})</span></figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(said)}">{_grid(frame)}'
        f"<svg {_INSIDE}>{''.join(parts)}</svg></svg></figure>"
    )


def _grid(frame: Frame) -> str:
    parts = []
    for value in (frame.low, (frame.low + frame.high) / 2, frame.high):
        y = frame.y(value)
        parts.append(f'<path class="grid-line" d="M{LEFT} {y:.1f}H{WIDTH - EDGE}"/>')
        parts.append(f'<text x="{LEFT - 4}" y="{y + 3:.1f}" text-anchor="end">{value:g}</text>')
    for epoch, side in ((0, "start"), (frame.last, "end")):
        parts.append(f'<text x="{frame.x(epoch):.1f}" y="{HEIGHT - 2}" text-anchor="{side}">{epoch}</text>')
    return "".join(parts)


def _points(epochs: Sequence[int], values: Sequence[float], frame: Frame, *, backwards: bool = False) -> str:
    every = max(math.ceil(len(epochs) / MOST), 1)
    chosen = [place for place in range(len(epochs)) if place % every == 0 or place == len(epochs) - 1]
    places = [(frame.x(epochs[place]), frame.y(values[place])) for place in chosen]
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in (reversed(places) if backwards else places))
