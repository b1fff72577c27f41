"""Training curves: accuracy, labels and loss by epoch, and the accuracy lost to memorization."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from permll.report.figures.style import (
    draw_level,
    draw_ring,
    draw_series,
    figure_style,
    group_style,
    make_figure,
    panel_title,
)
from permll.report.metric_curves import Curve, Rows, band, curve
from permll.report.text import printable

MIN_MARKED_LOSS = 1.0  # points lost since the best epoch
LOWEST, HIGHEST = -0.5, 100.5  # y limits of a panel in percent
MIN_SPAN = 10.0  # points between the y limits
MAX_MARKED_GROUPS = 3  # with more groups, marks of the loss would be confusing


class Panel(NamedTuple):
    """Metric of a panel, its title, and the reference level it is compared with."""

    name: str
    title: str
    subtitle: str
    level: str = ""
    level_name: str = ""
    is_fraction: bool = True


PANELS = (
    Panel("test_accuracy", "Test accuracy, %", "clean test data; circle: best epoch"),
    Panel("noisy_validation_accuracy", "Noisy validation, %", "accuracy on held-out given labels"),
    Panel("loss", "Training loss", "mean of an epoch", is_fraction=False),
    Panel("right", "Right training labels, %", "after correction", "right_before", "as given"),
    Panel("corrected", "Corrected training labels, %", "proposed label differs", "wrong", "actually wrong"),
    Panel("detection_auroc", "Detection of wrong labels, %", "AUROC of the quality score"),
)


@figure_style()
def draw_curves(runs: Mapping[str, Sequence[Rows]]) -> Figure:
    """Draw runs by group: each run as a thin line, their mean as a thick one. Panels without data are left out.

    Args:
        runs: metrics of the runs of each group, one per seed.
    """
    curves = {
        panel: {name: [curve(rows, panel.name) for rows in group] for name, group in runs.items()} for panel in PANELS
    }
    panels = [panel for panel, groups in curves.items() if any(map(any, groups.values()))]
    if not panels:
        raise ValueError("there is nothing to draw: no run has finished an epoch.")
    columns = 2 if len(panels) == 4 else min(len(panels), 3)
    lines = -(-len(panels) // columns)
    figure = make_figure(0.4 + 3.7 * columns, 0.5 + 2.9 * lines + 0.2 * len(runs))
    grid = figure.subplots(lines, columns, squeeze=False)
    for letter, panel, axes in zip("abcdef", panels, grid.flat, strict=False):
        levels = [curve(rows, panel.level) for group in runs.values() for rows in group] if panel.level else []
        for level in sorted({round(100 * next(iter(values.values())), 6) for values in levels if values}):
            draw_level(axes, level, panel.level_name, below=panel.level == "right_before")
        _draw_panel(axes, panel, list(curves[panel].values()))
        panel_title(axes, letter, panel.title, panel.subtitle)
        axes.set_xlabel("epoch")
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    _draw_legend(figure, runs, max_length=50 * columns)
    return figure


def _draw_panel(axes: Axes, panel: Panel, groups: Sequence[Sequence[Curve]]) -> None:
    factor = 100.0 if panel.is_fraction else 1.0
    for index, group in enumerate(groups):
        seeds = [{epoch: factor * value for epoch, value in seed.items()} for seed in group if seed]
        if not seeds:
            continue
        epochs, means, *_ = band(seeds)
        mean = dict(zip(epochs, means.tolist(), strict=True))
        style = group_style(index) | ({} if len(groups) > 1 else {"marker": ""})
        for seed in seeds if len(seeds) > 1 else ():
            axes.plot(list(seed), list(seed.values()), color=style["color"], linewidth=0.7, alpha=0.45)
        draw_series(axes, epochs, means, index, **style)
        if len(mean) == 1:  # a point instead of a line
            axes.plot(epochs, means, "o", color=style["color"])
        if panel.name == "test_accuracy" and mean:
            _mark_best(axes, mean, style["color"], with_loss=len(groups) <= MAX_MARKED_GROUPS)
    axes.set_xlim(0, 1.03 * max(epoch for group in groups for seed in group for epoch in seed))
    axes.locator_params(axis="x", integer=True, nbins=6)
    axes.locator_params(axis="y", nbins=5)
    axes.margins(y=0.09)
    if panel.is_fraction:
        _widen(axes)


def _widen(axes: Axes) -> None:
    """Show at least ten points within 0 and 100, so that small changes do not look large."""
    low, high = axes.get_ylim()
    missing = max(MIN_SPAN - (high - low), 0) / 2
    low, high = low - missing, high + missing
    shift = max(LOWEST - low, 0) - max(high - HIGHEST, 0)
    axes.set_ylim(max(low + shift, LOWEST), min(high + shift, HIGHEST))


def _mark_best(axes: Axes, mean: Curve, color: str, *, with_loss: bool) -> None:
    """Mark the best epoch, and the accuracy lost from there to the last."""
    best, last = max(mean, key=lambda epoch: mean[epoch]), max(mean)
    draw_ring(axes, best, mean[best], color, size=8)
    lost = mean[best] - mean[last]
    if lost < MIN_MARKED_LOSS or not with_loss:
        return
    axes.plot([best, last], [mean[best]] * 2, color=color, linewidth=0.9, linestyle=(0, (2, 2)))
    arrow = {"arrowstyle": "->", "color": color, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (last, mean[last]), (last, mean[best]), arrowprops=arrow)
    options: dict[str, Any] = {"textcoords": "offset points", "va": "center", "annotation_clip": False}
    axes.annotate(f"−{lost:.1f}", (last, (mean[best] + mean[last]) / 2), (5, 0), fontsize=8, color=color, **options)


def _draw_legend(figure: Figure, runs: Mapping[str, Sequence[Rows]], max_length: int) -> None:
    """Name the groups below the panels, in lines of at most ``max_length`` characters."""
    handles = []
    for index, (name, group) in enumerate(runs.items()):
        text = printable(name) + (f", mean of {len(group)}" if len(group) > 1 else "")
        label = textwrap.fill(text, max_length).replace("$", r"\$")
        style = group_style(index) | ({} if len(runs) > 1 else {"marker": ""})
        handles.append(Line2D([], [], label=label, **style))
    figure.legend(handles=handles, loc="outside lower left", ncols=1, handlelength=2.6)
