"""Diagram of Figure 1: samples, layout, marks."""

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb

from permll.layer.equations import permuted_prediction
from permll.report.figures.diagram import DiagramSample, diagram_samples, draw_diagram
from permll.report.figures.style import LINE_STYLES, PROBABILITY_COLORMAP, save

SAMPLES = diagram_samples()
each_sample = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)


def test_diagram_samples_match_paper() -> None:
    assert [(sample.given, sample.clean) for sample in SAMPLES] == [(2, 1), (0, 0), (3, 2)]


@each_sample
def test_diagram_predictions_are_confident(sample: DiagramSample) -> None:
    assert sample.prediction.sum() == pytest.approx(1, abs=1e-12)
    assert sample.prediction.argmax() == sample.clean
    assert 0.7 < sample.prediction.max() < 1


@each_sample
def test_diagram_corrected_label(sample: DiagramSample) -> None:
    torch.testing.assert_close(sample.corrected_label, sample.alpha.softmax(0), rtol=0, atol=1e-12)
    assert sample.corrected_label.argmax() == sample.clean


@each_sample
def test_diagram_noisified_prediction(sample: DiagramSample) -> None:
    (expected,) = permuted_prediction(sample.alpha[None], sample.prediction[None], torch.tensor([sample.given]))
    torch.testing.assert_close(sample.noisified_prediction, expected, rtol=0, atol=1e-12)
    assert sample.noisified_prediction.argmax() == sample.given


def test_diagram_texts_do_not_overlap() -> None:
    figure = draw_diagram(SAMPLES)
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [text.get_window_extent(renderer) for text in figure.axes[0].texts if text.get_text()]
    assert len(boxes) > 3 * 2 * (16 + 3 * 4)
    for k, box in enumerate(boxes):
        assert figure.bbox.x0 < box.x0 < box.x1 < figure.bbox.x1
        assert figure.bbox.y0 < box.y0 < box.y1 < figure.bbox.y1
        assert box.count_overlaps(boxes[k + 1 :]) == 0


def test_diagram_marks_wrong_labels() -> None:
    texts = [text.get_text() for text in draw_diagram(SAMPLES).axes[0].texts]
    wrong = sum(sample.given != sample.clean for sample in SAMPLES)
    assert texts.count("✗") == 2 * wrong  # once in each half
    assert [text for text in texts if text.startswith("given as")] == [
        "given as deer ✗",
        "given as cat ✓",
        "given as horse ✗",
    ]


def test_line_styles_differ_in_grayscale() -> None:
    def gray(color: object) -> float:
        red, green, blue = to_rgb(color)
        return 0.299 * red + 0.587 * green + 0.114 * blue

    strokes = [gray(stroke.color) for stroke in LINE_STYLES]
    assert all(lighter - darker > 0.07 for darker, lighter in pairwise(strokes))
    assert (
        len({stroke.linestyle for stroke in LINE_STYLES})
        == len({stroke.marker for stroke in LINE_STYLES})
        == len(LINE_STYLES)
    )
    cells = [gray(PROBABILITY_COLORMAP(k / 20)[:3]) for k in range(21)]
    assert cells == sorted(cells, reverse=True)
    assert len(set(cells)) == len(cells)


def test_diagram_svg_is_reproducible(tmp_path: Path) -> None:
    png, svg = save(draw_diagram(SAMPLES), tmp_path / "one", "diagram")
    _, again = save(draw_diagram(SAMPLES), tmp_path / "two", "diagram")
    assert png.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert png.stat().st_size > 10_000
    assert ElementTree.parse(svg).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    assert svg.read_bytes() == again.read_bytes()


def test_figures_without_matplotlib() -> None:
    # A fresh interpreter in which importing matplotlib fails as it does where it is not installed.
    script = """
import sys
sys.modules["matplotlib"] = None
import permll.bench.rendering, permll.cli.show, permll.demo, permll.report.bench_page
from permll.report.metric_curves import curve
for name in ("confidence", "diagram", "style"):
    try:
        __import__(f"permll.report.figures.{name}")
    except ImportError as error:
        assert str(error).startswith("figures need matplotlib: pip install 'permll[plots]', or"), error
    else:
        raise AssertionError("imported figures without matplotlib")
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
