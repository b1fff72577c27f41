"""How trainings went: accuracy, labels and loss over the epochs, and what was lost by learning labels by heart."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from permll.report.figures.style import MUTED, STROKES, look, panel_title
from permll.report.text import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Rows = Sequence[Mapping[str, Any]]  # lines of metrics.jsonl
Curve = dict[int, float]  # by epoch
LOST = 1.0  # so many points lost since the best epoch are worth a mark
LOWEST, HIGHEST = -0.5, 100.5  # of a share in per cent, with room for its line
LEAST_SPAN = 10.0  # points from the lower to the upper edge of a panel
CLEAR = 3  # among more groups than this, such marks would only confuse


class Panel(NamedTuple):
    """What is drawn of each run, and the level it is compared with."""

    name: str
    title: str
    seen: str
    level: str = ""
    level_name: str = ""
    share: bool = True


PANELS = (
    Panel("test_accuracy", "Test accuracy, %", "clean test data; circle: best epoch"),
    Panel("noisy_validation_accuracy", "Noisy validation, %", "accuracy on held-out labels as they are given"),
    Panel("loss", "Training loss", "mean of an epoch", share=False),
    Panel("right", "Right training labels, %", "after correction", "right_before", "as given"),
    Panel("turned", "Turned training labels, %", "that are no longer believed", "wrong", "wrong in truth"),
    Panel("detection_auroc", "Wrong labels found, %", "AUROC of the quality score"),
)


def curve(rows: Rows, name: str) -> Curve:
    """Return a number over the epochs in which it was measured.

    Args:
        rows: lines of metrics.jsonl.
        name: a key of them, or ``"right"``, ``"right_before"``, ``"wrong"`` or ``"turned"``: shares of training labels.

    Examples:
        >>> curve([{"epoch": 1, "loss": 0.5}, {"epoch": 2, "loss": 0.25, "correction_samples": 4}], "loss")
        {1: 0.5, 2: 0.25}
        >>> curve([{"epoch": 2, "correction_changed": 1, "correction_samples": 4}], "turned")
        {2: 0.25}
    """
    found = {row["epoch"]: _number(row, name) for row in rows}
    return {epoch: value for epoch, value in found.items() if value is not None}


def draw_curves(runs: Mapping[str, Sequence[Rows]]) -> "Figure":
    """Draw runs by the name of their group: each run a thin line, their mean a thick one. Only what there is is drawn.

    Args:
        runs: for each group the metrics of its runs, one for each seed.
    """
    curves = {
        panel: {name: [curve(rows, panel.name) for rows in group] for name, group in runs.items()} for panel in PANELS
    }
    panels = [panel for panel, groups in curves.items() if any(map(any, groups.values()))]
    if not panels:
        raise ValueError("there is nothing to draw: no run has finished an epoch.")
    columns = 2 if len(panels) == 4 else min(len(panels), 3)
    lines = -(-len(panels) // columns)
    with look():
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        size = (0.4 + 3.7 * columns, 0.5 + 2.9 * lines + 0.2 * len(runs))
        figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.10))
        grid = figure.subplots(lines, columns, squeeze=False)
        for letter, panel, axes in zip("abcdef", panels, grid.flat, strict=False):
            if panel.level:
                _draw_level(axes, panel, [curve(rows, panel.level) for group in runs.values() for rows in group])
            _draw_panel(axes, panel, list(curves[panel].values()))
            panel_title(axes, letter, panel.title, panel.seen)
            axes.set_xlabel("epoch")
        for axes in grid.flat[len(panels) :]:
            axes.set_axis_off()
        _draw_legend(figure, runs, signs=50 * columns)
    return figure


def _number(row: Mapping[str, Any], name: str) -> float | None:
    """Return a number of an epoch; what is not in the row itself follows from the counts of its labels."""
    counts = {"right": "right_after", "right_before": "right_before", "wrong": "wrong", "turned": "changed"}
    value = row.get(name)
    if value is None and name in counts and row.get(f"correction_{counts[name]}") is not None:
        value = row[f"correction_{counts[name]}"] / row["correction_samples"]
    return value


def _style(place: int, groups: int) -> dict[str, Any]:
    """Return how the mean of a group is drawn: solid, because gaps would hide how much a curve jumps.

    Groups are told apart by lightness and by a few markers; from the sixth on, these are hollow.
    """
    stroke = STROKES[2 * place % len(STROKES)]  # those that are far apart first
    fill = stroke.color if place < len(STROKES) else "white"
    return {"color": stroke.color, "marker": stroke.marker if groups > 1 else "", "markersize": 4.5, "mfc": fill}


def _draw_panel(axes: "Axes", panel: Panel, groups: Sequence[Sequence[Curve]]) -> None:
    factor = 100.0 if panel.share else 1.0
    for place, group in enumerate(groups):
        scaled = [{epoch: factor * value for epoch, value in one.items()} for one in group if one]
        if not scaled:
            continue
        mean, style = _mean(scaled), _style(place, len(groups))
        for one in scaled if len(scaled) > 1 else ():
            axes.plot(list(one), list(one.values()), color=style["color"], linewidth=0.7, alpha=0.45)
        every = max(len(mean) // 6, 1)
        axes.plot(list(mean), list(mean.values()), markevery=(place % every, every), **style)
        if len(mean) == 1:  # no line, but a point
            axes.plot(list(mean), list(mean.values()), "o", color=style["color"])
        if panel.name == "test_accuracy" and mean:
            _mark_best(axes, mean, style["color"], way_down=len(groups) <= CLEAR)
    axes.set_xlim(0, 1.03 * max(epoch for group in groups for one in group for epoch in one))
    axes.locator_params(axis="x", integer=True, nbins=6)
    axes.locator_params(axis="y", nbins=5)
    axes.margins(y=0.09)
    if panel.share:
        _widen(axes)


def _widen(axes: "Axes") -> None:
    """Show ten points at least, none below 0 or above 100: small changes must not look like large ones."""
    low, high = axes.get_ylim()
    missing = max(LEAST_SPAN - (high - low), 0) / 2
    low, high = low - missing, high + missing
    shift = max(LOWEST - low, 0) - max(high - HIGHEST, 0)
    axes.set_ylim(max(low + shift, LOWEST), min(high + shift, HIGHEST))


def _mean(group: Sequence[Curve]) -> Curve:
    """Return the mean over the epochs that all have."""
    shared = [epoch for epoch in group[0] if all(epoch in one for one in group)]
    return {epoch: sum(one[epoch] for one in group) / len(group) for epoch in shared}


def _draw_level(axes: "Axes", panel: Panel, levels: Sequence[Curve]) -> None:
    """Draw what a share is compared with as a dotted line, its name on the side where no curve is wanted."""
    below = panel.level == "right_before"
    place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    for value in sorted({round(100 * next(iter(level.values())), 6) for level in levels if level}):
        axes.axhline(value, color=MUTED, linewidth=1, linestyle=(0, (2, 3)), zorder=1)
        axes.annotate(
            panel.level_name, (1, value), (0, -10 if below else 3), ha="right", fontsize=8, color=MUTED, **place
        )


def _mark_best(axes: "Axes", mean: Curve, color: str, *, way_down: bool) -> None:
    """Mark the best epoch, and what was lost from there to the last."""
    best, last = max(mean, key=lambda epoch: mean[epoch]), max(mean)
    axes.plot(best, mean[best], "o", markersize=8, markerfacecolor="none", markeredgecolor=color, zorder=5)
    lost = mean[best] - mean[last]
    if lost < LOST or not way_down:
        return
    axes.plot([best, last], [mean[best]] * 2, color=color, linewidth=0.9, linestyle=(0, (2, 2)))
    arrow = {"arrowstyle": "->", "color": color, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (last, mean[last]), (last, mean[best]), arrowprops=arrow)
    beside: dict[str, Any] = {"textcoords": "offset points", "va": "center", "annotation_clip": False}
    axes.annotate(f"−{lost:.1f}", (last, (mean[best] + mean[last]) / 2), (5, 0), fontsize=8, color=color, **beside)


def _draw_legend(figure: "Figure", runs: Mapping[str, Sequence[Rows]], signs: int) -> None:
    """Name the groups below the panels, in lines of so many signs."""
    from matplotlib.lines import Line2D

    handles = []
    for place, (name, group) in enumerate(runs.items()):
        text = printable(name) + (f", mean of {len(group)}" if len(group) > 1 else "")
        lines = textwrap.fill(text, signs).replace("$", r"\$")
        handles.append(Line2D([], [], label=lines, **_style(place, len(runs))))
    figure.legend(handles=handles, loc="outside lower left", ncols=1, handlelength=2.6)
