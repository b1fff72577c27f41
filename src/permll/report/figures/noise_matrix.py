"""Transition matrix of label noise with the noise rate of each class."""

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from permll.noise.corruption import Corruption
from permll.report.figures.style import ACCENT, GRID, INK, MUTED, draw_transition, figure_style
from permll.report.text import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

MAX_LABELED_CLASSES = 20  # with more classes, cells have no numbers and classes no names
Groups = Mapping[str, Sequence[int]]


class NoiseMatrix(NamedTuple):
    """Data of the figure, with the classes in drawing order."""

    order: NDArray[np.int64]  # (c,) class indices
    matrix: NDArray[np.float64]  # (c, c) realized transition matrix
    wrong: NDArray[np.float64]  # (c,) noise rate; NaN for a class without samples
    edges: tuple[int, ...]  # boundaries of groups, from 0 to c; empty without groups


def noise_matrix(record: Corruption, groups: Groups | None = None) -> NoiseMatrix:
    """Return the data of the figure; ``groups`` places related classes side by side.

    Examples:
        >>> record = Corruption(np.array([0, 1, 2, 2]), np.array([0, 1, 2, 0]), 3, 0, {})
        >>> data = noise_matrix(record, groups={"even": [0, 2], "odd": [1]})
        >>> data.order, data.wrong, data.edges
        (array([0, 2, 1]), array([0. , 0.5, 0. ]), (0, 2, 3))
    """
    c = record.num_classes
    order = np.array([label for group in groups.values() for label in group]) if groups else np.arange(c)
    if not np.array_equal(np.sort(order), np.arange(c)):
        raise ValueError(f"groups must contain each of the classes 0..{c - 1} once.")
    edges = tuple(accumulate((len(group) for group in groups.values()), initial=0)) if groups else ()
    matrix = record.matrix[np.ix_(order, order)]
    present = np.isin(order, record.clean)
    return NoiseMatrix(order, matrix, np.where(present, 1 - matrix.diagonal(), np.nan), edges)


def draw_noise(record: Corruption, classes: Sequence[str] | None = None, groups: Groups | None = None) -> "Figure":
    """Draw the realized transition matrix with the noise rate of each class beside it.

    Args:
        record: noise record.
        classes: c names, shown for up to 20 classes; numbers by default.
        groups: related classes such as superclasses, by group name, drawn side by side.
    """
    if classes is not None and len(classes) != record.num_classes:
        raise ValueError(f"there are {record.num_classes} classes, but {len(classes)} names.")
    data = noise_matrix(record, groups)
    names = [shorten(classes[k]) if classes else str(k) for k in data.order]
    labeled = record.num_classes <= MAX_LABELED_CLASSES
    side = min(max(2.4, 0.5 * record.num_classes), 6.0)
    rows = list(groups) if groups else names if labeled else []
    width, height = side + 2.5 + 0.07 * max(map(len, rows), default=3), side + (1.5 if labeled else 1.9)
    with figure_style():
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        below_title = (0, 0, 1, 1 - _TITLE / height)
        figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(rect=below_title))
        left, right = figure.subplots(1, 2, width_ratios=(side, 1.9), sharey=True)
        image = _draw_cells(left, data)
        if labeled:
            _write_numbers(left, data.matrix)
            left.set_xlabel("given as, % of the true class")
            _name_classes(left, names, side / len(names))
        else:
            left.locator_params(nbins=11, integer=True, steps=[1, 2, 5, 10])  # decades, if there are a hundred
            _draw_scale(figure, image)
        if groups:
            _name_groups(left, data.edges, list(groups))
        _draw_bars(right, data.wrong, record.rate)
        _draw_title(figure, record)
    return figure


_TITLE = 0.55  # inches


def _draw_title(figure: "Figure", record: Corruption) -> None:
    """Write name and statistics above the panels, across the whole width."""
    seed = "" if record.seed is None else f", seed {record.seed}"
    text = f"{100 * record.rate:.2f} % of {len(record.clean):,} labels are wrong{seed}, hash {record.hash}"
    width, height = figure.get_size_inches()
    x = 0.1 / width
    name = record.noise.get("name", "Label noise")
    above: dict[str, Any] = {"va": "top", "in_layout": False, "parse_math": False}  # a file name may hold a $
    figure.text(x, 1 - 0.12 / height, name, fontsize=11, fontweight="bold", **above)
    figure.text(x, 1 - 0.34 / height, text, color=MUTED, **above)


