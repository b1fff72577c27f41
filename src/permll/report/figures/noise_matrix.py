"""Transition matrices of label noise: of a noise record with the noise rate of each class, and true beside learned."""

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike, NDArray

from permll.noise.corruption import Corruption
from permll.report.figures.style import (
    ACCENT,
    GRID,
    INK,
    MUTED,
    PROBABILITY_COLORMAP,
    figure_style,
    make_figure,
    panel_title,
)
from permll.report.text import shorten

MAX_LABELED_CLASSES = 20  # with more classes, cells have no numbers and classes no names
MIN_FRAMED_DIFFERENCE = 0.05  # between true and learned probability
TITLE_HEIGHT = 0.55  # inches
Floats = NDArray[np.float64]
Groups = Mapping[str, Sequence[int]]


class NoiseMatrix(NamedTuple):
    """Data of the figure, with the classes in drawing order."""

    order: NDArray[np.int64]  # (c,) class indices
    matrix: Floats  # (c, c) realized transition matrix
    wrong: Floats  # (c,) noise rate; NaN for a class without samples
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


@figure_style()
def draw_noise(record: Corruption, classes: Sequence[str] | None = None, groups: Groups | None = None) -> Figure:
    """Draw the realized transition matrix with the noise rate of each class beside it.

    Args:
        record: noise record.
        classes: c names, shown for up to 20 classes; numbers by default.
        groups: related classes such as superclasses, by group name, drawn side by side.
    """
    c = record.num_classes
    names, data = _class_names(classes, c), noise_matrix(record, groups)
    names = [names[k] for k in data.order]
    labeled = c <= MAX_LABELED_CLASSES
    side = min(max(2.4, 0.5 * c), 6.0)
    rows = list(groups) if groups else names if labeled else []
    width, height = side + 2.5 + 0.07 * max(map(len, rows), default=3), side + (1.5 if labeled else 1.9)
    below_title = ConstrainedLayoutEngine(rect=(0, 0, 1, 1 - TITLE_HEIGHT / height))
    figure = Figure(figsize=(width, height), layout=below_title)
    left, right = figure.subplots(1, 2, width_ratios=(side, 1.9), sharey=True)
    image = _draw_matrix(left, data.matrix, aspect="auto")
    left.set_ylabel("true class")
    if labeled:
        _write_numbers(left, data.matrix, digits=1 if c <= MAX_LABELED_CLASSES / 2 else 0, small="<1", fontsize=8)
        left.set_xlabel("given as, % of the true class")
        _name_classes(left, names, side / c)
    else:
        left.locator_params(nbins=11, integer=True, steps=[1, 2, 5, 10])  # decades, if there are a hundred
        _draw_scale(image, (0, 0.01, 0.05, 0.2, 0.5, 1), label="percentage of the true class", anchor=(0, 1))
    if groups:
        _draw_lines(left, data.edges[1:-1], color=MUTED, linewidth=0.3)
        _name_groups(left, data.edges, list(groups))
    elif labeled:
        _draw_lines(left, range(1, c), color="white", linewidth=1.2)
    _draw_bars(right, data.wrong, record.rate)
    _draw_title(figure, record)
    return figure


@figure_style()
def draw_learned_noise(true: ArrayLike, learned: ArrayLike, classes: Sequence[str] | None = None) -> Figure:
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
    names, differences = _class_names(classes, c), np.abs(matrices[0] - matrices[1])
    side = min(max(2.6, 0.42 * c), 5.6)
    figure = make_figure(2 * side + 0.9 + 0.07 * max(map(len, names)), side + 1.35, w_pad=0.12)
    panels = left, right = figure.subplots(1, 2, sharey=True)
    images = [_draw_matrix(axes, matrix) for axes, matrix in zip(panels, matrices, strict=True)]
    left.set_ylabel("true class")
    panel_title(left, "a", "True noise", "% of a true class given as each label")
    subtitle = f"mean difference per class: {100 * float(differences.mean() * c) / 2:.1f} %"
    if c > MAX_LABELED_CLASSES:
        panel_title(right, "b", "Learned noise", subtitle)
        _draw_scale(images[0], (0, 0.05, 0.2, 0.5, 1))
        return figure
    panel_title(right, "b", "Learned noise", f"{subtitle}; frame: {100 * MIN_FRAMED_DIFFERENCE:.0f} or more")
    for axes, matrix in zip(panels, matrices, strict=True):
        _write_numbers(axes, matrix, digits=0, small="", fontsize=7.5)
        _name_classes(axes, names, 0)
        _draw_lines(axes, range(1, c), color="white", linewidth=1)
    for row, column in np.argwhere(differences >= MIN_FRAMED_DIFFERENCE).tolist():
        right.add_patch(Rectangle((column - 0.45, row - 0.45), 0.9, 0.9, fill=False, edgecolor=ACCENT, linewidth=1.3))
    return figure


