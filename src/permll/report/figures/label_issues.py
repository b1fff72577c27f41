"""Test accuracy during training beside the labels with the lowest quality."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from permll.report.figures.style import ACCENT, INK, LINE_STYLES, MUTED, figure_style, panel_title

COLUMNS = 6


class LabelIssue(NamedTuple):
    """Training image with its given, proposed and true label."""

    image: np.ndarray[Any, Any]
    given: int | str
    proposed: int | str
    true: int | str


@figure_style()
def draw_label_issues(curves: Mapping[str, Sequence[float]], issues: Sequence[LabelIssue]) -> Figure:
    """Draw test accuracy by epoch, a curve per method, beside a grid of label issues, the worst first."""
    figure = Figure(figsize=(10.4, 4.3), layout="constrained")
    panels: Any = figure.subfigures(1, 2, width_ratios=(1, 1.25), wspace=0.05)
    left, right = panels
    axes = left.subplots()
    _draw_curves(axes, curves)
    panel_title(axes, "a", "Accuracy on clean test images", "after each epoch of training on wrong labels")
    rows = -(-len(issues) // COLUMNS)
    grid = right.subplots(rows, COLUMNS, squeeze=False)
    for cell in grid.flat[len(issues) :]:
        cell.set_axis_off()
    for cell, issue in zip(grid.flat, issues, strict=False):
        _draw_issue(cell, issue)
    right.suptitle("(b)  The labels trusted least", x=0.02, ha="left", fontsize=10, fontweight="bold")
    caption = "above: given label (struck through) → proposed label; below: true label; ✓ where they agree"
    right.supxlabel(caption, fontsize=8.5, color=MUTED)
    return figure


def _draw_curves(axes: Axes, curves: Mapping[str, Sequence[float]]) -> None:
    # Solid lines, named at their ends: dashed ones would hide how much the curves jump.
    for (name, accuracy), style in zip(curves.items(), reversed(LINE_STYLES[: 2 * len(curves) : 2]), strict=True):
        epochs = range(1, len(accuracy) + 1)
        axes.plot(epochs, [100 * value for value in accuracy], color=style.color)
        end: dict[str, Any] = {"textcoords": "offset points", "va": "center", "annotation_clip": False}
        text = f"{name}\n{100 * accuracy[-1]:.1f} %"
        axes.annotate(text, (len(accuracy), 100 * accuracy[-1]), (6, 0), color=style.color, fontweight="bold", **end)
    axes.set(xlabel="epoch", ylabel="test accuracy, %")
    axes.margins(x=0.01)


def _draw_issue(axes: Axes, issue: LabelIssue) -> None:
    axes.imshow(issue.image, cmap="gray_r", interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    axes.set_xlabel(f"true: {issue.true}", fontsize=7.5, color=MUTED, labelpad=2)
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set(visible=True, color=MUTED, linewidth=0.6)
    is_right = issue.proposed == issue.true
    axes.text(0.30, 1.13, f"{issue.given}", transform=axes.transAxes, ha="center", va="center", color=MUTED)
    axes.plot([0.21, 0.39], [1.13, 1.13], transform=axes.transAxes, color=MUTED, linewidth=1.1, clip_on=False)
    text = f"→ {issue.proposed} {'✓' if is_right else '✗'}"
    color = INK if is_right else ACCENT
    axes.text(0.45, 1.13, text, transform=axes.transAxes, va="center", color=color, fontweight="bold")
