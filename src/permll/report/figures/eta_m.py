"""Figure 3 of the paper: how the step η and the initial weight m of the given label decide how many labels turn right.

η multiplies the gradient of a batch's mean, as in the paper. A point is a training, its share the labels that are right
after correction.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from permll.report.figures.style import ACCENT, INK, MUTED, STROKES, look, panel_title, shades

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
Curve = Mapping[int, float]  # by epoch
FINE = 120  # points of the smoothed map in each direction
OUTLINE = 4.5  # line width of the light edge below a line on the map


class Setting(NamedTuple):
    """η and m of a training."""

    eta: float
    m: float


class Point(NamedTuple):
    """A training at the end: η, m and the share of right labels, in [0, 1]."""

    eta: float
    m: float
    share: float


def draw_correction_curves(
    series: Mapping[Setting, Curve], *, m: float, eta: float, given: float | None = None
) -> "Figure":
    """Draw the share of right labels over the epochs: (a) for every η at this m, (b) for every m at this η.

    Args:
        series: for each setting, the share in [0, 1] by epoch; settings with neither this m nor this η are not drawn.
        m: of panel (a).
        eta: of panel (b).
        given: the share that is right as given, drawn as a level.
    """
    sides = (
        ("a", f"m = {m:g}, several η", "η", {one.eta: curve for one, curve in series.items() if one.m == m}),
        ("b", f"η = {eta:g}, several m", "m", {one.m: curve for one, curve in series.items() if one.eta == eta}),
    )
    if not any(curves for *_, curves in sides):
        raise ValueError(f"there is nothing to draw: no training has m = {m:g} or η = {eta:g}.")
    with look():
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        figure = Figure(figsize=(9.4, 3.7), layout=ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.12))
        both = figure.subplots(1, 2, sharey=True)
        for axes, (letter, title, sign, curves) in zip(both, sides, strict=True):
            panel_title(axes, letter, title, "training labels that are right after correction, %")
            _draw_curves(axes, sign, dict(sorted(curves.items())))
            if given is not None:
                _draw_level(axes, 100 * given)
            axes.set_xlabel("epoch")
    return figure


def draw_heat_map(points: Iterable[Point], *, title: str = "Right labels after training, %") -> "Figure":
    """Draw the smoothed share over log η and m, each training as a dot of its own value, and the ridge of the best η.

    Args:
        points: trainings, with two values of η and of m at least; several of one setting count as their mean.
        title: of the figure.
    """
    cells = _means(points)
    etas, ms = sorted({cell.eta for cell in cells}), sorted({cell.m for cell in cells})
    if len(etas) < 2 or len(ms) < 2:
        raise ValueError(f"a map needs two values of η and two of m: there are {len(etas)} and {len(ms)}.")
    log_grid, m_grid = np.linspace(np.log(etas[0]), np.log(etas[-1]), FINE), np.linspace(ms[0], ms[-1], FINE)
    smooth = 100 * smooth_map(cells, log_grid, m_grid)
    with look():
        from matplotlib.colors import Normalize
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        figure = Figure(figsize=(6.4, 4.9), layout=ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.08))
        axes = figure.subplots()
        shares = [100 * cell.share for cell in cells]
        norm, colors = Normalize(min(shares), max(shares)), shades()
        image = axes.pcolormesh(
            m_grid, np.exp(log_grid), smooth, cmap=colors, norm=norm, shading="gouraud", rasterized=True
        )
        axes.contour(m_grid, np.exp(log_grid), smooth, levels=6, colors=MUTED, linewidths=0.6, alpha=0.8)
        _draw_ridge(axes, m_grid, best_eta(cells, m_grid))
        _draw_cells(axes, cells, norm, colors)
        _scale(axes, etas, ms)
        scale = figure.colorbar(image, ax=axes, aspect=30, pad=0.02)
        scale.set_label("right labels, %")
        scale.outline.set_visible(False)
        panel_title(axes, "c", title, "smoothed; dots: trainings, ring: the best; line: the best η at each m")
    return figure


def smooth_map(cells: Sequence[Point], log_grid: Floats, m_grid: Floats) -> Floats:
    """Return the smoothed share (rows: log η, columns: m), a mean of all cells with Gaussian weights.

    s(x, m) = Σ_i w_i s_i / Σ_i w_i,  w_i = exp(-((x - x_i)/h_x)²/2 - ((m - m_i)/h_m)²/2), x = log η. The widths h are
    0.7 of the mean step between the values there are, so that a cell hardly reaches beyond its neighbors.

    Examples:
        >>> corners = [Point(1, 0.2, 0.0), Point(10, 0.2, 0.0), Point(1, 0.8, 1.0), Point(10, 0.8, 1.0)]
        >>> smooth_map(corners, np.log([1.0, 10.0]), np.array([0.2, 0.5, 0.8])).round(2)
        array([[0.26, 0.5 , 0.74],
               [0.26, 0.5 , 0.74]])
    """
    logs, ms, shares = (np.array(values, dtype=np.float64) for values in zip(*cells, strict=True))
    logs = np.log(logs)
    across = np.exp(-0.5 * ((log_grid[:, None] - logs) / _width(logs)) ** 2)  # (rows, cells)
    along = np.exp(-0.5 * ((m_grid[:, None] - ms) / _width(ms)) ** 2)  # (columns, cells)
    return np.asarray((across * shares) @ along.T / (across @ along.T), dtype=np.float64)


def best_eta(cells: Sequence[Point], m_grid: Floats) -> Floats:
    """Return for each m the η with the highest smoothed share, between the lowest and the highest that was tried."""
    logs = np.log([cell.eta for cell in cells])
    fine = np.linspace(logs.min(), logs.max(), 10 * FINE)  # so fine that the ridge has no stairs
    return np.exp(fine[smooth_map(cells, fine, m_grid).argmax(0)])


def _width(values: Floats) -> float:
    distinct = np.unique(values)
    return float(0.7 * (distinct[-1] - distinct[0]) / (len(distinct) - 1))


def _means(points: Iterable[Point]) -> list[Point]:
    found: dict[Setting, list[float]] = {}
    for one in points:
        found.setdefault(Setting(one.eta, one.m), []).append(one.share)
    return [Point(*setting, float(np.mean(shares))) for setting, shares in sorted(found.items())]


def _draw_curves(axes: "Axes", sign: str, curves: Mapping[float, Curve]) -> None:
    """Draw curves in order from dark to light, with their values beside the panel."""
    colors = shades_of_order(len(curves))
    for place, (value, curve) in enumerate(curves.items()):
        epochs, shares = list(curve), [100 * share for share in curve.values()]
        stroke = STROKES[place % len(STROKES)]
        every = max(len(epochs) // 5, 1)
        style: dict[str, Any] = {"color": colors[place], "marker": stroke.marker, "markersize": 4.2}
        style |= {"mfc": colors[place] if place < len(STROKES) else "white"}
        axes.plot(epochs, shares, label=f"{sign} = {value:g}", markevery=(place % every, every), **style)
    if curves:
        axes.set_xlim(0, 1.02 * max(epoch for curve in curves.values() for epoch in curve))
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=2.0, labelspacing=0.4)
    axes.locator_params(axis="x", integer=True, nbins=6)
    axes.margins(y=0.09)


def shades_of_order(count: int) -> list[str]:
    """Return colours for values in ascending order: dark to light through the strokes, an order in grey as well.

    Examples:
        >>> shades_of_order(2)
        ['#14213d', '#eeaa2f']
    """
    from matplotlib.colors import LinearSegmentedColormap, to_hex

    through = LinearSegmentedColormap.from_list("order", [stroke.color for stroke in STROKES])
    return [to_hex(through(place / max(count - 1, 1))) for place in range(count)]


def _draw_level(axes: "Axes", value: float) -> None:
    axes.axhline(value, color=MUTED, linewidth=1, linestyle=(0, (2, 3)), zorder=1)
    place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    axes.annotate("as given", (1, value), (0, -10), ha="right", fontsize=8, color=MUTED, **place)


def _draw_ridge(axes: "Axes", ms: Floats, etas: Floats) -> None:
    axes.plot(ms, etas, color="white", linewidth=OUTLINE, solid_capstyle="round")
    axes.plot(ms, etas, color=ACCENT, linewidth=2.2, solid_capstyle="round")


def _draw_cells(axes: "Axes", cells: Sequence[Point], norm: Any, colors: "Colormap") -> None:
    """Draw each training as a dot in the colour of its own share, and a ring around the best."""
    places = [cell.m for cell in cells], [cell.eta for cell in cells]
    values = [100 * cell.share for cell in cells]
    axes.scatter(*places, s=52, color=MUTED, linewidths=0, zorder=4)  # a dark edge for light dots, a light one for dark
    axes.scatter(*places, c=values, s=30, cmap=colors, norm=norm, edgecolors="white", linewidths=1.0, zorder=4)
    best = max(cells, key=lambda cell: cell.share)
    axes.plot(best.m, best.eta, "o", markersize=11, markerfacecolor="none", markeredgecolor=INK, zorder=5)
    text = f"{100 * best.share:.1f}"
    box = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
    axes.annotate(
        text, (best.m, best.eta), (0, 11), textcoords="offset points", ha="center", fontsize=8, bbox=box, zorder=6
    )


def _scale(axes: "Axes", etas: Sequence[float], ms: Sequence[float]) -> None:
    axes.set_yscale("log")
    axes.set_yticks(etas, [f"{eta:g}" for eta in etas])
    axes.minorticks_off()
    axes.set_xticks(ms, [f"{m:g}" for m in ms])
    step, ratio = (ms[-1] - ms[0]) / (len(ms) - 1), (etas[-1] / etas[0]) ** (1 / (len(etas) - 1))
    axes.set(xlim=(ms[0] - step / 4, ms[-1] + step / 4), ylim=(etas[0] / ratio**0.35, etas[-1] * ratio**0.35))
    axes.set(xlabel="m, initial weight of the given label", ylabel="η, step of the permutation layer")
    axes.grid(False)