def _class_names(classes: Sequence[str] | None, c: int) -> list[str]:
    if classes is not None and len(classes) != c:
        raise ValueError(f"there are {c} classes, but {len(classes)} names.")
    return [shorten(name) for name in classes] if classes else [str(k) for k in range(c)]


def _draw_matrix(axes: Axes, matrix: Floats, aspect: Literal["equal", "auto"] = "equal") -> AxesImage:
    """Draw a transition matrix, colored by square root so that small probabilities are visible."""
    norm = PowerNorm(0.5, 0, 1)
    image = axes.imshow(matrix, cmap=PROBABILITY_COLORMAP, norm=norm, aspect=aspect, interpolation="nearest")
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.set_xlabel("given as")
    return image


def _draw_lines(axes: Axes, edges: Sequence[int], **style: Any) -> None:
    for edge in edges:
        axes.axhline(edge - 0.5, **style)
        axes.axvline(edge - 0.5, **style)


def _write_numbers(axes: Axes, matrix: Floats, *, digits: int, small: str, fontsize: float) -> None:
    """Write each probability in percent, or ``small`` below a half; zeros stay empty."""
    for row, column in np.argwhere(matrix > 0).tolist():
        value = matrix[row, column]
        text = f"{100 * value:.{digits}f}".removesuffix(".0") if value >= 0.005 else small
        weight, color = ("bold" if row == column else "normal"), ("white" if value > 0.25 else INK)
        axes.text(column, row, text, ha="center", va="center", color=color, fontsize=fontsize, fontweight=weight)


def _name_classes(axes: Axes, names: Sequence[str], inches: float) -> None:
    """Name rows and columns; names wider than a column of ``inches`` are slanted."""
    slant: dict[str, Any] = {}
    if 0.08 * max(map(len, names)) > inches:
        slant = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(names)), names, parse_math=False, **slant)
    axes.set_yticks(range(len(names)), names, parse_math=False)


def _name_groups(axes: Axes, edges: Sequence[int], names: Sequence[str]) -> None:
    """Name the groups at their rows, and number them at their columns."""
    middles = [(start + end - 1) / 2 for start, end in pairwise(edges)]
    axes.set_yticks(middles, [f"{name}  {number}" for number, name in enumerate(names, 1)])
    axes.set_xticks(middles, [str(number) for number in range(1, len(names) + 1)])


def _draw_scale(image: AxesImage, ticks: Sequence[float], *, label: str = "", **options: Any) -> None:
    """Draw a color bar in percent below all panels."""
    figure: Any = image.figure
    scale = figure.colorbar(image, ax=figure.axes, location="bottom", shrink=0.5, aspect=45, label=label, **options)
    scale.set_ticks(ticks, labels=[f"{100 * tick:g}" for tick in ticks])
    scale.outline.set_visible(False)


def _draw_bars(axes: Axes, wrong: Floats, rate: float) -> None:
    c = len(wrong)
    labeled = c <= MAX_LABELED_CLASSES
    axes.barh(range(c), np.nan_to_num(100 * wrong), height=0.5 if labeled else 0.7, color=ACCENT)
    axes.axvline(100 * rate, color=INK, linewidth=1, linestyle=(0, (3, 2)))
    above: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
    axes.annotate(f"all {100 * rate:.1f}", (100 * rate, 1), (0, 3), ha="center", fontsize=8, **above)
    for row in range(c if labeled else 0):
        text = "no samples" if np.isnan(wrong[row]) else f"{100 * wrong[row]:.1f}"
        axes.text(1, row, text, transform=axes.get_yaxis_transform(), ha="right", va="center", fontsize=8)
    highest = max(100 * np.nanmax(wrong), 1)
    axes.set(xlabel="wrong, %", xlim=(0, highest * (1.4 if labeled else 1.05)))
    axes.locator_params(axis="x", nbins=4)
    axes.tick_params(axis="y", length=0)
    axes.grid(False, axis="y")
    axes.spines["left"].set_color(GRID)


def _draw_title(figure: Figure, record: Corruption) -> None:
    """Write name and statistics above the panels, across the whole width."""
    seed = "" if record.seed is None else f", seed {record.seed}"
    text = f"{100 * record.rate:.2f} % of {len(record.clean):,} labels are wrong{seed}, hash {record.hash}"
    width, height = figure.get_size_inches()
    name = record.noise.get("name", "Label noise")
    above: dict[str, Any] = {"va": "top", "in_layout": False, "parse_math": False}  # a file name may hold a $
    figure.text(0.1 / width, 1 - 0.12 / height, name, fontsize=11, fontweight="bold", **above)
    figure.text(0.1 / width, 1 - 0.34 / height, text, color=MUTED, **above)
