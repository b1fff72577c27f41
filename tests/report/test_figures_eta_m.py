"""Figure 3: correction curves, smoothed map, ridge."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from permll.report.figures.eta_m import (
    Point,
    best_eta,
    draw_correction_curves,
    draw_heat_map,
    ordered_colors,
    smooth_map,
)
from permll.report.figures.style import save
from permll.report.tables.titles import Figure3Point

ETAS, MS = [1.5 * 2**k for k in range(10)], (0.15, 0.25, 0.35, 0.5, 0.65, 0.75, 0.85, 0.95)


def share(eta: float, m: float) -> float:
    """Return a share that is best where η grows with m: a ridge from low and low to high and high."""
    return 0.46 + 0.4 * float(np.exp(-((np.log(eta / (20 * m)) / 1.2) ** 2)))


POINTS = [Point(eta, m, share(eta, m)) for eta in ETAS for m in MS]
SERIES = {
    Figure3Point(eta, m): {epoch: 0.46 + (share(eta, m) - 0.46) * epoch / 40 for epoch in range(1, 41)}
    for eta in ETAS
    for m in MS
}


def curves(axes: Any) -> dict[str, Any]:
    return {line.get_label(): line for line in axes.get_lines() if not line.get_label().startswith("_")}


def test_correction_curves_select_settings() -> None:
    left, right = draw_correction_curves(SERIES, m=0.75, eta=24, given=0.46).axes
    assert list(curves(left)) == [f"η = {eta:g}" for eta in ETAS]
    assert list(curves(right)) == [f"m = {m:g}" for m in MS]
    drawn = curves(left)["η = 6"].get_xydata()
    np.testing.assert_allclose(drawn, [[epoch, 100 * value] for epoch, value in SERIES[Figure3Point(6, 0.75)].items()])
    levels = [line.get_ydata()[0] for line in right.get_lines() if list(line.get_xdata()) == [0, 1]]
    assert levels == [46]


def test_correction_curves_refuse_no_data() -> None:
    left, right = draw_correction_curves({Figure3Point(6, 0.75): {1: 0.5}}, m=0.75, eta=24).axes
    assert (len(curves(left)), len(curves(right))) == (1, 0)
    with pytest.raises(ValueError, match=r"nothing to draw: no run has m = 0.5 or η = 24\."):
        draw_correction_curves({Figure3Point(6, 0.75): {1: 0.5}}, m=0.5, eta=24)


def test_correction_curves_differ_by_marker() -> None:
    left, _ = draw_correction_curves(SERIES, m=0.75, eta=24).axes
    lines = curves(left).values()
    assert len({(line.get_marker(), line.get_markerfacecolor() == "white") for line in lines}) == len(ETAS)
    grays = [
        sum(w * int(c[k : k + 2], 16) for w, k in ((0.299, 1), (0.587, 3), (0.114, 5))) for c in ordered_colors(10)
    ]
    assert grays == sorted(grays)
    assert min(np.diff(grays)) > 5


def test_smooth_map_equals_weighted_mean() -> None:
    cells = [
        Point(1.0, 0.2, 0.1),
        Point(4.0, 0.2, 0.5),
        Point(1.0, 0.6, 0.9),
        Point(4.0, 0.6, 0.3),
        Point(2.0, 0.6, 0.7),
    ]
    logs, ms = np.log([1.0, 3.0, 4.0]), np.array([0.2, 0.5])
    smoothed = smooth_map(cells, logs, ms)
    across, along = 0.7 * np.log(4) / 2, 0.7 * 0.4
    for i, x in enumerate(logs):
        for j, m in enumerate(ms):
            above = below = 0.0
            for cell in cells:
                weight = np.exp(-(((x - np.log(cell.eta)) / across) ** 2) / 2 - (((m - cell.m) / along) ** 2) / 2)
                above, below = above + weight * cell.fraction, below + weight
            assert smoothed[i, j] == pytest.approx(above / below)


def test_heat_map_marks_runs_and_ridge(tmp_path: Path) -> None:
    figure = draw_heat_map([*POINTS, Point(24, 0.75, share(24, 0.75) + 0.02)])
    axes = figure.axes[0]
    dots = axes.collections[-1]
    assert len(dots.get_offsets()) == len(POINTS) == 80
    values = {
        tuple(position): value
        for position, value in zip(dots.get_offsets().tolist(), dots.get_array().tolist(), strict=True)
    }
    assert values[0.25, 6.0] == pytest.approx(100 * share(6, 0.25))
    assert values[0.75, 24.0] == pytest.approx(100 * (share(24, 0.75) + 0.01))  # the mean of both
    assert axes.get_yscale() == "log"
    outline, ridge, ring = axes.get_lines()
    assert outline.get_linewidth() > ridge.get_linewidth()
    best = max(values, key=values.__getitem__)
    assert ring.get_xydata().tolist() == [list(best)]
    ms, etas = ridge.get_data()
    assert (np.diff(etas) >= 0).all()  # from low m and low η to high and high
    np.testing.assert_allclose(etas[len(ms) // 2], 20 * ms[len(ms) // 2], rtol=0.25)
    (path, _) = save(figure, tmp_path, "map")
    assert path.stat().st_size > 20_000


def test_best_eta_stays_in_range() -> None:
    rising = [Point(eta, m, eta / 10) for eta in (1.0, 10.0) for m in (0.2, 0.8)]
    np.testing.assert_allclose(best_eta(rising, np.array([0.2, 0.5, 0.8])), 10.0)


@pytest.mark.parametrize("points", [[], [Point(1, 0.5, 0.5)], [Point(eta, 0.5, 0.5) for eta in (1, 2, 3)]])
def test_heat_map_needs_two_values(points: list[Point]) -> None:
    with pytest.raises(ValueError, match="a map needs two values of η and two of m: there are"):
        draw_heat_map(points)
