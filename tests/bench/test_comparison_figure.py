"""Comparison figure: order of methods, dots, highlight."""

from typing import Any

import pytest
from benchmarks.comparison import Scores, draw_comparison, rank_by_accuracy

PANELS = {
    "Symmetric": {"ce": Scores([0.5, 0.52], [0.8, 0.8]), "permll": Scores([0.82, 0.83], [0.83, 0.84])},
    "Asymmetric": {"ce": Scores([0.7, 0.71], [0.8, 0.8]), "elr": Scores([0.9, 0.9], [0.9, 0.9])},
}


def dots(axes: Any) -> list[tuple[float, float]]:
    """Return the dots of last epochs: filled ones, without a line."""
    lines = [line for line in axes.get_lines() if line.get_marker() == "o" and line.get_markerfacecolor() != "white"]
    return [(round(x, 6), round(y, 6)) for line in lines for x, y in line.get_xydata().tolist()]


def test_comparison_draws_every_seed() -> None:
    figure = draw_comparison(PANELS, {"ce": "Cross-entropy", "permll": "PermLL", "elr": "ELR"})
    first, second = figure.axes
    assert [label.get_text() for label in first.get_yticklabels()] == ["ELR", "PermLL", "Cross-entropy"]
    assert sorted(dots(first)) == [(50, 2), (52, 2), (82, 1), (83, 1)]
    assert sorted(dots(second)) == [(70, 2), (71, 2), (90, 0), (90, 0)]
    assert [line.get_xdata()[0] for line in first.get_lines() if list(line.get_ydata()) == [0, 1]] == pytest.approx(
        [51]
    )


def test_comparison_highlights_permll() -> None:
    figure = draw_comparison(PANELS, {})
    weights = {label.get_text(): label.get_fontweight() for label in figure.axes[0].get_yticklabels()}
    assert weights == {"elr": "normal", "permll": "bold", "ce": "normal"}


def test_comparison_orders_by_last_epoch() -> None:
    assert rank_by_accuracy({"a": {"best": Scores([0.1], [0.9]), "last": Scores([0.2], [0.3])}}) == ["last", "best"]
    with pytest.raises(ValueError, match="nothing to draw"):
        draw_comparison({}, {})
