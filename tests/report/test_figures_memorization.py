"""Memorization figure and learned noise: values, styles, frames."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permll.report.figures.memorization import draw_memorization, spread_labels
from permll.report.figures.noise_matrix import MIN_FRAMED_DIFFERENCE, draw_learned_noise
from permll.report.figures.style import LINE_STYLES, save
from permll.report.metric_curves import band


def runs(*seeds: list[float]) -> list[list[dict[str, Any]]]:
    return [[{"epoch": epoch, "test_accuracy": value} for epoch, value in enumerate(seed, 1)] for seed in seeds]


PANELS = {
    "Symmetric noise, 60 %": {
        "Cross-entropy": runs([0.7, 0.8, 0.5], [0.7, 0.7, 0.6]),
        "PermLL": runs([0.7, 0.8, 0.82], [0.72, 0.8, 0.8]),
    },
    "Asymmetric noise, 40 %": {"PermLL": runs([0.7, 0.75, 0.76])},
}


def test_memorization_draws_means_and_bands(tmp_path: Path) -> None:
    figure = draw_memorization(PANELS)
    left, right = figure.axes
    lines = [line for line in left.get_lines() if len(line.get_xdata()) == 3]
    np.testing.assert_allclose([line.get_ydata() for line in lines], [[70, 75, 55], [71, 80, 81]])
    corners = left.collections[0].get_paths()[0].vertices
    assert {(round(x), round(y, 6)) for x, y in corners} >= {(1, 70), (2, 70), (2, 80), (3, 50), (3, 60)}
    assert [text.get_text() for text in left.texts if "," not in text.get_text()] == ["Cross-entropy  −20.0", "PermLL"]
    circles = [line.get_xydata().tolist() for line in left.get_lines() if line.get_markerfacecolor() == "none"]
    assert circles == [[[2, 75]], [[3, pytest.approx(81)]]]
    assert right.get_title(loc="left") == "(b)  Asymmetric noise, 40 %"
    assert save(figure, tmp_path, "memorization")[0].stat().st_size > 10_000


def test_memorization_styles_are_consistent() -> None:
    methods = {f"method {k}": runs([0.5, 0.6 + k / 50]) for k in range(2 * len(LINE_STYLES))}
    figure = draw_memorization({"a": methods, "b": dict(list(methods.items())[3:])})
    styles = []
    for axes in figure.axes:
        lines = [line for line in axes.get_lines() if len(line.get_xdata()) == 2]
        styles.append([(line.get_marker(), line.get_markerfacecolor() == "white") for line in lines])
    assert len(set(styles[0])) == len(methods)
    assert styles[1] == styles[0][3:]


def test_memorization_skips_runs_without_accuracy() -> None:
    figure = draw_memorization({"a": {"ce": [[{"epoch": 1, "loss": 1.0}]], "elr": runs([0.5, 0.6])}, "b": {"ce": [[]]}})
    assert len(figure.axes) == 1
    with pytest.raises(ValueError, match="nothing to draw: no run has a test accuracy"):
        draw_memorization({"a": {"ce": [[]]}})


def test_band_covers_common_epochs() -> None:
    epochs, mean, low, high = band([{1: 0.5, 2: 0.6, 3: 0.7}, {2: 0.8, 3: 0.5, 4: 0.1}])
    assert epochs == [2, 3]
    np.testing.assert_allclose([mean, low, high], [[0.7, 0.6], [0.6, 0.5], [0.8, 0.7]])


@given(st.lists(st.integers(0, 40).map(float), min_size=1, max_size=8))
def test_spread_labels_keeps_order_and_gap(heights: list[float]) -> None:
    moved = spread_labels(heights, gap=1.5, top=41.0)
    assert max(moved) <= 41 + 1e-9
    order = sorted(range(len(heights)), key=lambda index: heights[index])
    gaps = np.diff([moved[index] for index in order])
    assert (gaps >= 1.5 - 1e-9).all()
    if len(heights) == 1 or (np.diff(sorted(heights)) >= 1.5).all():
        np.testing.assert_allclose(moved, heights)  # what is far enough apart stays where it is


def noise(c: int) -> tuple[np.ndarray, np.ndarray]:
    true = np.full((c, c), 0.4 / (c - 1))
    np.fill_diagonal(true, 0.6)
    learned = true.copy()
    learned[0, :2] += (-0.2, 0.2)
    return true, learned


def test_learned_noise_frames_differences() -> None:
    true, learned = noise(4)
    left, right = draw_learned_noise(true, learned, ["cat", "dog", "$bird", "x" * 40]).axes
    np.testing.assert_allclose(left.images[0].get_array(), true)
    np.testing.assert_allclose(right.images[0].get_array(), learned)
    assert left.images[0].norm.vmax == right.images[0].norm.vmax == 1
    frames = {(round(box.get_y() + 0.45), round(box.get_x() + 0.45)) for box in right.patches}
    assert (
        frames
        == {tuple(index) for index in np.argwhere(np.abs(true - learned) >= MIN_FRAMED_DIFFERENCE).tolist()}
        == {(0, 0), (0, 1)}
    )
    assert [label.get_text() for label in left.get_yticklabels()][2:] == ["$bird", "x" * 23 + "…"]
    assert any(
        "mean difference per class: 5.0 %" in text.get_text() for text in right.texts
    )  # 20 % of one class in four


@pytest.mark.parametrize("c", [2, 20, 21, 100])
def test_learned_noise_of_any_number_of_classes(c: int) -> None:
    figure = draw_learned_noise(*noise(c))
    assert len(figure.axes) == (2 if c <= 20 else 3)  # numbers in the cells, or a scale below them
    figure.draw_without_rendering()


@pytest.mark.parametrize(
    ("matrices", "classes", "message"),
    [
        ((np.eye(3), np.eye(2)), None, r"both matrices must be c x c: they are \(3, 3\) and \(2, 2\)"),
        ((np.eye(3), np.eye(3)), ["a"], "there are 3 classes, but 1 names"),
    ],
)
def test_learned_noise_refuses_mismatched_shapes(matrices: Any, classes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw_learned_noise(*matrices, classes)
