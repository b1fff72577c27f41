"""Learning by heart, seen twice: accuracy over the epochs of several methods, and the noise that was learned."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from permll.report.figures.curves import Curve, Rows, curve
from permll.report.figures.style import ACCENT, INK, STROKES, look, panel_title, shades
from permll.report.text import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
Seeds = Sequence[Rows]  # metrics of the runs of one method
WRITTEN = 20  # up to so many classes, cells hold numbers and classes have names
APART = 0.05  # a learned share that is so far from the true one is set off
LOST = 1.0  # so many points lost since the best epoch are worth a mark


def draw_memorization(panels: Mapping[str, Mapping[str, Seeds]]) -> "Figure":
    """Draw test accuracy over the epochs: the mean over seeds as a line, from the lowest to the highest seed as a band.

    A circle is the best epoch, which only an oracle can pick; what is lost from there to the end is written beside it.

    Args:
        panels: by the title of a panel and the title of a method, the metrics of its runs, one for each seed.
    """
    curves = {
        title: {name: found for name, seeds in methods.items() if (found := [c for c in map(_accuracy, seeds) if c])}
        for title, methods in panels.items()
    }
    curves = {title: methods for title, methods in curves.items() if methods}
    if not curves:
        raise ValueError("there is nothing to draw: no run has a test accuracy.")
    names = list(dict.fromkeys(name for methods in curves.values() for name in methods))
    with look():
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        size = (1.2 + 3.9 * len(curves), 3.7)
        figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.10))
        grid = figure.subplots(1, len(curves), squeeze=False, sharey=True)[0]
        ends = []
        for letter, (title, methods), axes in zip("abcdefgh", curves.items(), grid, strict=False):
            ends.append({name: _draw_method(axes, seeds, names.index(name)) for name, seeds in methods.items()})
            axes.set_xlim(0, max(epoch for seeds in methods.values() for one in seeds for epoch in one))
            axes.locator_params(axis="x", integer=True, nbins=6)
            axes.set_xlabel("epoch")
            panel_title(axes, letter, title, "test accuracy, %; band: all seeds; circle: best epoch (oracle)")
        for axes, of_panel in zip(grid, ends, strict=False):  # now that the scale they share is known
            _write_ends(axes, of_panel, names)
    return figure


def band(seeds: Sequence[Curve]) -> tuple[list[int], Floats, Floats, Floats]:
    """Return the epochs that all seeds have, and mean, lowest and highest value in each.

    Examples:
        >>> epochs, mean, low, high = band([{1: 0.5, 2: 0.75}, {1: 1.0, 2: 0.25, 3: 0.5}])
        >>> epochs, mean.tolist(), low.tolist(), high.tolist()
        ([1, 2], [0.75, 0.5], [0.5, 0.25], [1.0, 0.75])
    """
    epochs = [epoch for epoch in seeds[0] if all(epoch in one for one in seeds)]
    values = np.array([[one[epoch] for epoch in epochs] for one in seeds])
    return epochs, values.mean(0), values.min(0), values.max(0)


def draw_learned_noise(true: ArrayLike, learned: ArrayLike, classes: Sequence[str] | None = None) -> "Figure":
    """Draw the true confusion of classes beside the learned one; where they are far apart, the cell has a frame.

    Args:
        true: (c, c), what share of a true class (row) was given as each label (column).
        learned: (c, c), the same as a method has learned it.
        classes: c names, shown for up to 20 classes; numbers by default.
    """
    both = [np.asarray(matrix, dtype=np.float64) for matrix in (true, learned)]
    c = len(both[0])
    if any(matrix.shape != (c, c) for matrix in both):
        raise ValueError(f"both matrices must be c x c: they are {both[0].shape} and {both[1].shape}.")
    if classes is not None and len(classes) != c:
        raise ValueError(f"there are {c} classes, but {len(classes)} names.")
    names = [shorten(name) for name in classes] if classes else [str(k) for k in range(c)]
    apart = float(np.abs(both[0] - both[1]).mean() * c)
    side = min(max(2.6, 0.42 * c), 5.6)
    with look():
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        size = (2 * side + 0.9 + 0.07 * max(map(len, names)), side + 1.35)
        figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.12))
        left, right = figure.subplots(1, 2, sharey=True)
        image = _draw_matrix(left, both[0], names)
        _draw_matrix(right, both[1], names)
        if c <= WRITTEN:
            _frame(right, np.abs(both[0] - both[1]) >= APART)
        left.set_ylabel("true class")
        panel_title(left, "a", "The noise as it is", "share of a true class given as each label, %")
        seen = f"apart by {100 * apart / 2:.1f} % of a class on average"
        panel_title(right, "b", "The noise as learned", seen + (f"; frame: {100 * APART:.0f} or more" * (c <= WRITTEN)))
        if c > WRITTEN:
            scale = figure.colorbar(image, ax=[left, right], location="bottom", shrink=0.5, aspect=45)
            scale.set_ticks([0, 0.05, 0.2, 0.5, 1], labels=["0", "5", "20", "50", "100"])
            scale.outline.set_visible(False)
    return figure


def _accuracy(rows: Rows) -> Curve:
    return curve(rows, "test_accuracy")


def _style(place: int) -> dict[str, Any]:
    """Return how a method is drawn: from the sixth on, markers are hollow."""
    stroke = STROKES[2 * place % len(STROKES)]  # those that are far apart first
    fill = stroke.color if place < len(STROKES) else "white"
    return {"color": stroke.color, "marker": stroke.marker, "markersize": 4.5, "mfc": fill}


def _draw_method(axes: "Axes", seeds: Sequence[Curve], place: int) -> tuple[float, float]:
    """Draw a method, and return its accuracy in the end and what it lost, in per cent."""
    epochs, mean, low, high = band(seeds)
    mean, low, high = 100 * mean, 100 * low, 100 * high
    style = _style(place)
    axes.fill_between(epochs, low, high, color=style["color"], alpha=0.18, linewidth=0)
    every = max(len(epochs) // 6, 1)
    axes.plot(epochs, mean, markevery=(place % every, every), **style)
    best = int(mean.argmax())
    axes.plot(
        epochs[best], mean[best], "o", markersize=9, markerfacecolor="none", markeredgecolor=style["color"], zorder=5
    )
    return float(mean[-1]), float(mean[best] - mean[-1])


def spaced(heights: Sequence[float], gap: float, top: float) -> list[float]:
    """Return heights moved as little as need be so that no two are nearer than ``gap`` and none is above ``top``.

    Examples:
        >>> spaced([1.0, 5.0, 5.0], gap=1.0, top=10.0), spaced([5.0, 4.5], gap=1.0, top=5.0)
        ([1.0, 4.5, 5.5], [5.0, 4.0])
    """
    order = sorted(range(len(heights)), key=lambda place: heights[place])
    groups: list[list[int]] = []
    for place in order:  # those that are too near become one group around their mean, which may reach the one before
        groups.append([place])
        while (
            len(groups) > 1
            and _bounds(groups[-1], heights, gap, top)[0] - gap < _bounds(groups[-2], heights, gap, top)[1]
        ):
            groups[-2:] = [groups[-2] + groups[-1]]
    found = [0.0] * len(heights)
    for group in groups:
        low, _ = _bounds(group, heights, gap, top)
        for step, place in enumerate(group):
            found[place] = low + step * gap
    return found


def _bounds(group: Sequence[int], heights: Sequence[float], gap: float, top: float) -> tuple[float, float]:
    """Return the lowest and the highest place of a group that is spread around its mean."""
    size = (len(group) - 1) * gap
    high = min(sum(heights[place] for place in group) / len(group) + size / 2, top)
    return high - size, high


def _write_ends(axes: "Axes", ends: Mapping[str, tuple[float, float]], names: Sequence[str]) -> None:
    """Write names beside the ends of the lines, with their markers and what each method lost."""
    low, high = axes.get_ylim()
    heights = spaced([end for end, _ in ends.values()], 0.065 * (high - low), high)
    beside = axes.get_yaxis_transform()  # x in parts of the panel, y in per cent
    for (name, (_, lost)), height in zip(ends.items(), heights, strict=True):
        text = name + (f"  −{lost:.1f}" if lost >= LOST else "")
        axes.plot([1.025], [height], transform=beside, clip_on=False, linestyle="", **_style(names.index(name)))
        axes.text(1.05, height, text, transform=beside, va="center", fontsize=8, color=INK, parse_math=False)
    axes.set_ylim(low, high)


def _draw_matrix(axes: "Axes", matrix: Floats, names: Sequence[str]) -> Any:
    from matplotlib.colors import PowerNorm

    # By the square root of the share, so that the few per cent each class gets in symmetric noise are seen at all.
    image = axes.imshow(matrix, cmap=shades(), norm=PowerNorm(0.5, 0, 1), interpolation="nearest")
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.set_xlabel("given as")
    if len(names) > WRITTEN:
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


def _frame(axes: "Axes", cells: NDArray[np.bool_]) -> None:
    from matplotlib.patches import Rectangle

    for row, column in np.argwhere(cells).tolist():
        axes.add_patch(Rectangle((column - 0.45, row - 0.45), 0.9, 0.9, fill=False, edgecolor=ACCENT, linewidth=1.3))
