"""Noise figure and noise text for few and many classes."""

from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len

from permll.noise import Corruption, corrupt, named_noise
from permll.noise.summary import superclass_groups
from permll.noise.synthetic import from_matrix
from permll.report.figures.noise_matrix import draw_noise, noise_matrix
from permll.report.figures.style import save
from permll.report.text import class_table, matrix_text

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def asymmetric() -> Corruption:
    return corrupt(np.repeat(np.arange(10), 500), named_noise("permll:asym:0.4", 10, data_set="cifar10"), seed=42)


def test_noise_figure_shows_record(tmp_path: Path) -> None:
    record = asymmetric()
    figure = draw_noise(record, CIFAR10)
    cells, bars = figure.axes
    (image,) = cells.images
    np.testing.assert_allclose(image.get_array(), record.matrix)
    written = {(int(t.get_position()[1]), int(t.get_position()[0])): t.get_text() for t in cells.texts}
    assert written == {
        (row, column): f"{100 * record.matrix[row, column]:.0f}" for row, column in np.argwhere(record.matrix)
    }
    assert [label.get_text() for label in cells.get_yticklabels()] == list(CIFAR10)
    assert [label.get_text() for label in cells.get_xticklabels()] == list(CIFAR10)
    np.testing.assert_allclose([bar.get_width() for bar in bars.patches], 100 * (1 - record.matrix.diagonal()))
    assert cells.get_xlabel() == "given as, % of the true class"
    name, facts = (text.get_text() for text in figure.texts)
    assert name == "permll:asym:0.4"
    assert facts == f"20.00 % of 5,000 labels are wrong, seed 42, hash {record.hash}"
    png, svg = save(figure, tmp_path, "noise")
    assert png.stat().st_size > 20_000
    again = save(draw_noise(asymmetric(), CIFAR10), tmp_path / "again", "noise")
    assert again[1].read_bytes() == svg.read_bytes()


@pytest.mark.parametrize("classes", [2, 3, 20, 21, 100])
def test_noise_figure_of_any_number_of_classes(classes: int, tmp_path: Path) -> None:
    record = corrupt(np.repeat(np.arange(classes), 40), named_noise("sym:0.4", classes), seed=0)
    figure = draw_noise(record)
    cells, bars, *scale = figure.axes
    assert len(cells.texts) == (np.count_nonzero(record.matrix) if classes <= 20 else 0)
    assert len(scale) == (0 if classes <= 20 else 1)
    assert len(bars.patches) == classes
    save(figure, tmp_path, "noise")
    # Rows of the matrix and bars beside them stand at the same height, and nothing is pushed out of the figure.
    left, right = cells.get_position(), bars.get_position()
    assert (left.y0, left.y1) == pytest.approx((right.y0, right.y1))
    assert left.width > 0.4
    assert left.height > 0.4


def test_noise_figure_groups_classes(tmp_path: Path) -> None:
    record = corrupt(np.repeat(np.arange(100), 20), named_noise("asym_superclasses:0.4", 100), seed=0)
    groups = superclass_groups(record)
    assert groups is not None
    picture = noise_matrix(record, groups)
    for start, end in zip(picture.edges[:-1], picture.edges[1:], strict=True):
        assert picture.matrix[start:end, start:end].sum() == pytest.approx(5)  # no flip leaves its superclass
    cells = draw_noise(record, groups=groups).axes[0]
    assert [label.get_text() for label in cells.get_yticklabels()][:2] == ["aquatic mammals  1", "fish  2"]
    assert [label.get_text() for label in cells.get_xticklabels()] == [str(k) for k in range(1, 21)]


def test_noise_figure_of_empty_class(tmp_path: Path) -> None:
    record = corrupt([0, 0, 2], from_matrix([[0.5, 0.5, 0], [0, 1, 0], [0, 0, 1]], name="file:a$b_$.txt"), seed=0)
    figure = draw_noise(record, ("$a", "b", "c$d$"))
    shares = [text.get_text() for text in figure.axes[1].texts]
    assert shares[2] == "no samples"
    assert save(figure, tmp_path, "noise")[0].stat().st_size > 5000


def test_noise_figure_without_seed() -> None:
    figure = draw_noise(Corruption(np.array([0, 1]), np.array([0, 0]), 2, None, {"name": "cifar10n:worst"}))
    assert "seed" not in figure.texts[1].get_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"classes": ("a", "b")}, "there are 10 classes, but 2 names"),
        ({"groups": {"all": range(9)}}, r"groups must contain each of the classes 0\.\.9 once"),
    ],
)
def test_noise_figure_refuses_mismatched_classes(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw_noise(asymmetric(), **arguments)


def test_noise_text_lists_worst_of_many_classes() -> None:
    lines = matrix_text(asymmetric()).splitlines()
    assert len(lines) == 12
    assert lines[0] == "given as, %"
    assert lines[4].split() == ["2", "40", "·", "60", *"·" * 7]
    hundred = corrupt(np.repeat(np.arange(100), 30), named_noise("coteaching:sym:0.4", 100), seed=0)
    assert matrix_text(hundred) == ""
    table = class_table(hundred)
    assert table.row_count == 10
    expected = [float(cell) for cell in table.columns[3].cells]
    worst = np.sort(100 * (1 - hundred.matrix.diagonal()))[::-1]
    np.testing.assert_allclose(expected, worst[:10], atol=0.05)


def test_class_table_reports_ties() -> None:
    rows = [[0.4, 0.2, 0.2, 0.2], [0, 1, 0, 0], [0.25, 0.25, 0.5, 0], [0.1, 0.2, 0, 0.7]]
    counts = (20 * np.array(rows)).round().astype(int)
    clean = np.repeat(np.arange(4), counts.sum(1))
    noisy = np.concatenate([np.repeat(np.arange(4), row) for row in counts])
    table = class_table(Corruption(clean, noisy, 4, 0, {}))
    assert [str(cell) for cell in table.columns[-1].cells] == ["all alike", "-", "2 classes alike", "1"]


def test_noise_text_strips_control_characters(tmp_path: Path) -> None:
    names = ["[bold]cat", "dog\x1b[31m", "a name that is much too long to be shown", "犬"]
    record = Corruption(np.arange(4), np.array([1, 1, 2, 3]), 4, 0, {"classes": names})
    expected = ["[bold]cat", "dog[31m", "a name that is much too…", "犬"]
    table = class_table(record)
    assert [str(cell) for cell in table.columns[0].cells] == expected
    assert str(next(iter(table.columns[-1].cells))) == "dog[31m"
    lines = matrix_text(record).splitlines()[2:]
    assert [line[:-16].strip() for line in lines] == expected
    assert len({cell_len(line) for line in lines}) == 1  # a sign of two columns counts for two
    cells = draw_noise(record, names).axes[0]
    assert [label.get_text() for label in cells.get_yticklabels()] == expected