def _draw_cells(axes: "Axes", data: NoiseMatrix) -> "AxesImage":
    image = draw_transition(axes, data.matrix, aspect="auto")
    axes.set_ylabel("true class")
    c = len(data.matrix)
    lines, color, width = (data.edges[1:-1], MUTED, 0.3) if data.edges else (range(1, c), "white", 1.2)
    if data.edges or c <= MAX_LABELED_CLASSES:
        for edge in lines:
            axes.axhline(edge - 0.5, color=color, linewidth=width)
            axes.axvline(edge - 0.5, color=color, linewidth=width)
    return image


def _write_numbers(axes: "Axes", matrix: NDArray[np.float64]) -> None:
    """Write each probability in percent; zeros stay empty."""
    digits = 1 if len(matrix) <= MAX_LABELED_CLASSES / 2 else 0
    for row, column in np.argwhere(matrix > 0).tolist():
        value = matrix[row, column]
        text = f"{100 * value:.{digits}f}".removesuffix(".0") if 100 * value >= 0.5 else "<1"
        weight, color = ("bold" if row == column else "normal"), ("white" if value > 0.25 else INK)
        axes.text(column, row, text, ha="center", va="center", color=color, fontsize=8, fontweight=weight)


def _name_classes(axes: "Axes", names: Sequence[str], inches: float) -> None:
    """Name rows and columns; names wider than a column of ``inches`` are slanted."""
    slant: dict[str, Any] = {}
    if 0.08 * max(map(len, names)) > inches:
        slant = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(names)), names, parse_math=False, **slant)
    axes.set_yticks(range(len(names)), names, parse_math=False)


def _name_groups(axes: "Axes", edges: Sequence[int], names: Sequence[str]) -> None:
    """Name the groups at their rows, and number them at their columns."""
    middles = [(start + end - 1) / 2 for start, end in pairwise(edges)]
    axes.set_yticks(middles, [f"{name}  {number}" for number, name in enumerate(names, 1)])
    axes.set_xticks(middles, [str(number) for number in range(1, len(names) + 1)])


def _draw_scale(figure: "Figure", image: "AxesImage") -> None:
    scale = figure.colorbar(image, ax=figure.axes, location="bottom", shrink=0.5, aspect=45, anchor=(0, 1))
    ticks = (0, 0.01, 0.05, 0.2, 0.5, 1)
    scale.set_ticks(ticks, labels=[f"{100 * tick:g}" for tick in ticks])
    scale.set_label("percentage of the true class")
    scale.outline.set_visible(False)


def _draw_bars(axes: "Axes", wrong: NDArray[np.float64], rate: float) -> None:
    c = len(wrong)
    axes.barh(range(c), np.nan_to_num(100 * wrong), height=0.5 if c <= MAX_LABELED_CLASSES else 0.7, color=ACCENT)
    axes.axvline(100 * rate, color=INK, linewidth=1, linestyle=(0, (3, 2)))
    above: dict[str, Any] = {
        "xycoords": ("data", "axes fraction"),
        "textcoords": "offset points",
        "ha": "center",
        "fontsize": 8,
    }
    axes.annotate(f"all {100 * rate:.1f}", (100 * rate, 1), (0, 3), **above)
    for row in range(c if c <= MAX_LABELED_CLASSES else 0):
        text = "no samples" if np.isnan(wrong[row]) else f"{100 * wrong[row]:.1f}"
        axes.text(1, row, text, transform=axes.get_yaxis_transform(), ha="right", va="center", fontsize=8)
    highest = max(100 * np.nanmax(wrong), 1)
    axes.set(xlabel="wrong, %", xlim=(0, highest * (1.4 if c <= MAX_LABELED_CLASSES else 1.05)))
    axes.locator_params(axis="x", nbins=4)
    axes.tick_params(axis="y", length=0)
    axes.grid(False, axis="y")
    axes.spines["left"].set_color(GRID)
