"""Training curves: values, panels, marks, names."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from permll.report.figures.curves import MAX_MARKED_GROUPS, PANELS, draw_curves
from permll.report.figures.style import LINE_STYLES, save
from permll.report.metric_curves import curve

PNG = b"\x89PNG\r\n\x1a\n"


def metrics(accuracy: list[float], **more: Any) -> list[dict[str, Any]]:
    return [
        {"epoch": epoch, "loss": 1 / epoch, "test_accuracy": value, **more}
        for epoch, value in enumerate(accuracy, start=1)
    ]


def titles(figure: Any) -> list[str]:
    return [axes.get_title(loc="left") for axes in figure.axes if axes.axison]


def drawn(axes: Any, *, thick: bool = True) -> list[np.ndarray]:
    """Return the curves of a panel, means or single runs: not its marks and levels."""
    lines = [line for line in axes.get_lines() if len(line.get_xdata()) > 1 and line.get_linestyle() == "-"]
    return [np.array(line.get_xydata()) for line in lines if (line.get_linewidth() > 1) == thick]


LABELS = {
    "corrected": 0.25,
    "noisy_validation_accuracy": 0.5,
    "detection_auroc": 0.9,
    "correction_samples": 100,
    "correction_wrong": 40,
    "correction_right_before": 60,
    "correction_right_after": 80,
}


def test_curves_are_drawn_in_percent() -> None:
    figure = draw_curves({"permll": [metrics([0.5, 0.75, 0.7], **LABELS)]})
    assert titles(figure) == [f"({letter})  {panel.title}" for letter, panel in zip("abcdef", PANELS, strict=True)]
    ends = [drawn(axes)[0][-1].tolist() for axes in figure.axes]
    assert ends == [[3, 70], [3, 50], [3, pytest.approx(1 / 3)], [3, 80], [3, 25], [3, 90]]
    levels = [[float(line.get_ydata()[0]) for line in axes.get_lines() if list(line.get_xdata()) == [0, 1]]
              for axes in figure.axes]  # fmt: skip
    assert levels == [[], [], [], [60], [40], []]


def test_curves_without_data_are_left_out() -> None:
    figure = draw_curves({"own": [[{"epoch": 1, "loss": 2.0}, {"epoch": 2, "loss": 1.0}]]})
    assert titles(figure) == ["(a)  Training loss"]
    figure = draw_curves({"own": [metrics([0.5, 0.6])], "begun": [[]]})
    assert titles(figure) == ["(a)  Test accuracy, %", "(b)  Training loss"]
    with pytest.raises(ValueError, match="nothing to draw: no run has finished an epoch"):
        draw_curves({"begun": [[]]})


def test_curves_with_missing_epochs() -> None:
    rows = [{"epoch": e, "loss": 1.0, **({"test_accuracy": 0.5} if e % 5 == 0 else {})} for e in range(1, 11)]
    assert curve(rows, "test_accuracy") == {5: 0.5, 10: 0.5}
    test, loss = draw_curves({"permll": [rows]}).axes
    assert (len(drawn(test)[0]), len(drawn(loss)[0])) == (2, 10)


def test_curve_derives_fractions_from_counts() -> None:
    row = {"epoch": 4, "correction_samples": 8, "correction_changed": 2, "correction_right_after": 6}
    assert curve([row], "corrected") == {4: 0.25}
    assert curve([{**row, "corrected": 0.5}], "corrected") == {4: 0.5}
    assert curve([row], "right") == {4: 0.75}
    assert curve([row], "right_before") == {}


def test_curves_show_seeds_and_mean() -> None:
    figure = draw_curves({"permll": [metrics([0.5, 0.7, 0.9]), metrics([0.7, 0.9])]})
    axes = figure.axes[0]
    assert [len(line) for line in drawn(axes, thick=False)] == [3, 2]
    (mean,) = drawn(axes)
    np.testing.assert_allclose(mean, [[1, 60], [2, 80]])  # over the epochs that both have


def test_curves_mark_accuracy_loss() -> None:
    falling, steady = draw_curves({"ce": [metrics([0.8, 0.9, 0.6])]}), draw_curves({"p": [metrics([0.8, 0.9, 0.895])]})
    texts = [text.get_text() for text in falling.axes[0].texts]
    assert "−30.0" in texts
    assert not [text.get_text() for text in steady.axes[0].texts if "−" in text.get_text()]
    for figure in (falling, steady):
        (circle,) = (line for line in figure.axes[0].get_lines() if line.get_markerfacecolor() == "none")
        assert circle.get_xydata().tolist() == [[2, 90]]


def test_curves_omit_loss_of_many_groups() -> None:
    figure = draw_curves({f"method {k}": [metrics([0.9, 0.5 + k / 100])] for k in range(MAX_MARKED_GROUPS + 1)})
    assert not [text.get_text() for text in figure.axes[0].texts if "−" in text.get_text()]


def test_curves_differ_by_marker() -> None:
    figure = draw_curves({f"method {k}": [metrics([0.5, 0.6])] for k in range(2 * len(LINE_STYLES))})
    (legend,) = figure.legends
    signs = {
        (line.get_color(), line.get_marker(), line.get_markerfacecolor() == "white") for line in legend.get_lines()
    }
    assert len(signs) == 2 * len(LINE_STYLES)
    assert len({sign[1:] for sign in signs}) == 2 * len(LINE_STYLES)  # without color, too


def test_curves_escape_group_names(tmp_path: Path) -> None:
    figure = draw_curves({"ce on a$b$c.csv\x1b[31m": [metrics([0.5])], "x " * 200: [metrics([0.6])]})
    (legend,) = figure.legends
    assert legend.get_texts()[0].get_text() == r"ce on a\$b\$c.csv[31m"
    png, svg = save(figure, tmp_path, "curves")
    assert png.read_bytes().startswith(PNG)
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")


def test_curves_svg_is_reproducible(tmp_path: Path) -> None:
    runs = {"permll": [metrics([0.5, 0.75, 0.7], **LABELS)]}
    first, second = (save(draw_curves(runs), tmp_path / name, "curves")[1] for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("level", [0.001, 0.5, 0.999])
def test_curves_have_minimum_y_range(level: float) -> None:
    figure = draw_curves({"permll": [metrics([level, level + 0.0005, level])]})
    low, high = figure.axes[0].get_ylim()
    assert high - low == pytest.approx(10, abs=0.01)
    assert low >= -0.5
    assert high <= 100.5
    assert low < 100 * level < high
