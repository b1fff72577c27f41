"""Confidence figure: curves against autograd, properties, files."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import matplotlib
import pytest
import torch

from permll.layer.reference import reference_loss
from permll.report.figures.confidence import PANELS, WEIGHTS, Panel, confidence_curves, draw_confidence
from permll.report.figures.style import save

LABEL_PANELS = [panel for panel in PANELS if panel[0] == "label"]
PREDICTION_PANELS = [panel for panel in PANELS if panel[0] == "prediction"]


def test_confidence_panels_match_paper() -> None:
    assert PANELS == (("label", "l2"), ("prediction", "l2"), ("label", "kl"), ("prediction", "kl"))


@pytest.mark.parametrize("panel", PANELS)
def test_confidence_curves_equal_autograd(panel: Panel) -> None:
    # Odd, so that no point is a zero of the L2 norm's argument, where autograd has nothing to say.
    curves = confidence_curves(resolution=37)
    assert curves.norms[panel].shape == (len(WEIGHTS), 36)
    for a, norm in zip(curves.weights, curves.norms[panel], strict=True):
        logits = torch.stack([curves.p, 1 - curves.p], -1).log()
        alpha = torch.stack([a, 1 - a]).log().expand_as(logits).clone().requires_grad_()
        given = torch.zeros(len(logits), dtype=torch.long)
        reference_loss(alpha, logits, given, *panel).sum().backward()
        assert alpha.grad is not None
        torch.testing.assert_close(norm, alpha.grad.abs().sum(-1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("panel", PREDICTION_PANELS)
def test_prediction_side_gradient_grows_with_confidence(panel: Panel) -> None:
    curves = confidence_curves()
    half = int((curves.p == 0.5).nonzero())
    norms = curves.norms[panel]
    assert norms[:, half].abs().max() < 1e-15
    assert (norms[:, half:].diff() > 0).all()
    assert (norms[:, : half + 1].diff() < 0).all()


@pytest.mark.parametrize("panel", LABEL_PANELS)
def test_label_side_gradient_is_zero_only_at_agreement(panel: Panel) -> None:
    curves = confidence_curves()
    agrees = curves.p == curves.weights[:, None]
    assert agrees.sum() == len(WEIGHTS)
    norms = curves.norms[panel]
    assert (norms[agrees] < 1e-15).all()
    assert (norms[~agrees] > 1e-3).all()


@pytest.mark.parametrize("panel", LABEL_PANELS)
def test_label_side_gradient_of_uncertain_network(panel: Panel) -> None:
    curves = confidence_curves()
    at_half = curves.norms[panel][:, curves.p == 0.5].squeeze(-1)
    assert (at_half[curves.weights != 0.5] > 0.25).all()


def test_confidence_figure_marks_zeros() -> None:
    figure = draw_confidence(confidence_curves())
    assert len(figure.axes) == 4
    for axes, (side, _) in zip(figure.axes, PANELS, strict=True):
        curves = [line for line in axes.get_lines() if line.get_label() in {f"{a:g}" for a in WEIGHTS}]
        zeros = {
            float(x) for line in axes.get_lines() for x, y in line.get_xydata() if y == 0 and len(line.get_xdata()) == 1
        }
        assert len(curves) == len(WEIGHTS)
        assert zeros == (set(WEIGHTS) if side == "label" else {0.5})


def test_confidence_svg_is_reproducible(tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    png, svg = save(draw_confidence(confidence_curves()), tmp_path / "new" / "folder", "confidence")
    _, again = save(draw_confidence(confidence_curves()), tmp_path, "confidence")
    assert dict(matplotlib.rcParams) == before
    assert png.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert png.stat().st_size > 10_000
    assert ElementTree.parse(svg).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    assert svg.read_bytes() == again.read_bytes()
