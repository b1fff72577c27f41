"""Figure 3 of the paper: right labels after correction as a function of the step size η and the initial weight m.

η multiplies the gradient of the mean loss of a batch, as in the paper. A point is a run.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize, to_hex
from matplotlib.figure import Figure
from numpy.typing import NDArray

from permll.report.figures.style import (
    ACCENT,
    INK,
    LINE_STYLES,
    MUTED,
    PROBABILITY_COLORMAP,
    draw_level,
    draw_ring,
    draw_series,
    figure_style,
    make_figure,
    panel_title,
)
from permll.report.tables.titles import Figure3Point

Floats = NDArray[np.float64]
Curve = Mapping[int, float]  # by epoch
GRID_POINTS = 120  # of the smoothed map in each direction
OUTLINE_WIDTH = 4.5  # of the light line below the ridge


class Point(NamedTuple):
    """η, m and the final fraction of right labels of a run."""

    eta: float
    m: float
    fraction: float


@figure_style()
def draw_correction_curves(
    series: Mapping[Figure3Point, Curve], *, m: float, eta: float, given: float | None = None
) -> Figure:
    """Draw the fraction of right labels by epoch: (a) for every η at this m, (b) for every m at this η.

    Args:
        series: fraction in [0, 1] by epoch for each setting; settings with neither this m nor this η are ignored.
        m: m of panel (a).
        eta: η of panel (b).
        given: fraction of right labels as given, drawn as a level.
    """
    by_eta = {setting.eta: curve for setting, curve in series.items() if setting.m == m}
    by_m = {setting.m: curve for setting, curve in series.items() if setting.eta == eta}
    sides = (("a", f"m = {m:g}, several η", "η", by_eta), ("b", f"η = {eta:g}, several m", "m", by_m))
    if not by_eta and not by_m:
        raise ValueError(f"there is nothing to draw: no run has m = {m:g} or η = {eta:g}.")
    figure = make_figure(9.4, 3.7, w_pad=0.12)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (letter, title, symbol, curves) in zip(panels, sides, strict=True):
        panel_title(axes, letter, title, "training labels that are right after correction, %")
        _draw_curves(axes, symbol, dict(sorted(curves.items())))
        if given is not None:
            draw_level(axes, 100 * given, "as given", below=True)
        axes.set_xlabel("epoch")
    return figure


@figure_style()
def draw_heat_map(points: Iterable[Point]) -> Figure:
    """Draw the smoothed fraction over log η and m, each run as a dot, and the ridge of the best η.

    Args:
        points: runs with at least two values of η and of m; runs of the same setting are averaged.
    """
    cells = _means(points)
    etas, ms = sorted({cell.eta for cell in cells}), sorted({cell.m for cell in cells})
    if len(etas) < 2 or len(ms) < 2:
        raise ValueError(f"a map needs two values of η and two of m: there are {len(etas)} and {len(ms)}.")
    log_grid = np.linspace(np.log(etas[0]), np.log(etas[-1]), GRID_POINTS)
    m_grid = np.linspace(ms[0], ms[-1], GRID_POINTS)
    grid, smooth = (m_grid, np.exp(log_grid)), 100 * smooth_map(cells, log_grid, m_grid)
    figure = make_figure(6.4, 4.9, w_pad=0.08)
    axes = figure.subplots()
    values = [100 * cell.fraction for cell in cells]
    colors: dict[str, Any] = {"cmap": PROBABILITY_COLORMAP, "norm": Normalize(min(values), max(values))}
    image = axes.pcolormesh(*grid, smooth, **colors, shading="gouraud", rasterized=True)
    axes.contour(*grid, smooth, levels=6, colors=MUTED, linewidths=0.6, alpha=0.8)
    best_etas = best_eta(cells, m_grid)
    axes.plot(m_grid, best_etas, color="white", linewidth=OUTLINE_WIDTH, solid_capstyle="round")
    axes.plot(m_grid, best_etas, color=ACCENT, linewidth=2.2, solid_capstyle="round")
    _draw_cells(axes, cells, colors)
    _scale(axes, etas, ms)
    scale = figure.colorbar(image, ax=axes, aspect=30, pad=0.02, label="right labels, %")
    scale.outline.set_visible(False)
    subtitle = "smoothed; dots: runs, ring: the best; line: the best η at each m"
    panel_title(axes, "c", "Right labels after training, %", subtitle)
    return figure


def smooth_map(cells: Sequence[Point], log_grid: Floats, m_grid: Floats) -> Floats:
    """Return the fraction smoothed by a Gaussian kernel (rows: log η, columns: m).

    s(x, m) = Σ_i w_i s_i / Σ_i w_i,  w_i = exp(-((x - x_i)/h_x)²/2 - ((m - m_i)/h_m)²/2), x = log η. The bandwidths h
    are 0.7 of the mean step between values.

    Examples:
        >>> corners = [Point(1, 0.2, 0.0), Point(10, 0.2, 0.0), Point(1, 0.8, 1.0), Point(10, 0.8, 1.0)]
        >>> smooth_map(corners, np.log([1.0, 10.0]), np.array([0.2, 0.5, 0.8])).round(2)
        array([[0.26, 0.5 , 0.74],
               [0.26, 0.5 , 0.74]])
    """
    logs, ms, fractions = (np.array(values, dtype=np.float64) for values in zip(*cells, strict=True))
    logs = np.log(logs)
    across = np.exp(-0.5 * ((log_grid[:, None] - logs) / _width(logs)) ** 2)  # (rows, cells)
    along = np.exp(-0.5 * ((m_grid[:, None] - ms) / _width(ms)) ** 2)  # (columns, cells)
    return np.asarray((across * fractions) @ along.T / (across @ along.T), dtype=np.float64)


def best_eta(cells: Sequence[Point], m_grid: Floats) -> Floats:
    """Return for each m the η with the highest smoothed fraction, within the range of the runs."""
    logs = np.log([cell.eta for cell in cells])
    fine = np.linspace(logs.min(), logs.max(), 10 * GRID_POINTS)  # for a smooth ridge
    return np.exp(fine[smooth_map(cells, fine, m_grid).argmax(0)])


def _width(values: Floats) -> float:
    distinct = np.unique(values)
    return float(0.7 * (distinct[-1] - distinct[0]) / (len(distinct) - 1))


def _means(points: Iterable[Point]) -> list[Point]:
    fractions: dict[tuple[float, float], list[float]] = {}
    for eta, m, fraction in points:
        fractions.setdefault((eta, m), []).append(fraction)
    return [Point(*setting, float(np.mean(values))) for setting, values in sorted(fractions.items())]


def _draw_curves(axes: Axes, symbol: str, curves: Mapping[float, Curve]) -> None:
    """Draw curves in order from dark to light, with a legend beside the panel."""
    for index, ((value, curve), color) in enumerate(zip(curves.items(), ordered_colors(len(curves)), strict=True)):
        epochs, fractions = list(curve), [100 * fraction for fraction in curve.values()]
        style: dict[str, Any] = {"color": color, "marker": LINE_STYLES[index % len(LINE_STYLES)].marker}
        style |= {"markersize": 4.2, "mfc": color if index < len(LINE_STYLES) else "white"}
        draw_series(axes, epochs, fractions, index, num_markers=5, label=f"{symbol} = {value:g}", **style)
    if curves:
        axes.set_xlim(0, 1.02 * max(epoch for curve in curves.values() for epoch in curve))
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=2.0, labelspacing=0.4)
    axes.locator_params(axis="x", integer=True, nbins=6)
    axes.margins(y=0.09)


def ordered_colors(count: int) -> list[str]:
    """Return colors for ascending values, from dark to light through ``LINE_STYLES``.

    Examples:
        >>> ordered_colors(2)
        ['#14213d', '#eeaa2f']
    """
    colormap = LinearSegmentedColormap.from_list("order", [style.color for style in LINE_STYLES])
    return [to_hex(colormap(index / max(count - 1, 1))) for index in range(count)]


def _draw_cells(axes: Axes, cells: Sequence[Point], colors: Mapping[str, Any]) -> None:
    """Draw each run as a dot in the color of its fraction, and a ring around the best."""
    points = [cell.m for cell in cells], [cell.eta for cell in cells]
    values = [100 * cell.fraction for cell in cells]
    axes.scatter(*points, s=52, color=MUTED, linewidths=0, zorder=4)  # dark edge around the light one
    axes.scatter(*points, c=values, s=30, **colors, edgecolors="white", linewidths=1.0, zorder=4)
    best = max(cells, key=lambda cell: cell.fraction)
    draw_ring(axes, best.m, best.eta, INK, size=11)
    box = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
    style: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "fontsize": 8, "bbox": box, "zorder": 6}
    axes.annotate(f"{100 * best.fraction:.1f}", (best.m, best.eta), (0, 11), **style)


def _scale(axes: Axes, etas: Sequence[float], ms: Sequence[float]) -> None:
    axes.set_yscale("log")
    axes.set_yticks(etas, [f"{eta:g}" for eta in etas])
    axes.minorticks_off()
    axes.set_xticks(ms, [f"{m:g}" for m in ms])
    step, ratio = (ms[-1] - ms[0]) / (len(ms) - 1), (etas[-1] / etas[0]) ** (1 / (len(etas) - 1))
    axes.set(xlim=(ms[0] - step / 4, ms[-1] + step / 4), ylim=(etas[0] / ratio**0.35, etas[-1] * ratio**0.35))
    axes.set(xlabel="m, initial weight of the given label", ylabel="η, step size of the permutation layer")
    axes.grid(False)
