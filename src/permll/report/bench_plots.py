"""Plots of the benchmark page: accuracy over the epochs, mean ranks, and the heat map of Figure 3.

They are returned as numbers and texts; the template draws them.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from permll.report.metric_curves import Curve, band, curve, read_metrics
from permll.report.tables.builder import BASELINE, rows_by_tier, unique_rows
from permll.report.tables.rank_tests import Ranking
from permll.report.tables.titles import (
    Figure3Point,
    Key,
    Row,
    figure3_point,
    method_key,
    method_order,
    method_title,
    method_words,
    setting_order,
    setting_title,
)

WIDTH, HEIGHT, LEFT, BOTTOM, MARGIN = 224, 120, 24, 14, 6  # of a panel
MAX_POINTS = 80  # of a line
LIGHT, DARK = (243, 246, 251), (20, 33, 61)  # ends of the color scale of the figures
WHITE_TEXT = 0.6033  # fraction of the way from light to dark from which white text has more contrast than black


class Line(NamedTuple):
    """Test accuracy of a method in percent, by epoch: mean, minimum and maximum over seeds."""

    epochs: list[int]
    mean: list[float]
    low: list[float]
    high: list[float]


class Axes(NamedTuple):
    """Scale that the panels of a setting share: last epoch, lowest and highest accuracy."""

    last: int
    low: float
    high: float

    def x(self, epoch: float) -> float:
        """Return the x coordinate of an epoch."""
        return LEFT + (WIDTH - LEFT - MARGIN) * epoch / self.last

    def y(self, value: float) -> float:
        """Return the y coordinate of an accuracy."""
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - MARGIN) * (value - self.low) / (self.high - self.low)


def accuracy_curves(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return a title, axes and one panel per method for each setting whose metrics can be read."""
    settings = []
    for tier, tier_rows in rows_by_tier(row for row in rows if figure3_point(row) is None).items():
        by_setting: dict[tuple[str, str], list[Row]] = {}
        for row in unique_rows(tier_rows):
            by_setting.setdefault((row["data"], row["noise"]), []).append(row)
        for setting in sorted(by_setting, key=setting_order):
            lines = _lines(by_setting[setting])
            if lines:
                settings.append({"title": f"{setting_title(*setting)}, tier {tier}", **_plot(lines)})
    return settings


def rank_plot(tier: str, ranking: Ranking) -> dict[str, Any]:
    """Return the mean ranks of a tier with intervals and ties, as positions in percent of the axis from 1 to k."""
    k = len(ranking.methods)

    def position(rank: float) -> float:
        return 100 * (min(max(rank, 1.0), k) - 1) / (k - 1)

    def span(low: float, high: float) -> tuple[str, str]:
        return f"{position(low):.2f}", f"{position(high) - position(low):.2f}"

    best = float(ranking.mean_ranks[0])
    return {
        "caption": f"Tier {tier}: mean rank from 1 (left) to {k}; dot: mean, line: 95 % interval, shaded: ties with "
        f"the best (critical difference {ranking.critical_difference:.2f}).",
        "tie": span(best, best + ranking.critical_difference),
        "lines": [
            {
                "filter": method_words(key),
                "method": method_title(key),
                "interval": span(low, high),
                "mean": f"{position(mean):.2f}",
                "text": f"{mean:.2f}",
            }
            for key, mean, (low, high) in zip(
                ranking.methods, ranking.mean_ranks.tolist(), ranking.intervals.tolist(), strict=True
            )
        ],
    }


