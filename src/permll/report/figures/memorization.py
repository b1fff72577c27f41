"""Memorization of wrong labels: test accuracy by epoch for several methods."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from permll.report.figures.curves import MIN_MARKED_LOSS
from permll.report.figures.style import (
    INK,
    draw_ring,
    draw_series,
    figure_style,
    group_style,
    make_figure,
    panel_title,
)
from permll.report.metric_curves import Curve, Rows, band, curve

Seeds = Sequence[Rows]  # metrics of the runs of one method


@figure_style()
def draw_memorization(panels: Mapping[str, Mapping[str, Seeds]]) -> Figure:
    """Draw test accuracy by epoch: the mean over seeds as a line, minimum to maximum as a band.

    A circle marks the best epoch, which only an oracle can select; the accuracy lost since then is written beside it.

    Args:
        panels: metrics of runs, one per seed, by panel title and method title.
    """
    curves: dict[str, dict[str, list[Curve]]] = {}
    for title, methods in panels.items():
        for name, seeds in methods.items():
            measured = [accuracy for rows in seeds if (accuracy := curve(rows, "test_accuracy"))]
            if measured:
                curves.setdefault(title, {})[name] = measured
    if not curves:
        raise ValueError("there is nothing to draw: no run has a test accuracy.")
    names = list(dict.fromkeys(name for methods in curves.values() for name in methods))
    figure = make_figure(1.2 + 3.9 * len(curves), 3.7)
    grid = figure.subplots(1, len(curves), squeeze=False, sharey=True)[0]
    ends = []
    for letter, (title, accuracies), axes in zip("abcdefgh", curves.items(), grid, strict=False):
        ends.append({name: _draw_method(axes, seeds, names.index(name)) for name, seeds in accuracies.items()})
        axes.set_xlim(0, max(epoch for seeds in accuracies.values() for seed in seeds for epoch in seed))
        axes.locator_params(axis="x", integer=True, nbins=6)
        axes.set_xlabel("epoch")
        panel_title(axes, letter, title, "test accuracy, %; band: all seeds; circle: best epoch (oracle)")
    for axes, panel_ends in zip(grid, ends, strict=False):  # after the shared scale is known
        _write_ends(axes, panel_ends, names)
    return figure


def spread_labels(heights: Sequence[float], gap: float, top: float) -> list[float]:
    """Return heights moved as little as possible so that no two are closer than ``gap`` and none is above ``top``.

    Examples:
        >>> spread_labels([1.0, 5.0, 5.0], gap=1.0, top=10.0), spread_labels([5.0, 4.5], gap=1.0, top=5.0)
        ([1.0, 4.5, 5.5], [5.0, 4.0])
    """

    def bounds(group: Sequence[int]) -> tuple[float, float]:
        """Return the lowest and the highest position of a group that is spread around its mean."""
        size = (len(group) - 1) * gap
        high = min(sum(heights[index] for index in group) / len(group) + size / 2, top)
        return high - size, high

    groups: list[list[int]] = []
    for index in sorted(range(len(heights)), key=lambda index: heights[index]):
        groups.append([index])
        while len(groups) > 1 and bounds(groups[-1])[0] - gap < bounds(groups[-2])[1]:
            groups[-2:] = [groups[-2] + groups[-1]]  # labels that are too close form a group around their mean
    moved = [0.0] * len(heights)
    for group in groups:
        for step, index in enumerate(group):
            moved[index] = bounds(group)[0] + step * gap
    return moved


def _draw_method(axes: Axes, seeds: Sequence[Curve], index: int) -> tuple[float, float]:
    """Draw a method; return its last accuracy and its loss since the best epoch, in percent."""
    epochs, *values = band(seeds)
    mean, low, high = (100 * accuracy for accuracy in values)
    style = group_style(index)
    axes.fill_between(epochs, low, high, color=style["color"], alpha=0.18, linewidth=0)
    draw_series(axes, epochs, mean, index, **style)
    best = int(mean.argmax())
    draw_ring(axes, epochs[best], mean[best], style["color"], size=9)
    return float(mean[-1]), float(mean[best] - mean[-1])


def _write_ends(axes: Axes, ends: Mapping[str, tuple[float, float]], names: Sequence[str]) -> None:
    """Write names beside the ends of the lines, with their markers and the loss of each method."""
    low, high = axes.get_ylim()
    heights = spread_labels([end for end, _ in ends.values()], 0.065 * (high - low), high)
    transform = axes.get_yaxis_transform()  # x as a fraction of the panel, y in percent
    for (name, (_, lost)), height in zip(ends.items(), heights, strict=True):
        text = name + (f"  −{lost:.1f}" if lost >= MIN_MARKED_LOSS else "")
        style = group_style(names.index(name))
        axes.plot([1.025], [height], transform=transform, clip_on=False, linestyle="", **style)
        axes.text(1.05, height, text, transform=transform, va="center", fontsize=8, color=INK, parse_math=False)
    axes.set_ylim(low, high)
