"""Memorization of wrong labels: test accuracy by epoch for several methods, and the noise that a method has learned."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from permll.report.figures.curves import MIN_MARKED_LOSS, Curve, Floats, Rows, band, curve
from permll.report.figures.style import (
    ACCENT,
    INK,
    draw_transition,
    figure_style,
    group_style,
    make_figure,
    panel_title,
)
from permll.report.text import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Seeds = Sequence[Rows]  # metrics of the runs of one method
MAX_LABELED_CLASSES = 20  # with more classes, cells have no numbers and classes no names
MIN_FRAMED_DIFFERENCE = 0.05  # between true and learned probability


def draw_memorization(panels: Mapping[str, Mapping[str, Seeds]]) -> "Figure":
    """Draw test accuracy by epoch: the mean over seeds as a line, minimum to maximum as a band.

    A circle marks the best epoch, which only an oracle can select; the accuracy lost since then is written beside it.

    Args:
        panels: metrics of runs, one per seed, by panel title and method title.
    """
    curves = {
        title: {name: kept for name, seeds in methods.items() if (kept := [c for c in map(_accuracy, seeds) if c])}
        for title, methods in panels.items()
    }
    curves = {title: methods for title, methods in curves.items() if methods}
    if not curves:
        raise ValueError("there is nothing to draw: no run has a test accuracy.")
    names = list(dict.fromkeys(name for methods in curves.values() for name in methods))
    with figure_style():
        figure = make_figure(1.2 + 3.9 * len(curves), 3.7)
        grid = figure.subplots(1, len(curves), squeeze=False, sharey=True)[0]
        ends = []
        for letter, (title, methods), axes in zip("abcdefgh", curves.items(), grid, strict=False):
            ends.append({name: _draw_method(axes, seeds, names.index(name)) for name, seeds in methods.items()})
            axes.set_xlim(0, max(epoch for seeds in methods.values() for seed in seeds for epoch in seed))
            axes.locator_params(axis="x", integer=True, nbins=6)
            axes.set_xlabel("epoch")
            panel_title(axes, letter, title, "test accuracy, %; band: all seeds; circle: best epoch (oracle)")
        for axes, panel_ends in zip(grid, ends, strict=False):  # after the shared scale is known
            _write_ends(axes, panel_ends, names)
    return figure


def draw_learned_noise(true: ArrayLike, learned: ArrayLike, classes: Sequence[str] | None = None) -> "Figure":
    """Draw the true transition matrix beside the learned one; cells that differ clearly are framed.

    Args:
        true: (c, c) probability that a true class (row) is given as each label (column).
        learned: (c, c) the same as a method has learned it.
        classes: c names, shown for up to 20 classes; numbers by default.
    """
    matrices = [np.asarray(matrix, dtype=np.float64) for matrix in (true, learned)]
    c = len(matrices[0])
    if any(matrix.shape != (c, c) for matrix in matrices):
        raise ValueError(f"both matrices must be c x c: they are {matrices[0].shape} and {matrices[1].shape}.")
    if classes is not None and len(classes) != c:
        raise ValueError(f"there are {c} classes, but {len(classes)} names.")
    names = [shorten(name) for name in classes] if classes else [str(k) for k in range(c)]
    differences = np.abs(matrices[0] - matrices[1])
    side = min(max(2.6, 0.42 * c), 5.6)
    with figure_style():
        figure = make_figure(2 * side + 0.9 + 0.07 * max(map(len, names)), side + 1.35, w_pad=0.12)
        left, right = figure.subplots(1, 2, sharey=True)
        image = _draw_matrix(left, matrices[0], names)
        _draw_matrix(right, matrices[1], names)
        if c <= MAX_LABELED_CLASSES:
            _draw_frames(right, differences >= MIN_FRAMED_DIFFERENCE)
        left.set_ylabel("true class")
        panel_title(left, "a", "True noise", "% of a true class given as each label")
        subtitle = f"mean difference per class: {100 * float(differences.mean() * c) / 2:.1f} %"
        if c <= MAX_LABELED_CLASSES:
            subtitle += f"; frame: {100 * MIN_FRAMED_DIFFERENCE:.0f} or more"
        panel_title(right, "b", "Learned noise", subtitle)
        if c > MAX_LABELED_CLASSES:
            scale = figure.colorbar(image, ax=[left, right], location="bottom", shrink=0.5, aspect=45)
            scale.set_ticks([0, 0.05, 0.2, 0.5, 1], labels=["0", "5", "20", "50", "100"])
            scale.outline.set_visible(False)
    return figure


def spread_labels(heights: Sequence[float], gap: float, top: float) -> list[float]:
    """Return heights moved as little as possible so that no two are closer than ``gap`` and none is above ``top``.

    Examples:
        >>> spread_labels([1.0, 5.0, 5.0], gap=1.0, top=10.0), spread_labels([5.0, 4.5], gap=1.0, top=5.0)
        ([1.0, 4.5, 5.5], [5.0, 4.0])
    """
    order = sorted(range(len(heights)), key=lambda index: heights[index])
    groups: list[list[int]] = []
    for index in order:  # labels that are too close form a group around their mean
        groups.append([index])
        while (
            len(groups) > 1
            and _bounds(groups[-1], heights, gap, top)[0] - gap < _bounds(groups[-2], heights, gap, top)[1]
        ):
            groups[-2:] = [groups[-2] + groups[-1]]
    moved = [0.0] * len(heights)
    for group in groups:
        low, _ = _bounds(group, heights, gap, top)
        for step, index in enumerate(group):
            moved[index] = low + step * gap
    return moved


def _bounds(group: Sequence[int], heights: Sequence[float], gap: float, top: float) -> tuple[float, float]:
    """Return the lowest and the highest position of a group that is spread around its mean."""
    size = (len(group) - 1) * gap
    high = min(sum(heights[index] for index in group) / len(group) + size / 2, top)
    return high - size, high


def _accuracy(rows: Rows) -> Curve:
    return curve(rows, "test_accuracy")


def _draw_method(axes: "Axes", seeds: Sequence[Curve], index: int) -> tuple[float, float]:
    """Draw a method; return its last accuracy and its loss since the best epoch, in percent."""
    epochs, *values = band(seeds)
    mean, low, high = (100 * accuracy for accuracy in values)
    style = group_style(index)
    axes.fill_between(epochs, low, high, color=style["color"], alpha=0.18, linewidth=0)
    every = max(len(epochs) // 6, 1)
    axes.plot(epochs, mean, markevery=(index % every, every), **style)
    best = int(mean.argmax())
    axes.plot(
        epochs[best], mean[best], "o", markersize=9, markerfacecolor="none", markeredgecolor=style["color"], zorder=5
    )
    return float(mean[-1]), float(mean[best] - mean[-1])


def _write_ends(axes: "Axes", ends: Mapping[str, tuple[float, float]], names: Sequence[str]) -> None:
    """Write names beside the ends of the lines, with their markers and the loss of each method."""
    low, high = axes.get_ylim()
    heights = spread_labels([end for end, _ in ends.values()], 0.065 * (high - low), high)
    transform = axes.get_yaxis_transform()  # x as a fraction of the panel, y in percent
    for (name, (_, lost)), height in zip(ends.items(), heights, strict=True):
        text = name + (f"  −{lost:.1f}" if lost >= MIN_MARKED_LOSS else "")
        style: dict[str, Any] = group_style(names.index(name))
        axes.plot([1.025], [height], transform=transform, clip_on=False, linestyle="", **style)
        axes.text(1.05, height, text, transform=transform, va="center", fontsize=8, color=INK, parse_math=False)
    axes.set_ylim(low, high)


def _draw_matrix(axes: "Axes", matrix: Floats, names: Sequence[str]) -> Any:
    image = draw_transition(axes, matrix)
    if len(names) > MAX_LABELED_CLASSES:
        return image
    axes.set_xticks(range(len(names)), names, rotation=40, ha="right", rotation_mode="anchor", parse_math=False)
    axes.set_yticks(range(len(names)), names, parse_math=False)
    for row, column in np.argwhere(matrix >= 0.005).tolist():
        value = matrix[row, column]
        color = "white" if value > 0.25 else INK
        weight = "bold" if row == column else "normal"
        axes.text(
            column, row, f"{100 * value:.0f}", ha="center", va="center", fontsize=7.5, color=color, fontweight=weight
        )
    for edge in range(1, len(names)):
        axes.axhline(edge - 0.5, color="white", linewidth=1)
        axes.axvline(edge - 0.5, color="white", linewidth=1)
    return image


def _draw_frames(axes: "Axes", cells: NDArray[np.bool_]) -> None:
    from matplotlib.patches import Rectangle

    for row, column in np.argwhere(cells).tolist():
        axes.add_patch(Rectangle((column - 0.45, row - 0.45), 0.9, 0.9, fill=False, edgecolor=ACCENT, linewidth=1.3))