def heat_maps(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return a heat map for each setting in which η and m were varied."""
    settings: dict[tuple[str, str, str], dict[Figure3Point, list[float]]] = {}
    for row in rows:
        point = figure3_point(row)
        if point is not None and row.get("right_after") is not None:
            setting = (row["tier"], row["data"], row["noise"])
            settings.setdefault(setting, {}).setdefault(point, []).append(row["right_after"])
    return [_heat_map(*setting, points) for setting, points in sorted(settings.items())]


def shade(fraction: float) -> tuple[str, str]:
    """Return the background and text color at a fraction of the way from light to dark.

    Examples:
        >>> shade(0.0), shade(1.0)
        (('#f3f6fb', '#000000'), ('#14213d', '#ffffff'))
    """
    channels = [round(light + fraction * (dark - light)) for light, dark in zip(LIGHT, DARK, strict=True)]
    return "#{:02x}{:02x}{:02x}".format(*channels), "#ffffff" if fraction >= WHITE_TEXT else "#000000"


def _heat_map(tier: str, data: str, noise: str, points: Mapping[Figure3Point, Sequence[float]]) -> dict[str, Any]:
    means = {point: statistics.fmean(values) for point, values in points.items()}
    etas, ms = sorted({point.eta for point in means}, reverse=True), sorted({point.m for point in means})
    low, high = min(means.values()), max(means.values())
    best = {max((point for point in means if point.m == m), key=means.__getitem__) for m in ms}

    def cell(point: Figure3Point) -> dict[str, Any] | None:
        if point not in means:
            return None
        background, color = shade((means[point] - low) / (high - low) if high > low else 0.0)
        text = f"{100 * means[point]:.1f}"
        return {"text": text, "background": background, "color": color, "best": point in best}

    return {
        "id": f"heat-{tier}-{data}-{noise}",
        "title": f"{setting_title(data, noise)}, tier {tier}",
        "columns": [f"{m:g}" for m in ms],
        "rows": [(f"{eta:g}", [cell(Figure3Point(eta, m)) for m in ms]) for eta in etas],
    }


def _lines(rows: Sequence[Row]) -> dict[Key, Line]:
    seeds: dict[Key, list[Curve]] = {}
    for row in rows:
        accuracy = curve(read_metrics(Path(row["folder"])), "test_accuracy") if row.get("folder") else {}
        if accuracy:
            seeds.setdefault(method_key(row), []).append(accuracy)
    bands = {key: band(seeds[key]) for key in sorted(seeds, key=method_order)}
    return {
        key: Line(epochs, *((100 * values).tolist() for values in accuracies))
        for key, (epochs, *accuracies) in bands.items()
        if epochs
    }


def _plot(lines: Mapping[Key, Line]) -> dict[str, Any]:
    """Return the axes and the panels of a setting, with coordinates as text."""
    low = math.floor(min(min(line.mean[-1], line.low[-1]) for line in lines.values()) / 10) * 10
    high = math.ceil(max(max(line.high) for line in lines.values()) / 10) * 10
    axes = Axes(max(line.epochs[-1] for line in lines.values()), low, max(high, low + 10))
    return {
        "size": {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": WIDTH - MARGIN, "floor": HEIGHT - BOTTOM},
        "levels": [(axes.y(value), f"{value:g}") for value in (axes.low, (axes.low + axes.high) / 2, axes.high)],
        "epochs": [(axes.x(0), "start", 0), (axes.x(axes.last), "end", axes.last)],
        "panels": [_panel(key, line, lines.get((BASELINE, "")), axes) for key, line in lines.items()],
    }


def _panel(key: Key, line: Line, baseline: Line | None, axes: Axes) -> dict[str, Any]:
    best = line.mean.index(max(line.mean))
    top, end, last = line.mean[best], line.mean[-1], line.epochs[-1]
    x, y = axes.x(line.epochs[best]), axes.y(top)
    label = f"test accuracy over {last} epochs, best {top:.1f} % in epoch {line.epochs[best]}, last {end:.1f} %"
    outline = _points(line.epochs, line.high, axes) + _points(line.epochs, line.low, axes)[::-1]
    return {
        "filter": method_words(key),
        "method": method_title(key),
        "text": f"{end:.1f} ({round(end - top, 1) + 0.0:.1f})",
        "label": f"{method_title(key)}: {label}",
        "baseline": _points(baseline.epochs, baseline.mean, axes) if baseline and baseline is not line else [],
        "band": outline,
        "mean": _points(line.epochs, line.mean, axes),
        "best": (x, y),
        "drop": f"M{x:.1f} {y:.1f}H{axes.x(last):.1f}V{axes.y(end):.1f}",
    }


def _points(epochs: Sequence[int], values: Sequence[float], axes: Axes) -> list[str]:
    step = max(math.ceil(len(epochs) / MAX_POINTS), 1)
    kept = [index for index in range(len(epochs)) if index % step == 0 or index == len(epochs) - 1]
    return [f"{axes.x(epochs[index]):.1f},{axes.y(values[index]):.1f}" for index in kept]
