"""Figure of the demo: curves and label issues."""

from pathlib import Path

import numpy as np
import pytest

from permll.report.figures.label_issues import COLUMNS, LabelIssue, draw_label_issues
from permll.report.figures.style import save

CURVES = {"Cross-entropy": [0.7, 0.8, 0.6], "PermLL": [0.7, 0.9, 0.95]}


def issues(count: int) -> list[LabelIssue]:
    return [LabelIssue(np.eye(8), given=1, proposed=2 + k % 2, true=2) for k in range(count)]


@pytest.mark.parametrize("count", [1, COLUMNS, COLUMNS + 1])
def test_label_issues_are_drawn_with_labels(count: int, tmp_path: Path) -> None:
    figure = draw_label_issues(CURVES, issues(count))
    accuracy, *cells = figure.axes
    texts = [[text.get_text() for text in cell.texts] for cell in cells if cell.images]
    assert texts == [["1", "→ 2 ✓" if k % 2 == 0 else "→ 3 ✗"] for k in range(count)]
    assert all(cell.get_xlabel() == "true: 2" for cell in cells if cell.images)
    assert [text.get_text() for text in accuracy.texts][:2] == ["Cross-entropy\n60.0 %", "PermLL\n95.0 %"]
    assert [list(line.get_ydata()) for line in accuracy.lines] == [[70, 80, 60], [70, 90, 95]]
    png, _ = save(figure, tmp_path, "suspects")
    assert png.stat().st_size > 5000
