"""The paper's figure on confidence: how hard a prediction p pulls at the α of a sample, with the layer on either side.

Two classes, the given label is the first. On the prediction a network that does not know, p = (½, ½), leaves α alone;
on the label only one that agrees with softmax(α) does.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from permll.layer.equations import CLOSED_FORMS, LossName, Side
from permll.report.figures.style import INK, MUTED, STROKES, Stroke, look, panel_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Panel = tuple[Side, LossName]
PANELS: tuple[Panel, ...] = (("label", "l2"), ("prediction", "l2"), ("label", "kl"), ("prediction", "kl"))  # (a) to (d)
WEIGHTS = (0.1, 0.3, 0.5, 0.7, 0.9)

_SEEN: dict[Side, str] = {
    "label": "zero only where p = a",
    "prediction": "zero when the network does not know",
}
_LOSS_TITLES: dict[LossName, str] = {"l2": "L2 norm", "kl": "KL divergence"}
_NOTES: dict[Panel, tuple[float, str]] = {  # at which height, in free space in the middle
    ("label", "l2"): (0.755, "$a_1$ and $1 - a_1$ share a line; each zero is a single point"),
    ("prediction", "l2"): (0.64, "p = ½ leaves every α alone;\n$a_1$ and $1 - a_1$ share a line"),
    ("label", "kl"): (1.7, r"no bound as $p_1 \to 0$ or $1$"),
    ("prediction", "kl"): (1.7, "p = ½ leaves every α alone"),
}
# One height per row, to compare the sides. KL on the label grows without bound at both ends and leaves the frame.
_TOPS: dict[LossName, float] = {"l2": 0.8, "kl": 2.0}


class ConfidenceCurves(NamedTuple):
    """‖∇_α L‖₁ over p_1, one curve for each weight a_1 = softmax(α)_1, in each panel."""

    p: Float[Tensor, " points"]
    weights: Float[Tensor, " weights"]
    norms: dict[Panel, Float[Tensor, "weights points"]]


def confidence_curves(weights: Sequence[float] = WEIGHTS, resolution: int = 200) -> ConfidenceCurves:
    """Return the curves of all panels at p_1 = 1/``resolution``, 2/``resolution``, ... below 1, in float64.

    Examples:
        >>> curves = confidence_curves([0.5], resolution=4)
        >>> curves.p
        tensor([0.2500, 0.5000, 0.7500], dtype=torch.float64)
        >>> curves.norms["prediction", "kl"]
        tensor([[0.5000, 0.0000, 0.5000]], dtype=torch.float64)
    """
    p = torch.arange(1, resolution, dtype=torch.float64) / resolution
    a = torch.tensor(weights, dtype=torch.float64)
    shape = (len(a), len(p), 2)
    alpha = _two_classes(a)[:, None].expand(shape).reshape(-1, 2)
    logits = _two_classes(p)[None].expand(shape).reshape(-1, 2)
    given = torch.zeros(len(alpha), dtype=torch.long)
    norms = {
        panel: CLOSED_FORMS[panel](alpha, logits, given).grad_alpha.abs().sum(-1).view(shape[:2]) for panel in PANELS
    }
    return ConfidenceCurves(p, a, norms)


def draw_confidence(curves: ConfidenceCurves) -> "Figure":
    """Draw panels (a) to (d): the layer on the label at the left, on the prediction at the right, a row per loss."""
    with look():
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        figure = Figure(figsize=(8.6, 6.9), layout=ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.10))
        grid = figure.subplots(2, 2, sharex=True, sharey="row")
        for letter, panel, axes in zip("abcd", PANELS, grid.flat, strict=True):
            _draw_panel(axes, curves, panel)
            panel_title(axes, letter, f"{_LOSS_TITLES[panel[1]]}, on the {panel[0]}", _SEEN[panel[0]])
        for axes in grid[:, 0]:
            axes.set_ylabel(r"pull on the layer, $\Vert\nabla_{\!\alpha} L\,\Vert_1$")
        for axes in grid[1]:
            axes.set_xlabel("$p_1$, the network's belief in the given label")
        handles, names = grid[1, 1].get_legend_handles_labels()
        title = r"$a_1 = \mathrm{softmax}(\alpha)_1$, the layer's belief in the given label"
        figure.legend(handles, names, title=title, loc="outside lower center", ncols=len(names), handlelength=3.6)
    return figure


def _two_classes(first: Tensor) -> Tensor:
    """Return logits (n, 2) whose softmax has ``first`` as its first entry."""
    return torch.stack([first, 1 - first], dim=-1).log()


def _strokes(count: int) -> list[Stroke]:
    """Return a stroke for each weight, the darkest for the largest."""
    return [STROKES[k % len(STROKES)] for k in reversed(range(count))]


def _draw_panel(axes: "Axes", curves: ConfidenceCurves, panel: Panel) -> None:
    axes.axvline(0.5, color=MUTED, linewidth=1, linestyle=(0, (2, 3)), zorder=1)
    # The gradient of ‖p - a‖₂ has length 1 however near p is to a, and is 0 at a alone: a jump, not a slope.
    jumps = panel == ("label", "l2")
    strokes = _strokes(len(curves.weights))
    for a, norm, stroke in zip(curves.weights.tolist(), curves.norms[panel], strokes, strict=True):
        height = norm.masked_fill(norm == 0, torch.nan) if jumps else norm
        (line,) = axes.plot(curves.p.numpy(), height.numpy(), color=stroke.color, label=f"{a:g}")
        line.set(linestyle=stroke.linestyle, zorder=3 + STROKES.index(stroke) / 10)  # the gappy above the solid
        if panel[0] == "label":
            _mark_zero(axes, a, stroke, fall_from=float(norm.max()) if jumps else None)
    if panel[0] == "prediction":
        axes.plot(0.5, 0, "o", color=INK, markersize=7, clip_on=False, zorder=5)
    at, note = _NOTES[panel]
    paper = {"facecolor": "white", "edgecolor": "none", "pad": 2}
    axes.text(0.5, at, note, ha="center", va="center", fontsize=8, color=MUTED, bbox=paper, zorder=4)
    axes.set(xlim=(0, 1), ylim=(0, _TOPS[panel[1]]))
    axes.locator_params(axis="y", nbins=4)


def _mark_zero(axes: "Axes", at: float, stroke: Stroke, fall_from: float | None) -> None:
    """Mark the zero of a label-side curve at p = a; ``fall_from`` is the height that it jumps down from, if it does."""
    if fall_from is not None:
        axes.plot([at, at], [0, fall_from], ":", color=stroke.color, linewidth=1, zorder=2)
        axes.plot(at, fall_from, stroke.marker, color=stroke.color, markerfacecolor="white", zorder=5)
    axes.plot(at, 0, stroke.marker, color=stroke.color, clip_on=False, zorder=5)
