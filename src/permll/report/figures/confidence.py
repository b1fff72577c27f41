"""The paper's figure on confidence: norm of the gradient with respect to α as a function of the prediction p.

Two classes; the given label is the first. With the layer on the prediction, an uncertain network, p = (½, ½), gives a
zero gradient; with the layer on the label, only a network with p = softmax(α) does.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from permll.layer.equations import CLOSED_FORMS, LossName, Side
from permll.report.figures.style import INK, LINE_STYLES, MUTED, LineStyle, figure_style, make_figure, panel_title

Panel = tuple[Side, LossName]
PANELS: tuple[Panel, ...] = (("label", "l2"), ("prediction", "l2"), ("label", "kl"), ("prediction", "kl"))  # (a) to (d)
WEIGHTS = (0.1, 0.3, 0.5, 0.7, 0.9)

_SUBTITLES: dict[Side, str] = {
    "label": "zero only where p = a",
    "prediction": "zero if the network is uncertain",
}
_LOSS_TITLES: dict[LossName, str] = {"l2": "L2 norm", "kl": "KL divergence"}
_NOTES: dict[Panel, tuple[float, str]] = {  # height and text
    ("label", "l2"): (0.755, "$a_1$ and $1 - a_1$ share a line; each zero is a single point"),
    ("prediction", "l2"): (0.64, "no gradient at p = ½;\n$a_1$ and $1 - a_1$ share a line"),
    ("label", "kl"): (1.7, r"no bound as $p_1 \to 0$ or $1$"),
    ("prediction", "kl"): (1.7, "no gradient at p = ½"),
}
# One y limit per row, to compare the sides. KL on the label is unbounded and leaves the frame.
_TOPS: dict[LossName, float] = {"l2": 0.8, "kl": 2.0}


class ConfidenceCurves(NamedTuple):
    """‖∇_α L‖₁ over p_1 in each panel, one curve per weight a_1 = softmax(α)_1."""

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


@figure_style()
def draw_confidence(curves: ConfidenceCurves) -> Figure:
    """Draw panels (a) to (d): left the layer on the label, right on the prediction, a row per loss."""
    figure = make_figure(8.6, 6.9)
    grid = figure.subplots(2, 2, sharex=True, sharey="row")
    for letter, panel, axes in zip("abcd", PANELS, grid.flat, strict=True):
        _draw_panel(axes, curves, panel)
        panel_title(axes, letter, f"{_LOSS_TITLES[panel[1]]}, on the {panel[0]}", _SUBTITLES[panel[0]])
    for axes in grid[:, 0]:
        axes.set_ylabel(r"gradient norm, $\Vert\nabla_{\!\alpha} L\,\Vert_1$")
    for axes in grid[1]:
        axes.set_xlabel("$p_1$, predicted probability of the given label")
    handles, names = grid[1, 1].get_legend_handles_labels()
    title = r"$a_1 = \mathrm{softmax}(\alpha)_1$, weight of the given label in the layer"
    figure.legend(handles, names, title=title, loc="outside lower center", ncols=len(names), handlelength=3.6)
    return figure


def _two_classes(first: Tensor) -> Tensor:
    """Return logits (n, 2) whose softmax has ``first`` as its first entry."""
    return torch.stack([first, 1 - first], dim=-1).log()


def _draw_panel(axes: Axes, curves: ConfidenceCurves, panel: Panel) -> None:
    axes.axvline(0.5, color=MUTED, linewidth=1, linestyle=(0, (2, 3)), zorder=1)
    # The gradient of ‖p - a‖₂ has norm 1 for all p except p = a, where it is 0: a jump.
    jumps = panel == ("label", "l2")
    styles = [LINE_STYLES[k % len(LINE_STYLES)] for k in reversed(range(len(curves.weights)))]  # darkest: largest
    for a, norm, style in zip(curves.weights.tolist(), curves.norms[panel], styles, strict=True):
        height = norm.masked_fill(norm == 0, torch.nan) if jumps else norm
        (line,) = axes.plot(curves.p.numpy(), height.numpy(), color=style.color, label=f"{a:g}")
        line.set(linestyle=style.linestyle, zorder=3 + LINE_STYLES.index(style) / 10)  # dashed above solid
        if panel[0] == "label":
            _mark_zero(axes, a, style, jump_from=float(norm.max()) if jumps else None)
    if panel[0] == "prediction":
        axes.plot(0.5, 0, "o", color=INK, markersize=7, clip_on=False, zorder=5)
    at, note = _NOTES[panel]
    paper = {"facecolor": "white", "edgecolor": "none", "pad": 2}
    axes.text(0.5, at, note, ha="center", va="center", fontsize=8, color=MUTED, bbox=paper, zorder=4)
    axes.set(xlim=(0, 1), ylim=(0, _TOPS[panel[1]]))
    axes.locator_params(axis="y", nbins=4)


def _mark_zero(axes: Axes, at: float, style: LineStyle, jump_from: float | None) -> None:
    """Mark the zero of a curve at p = a; ``jump_from`` is the height of a discontinuity."""
    if jump_from is not None:
        axes.plot([at, at], [0, jump_from], ":", color=style.color, linewidth=1, zorder=2)
        axes.plot(at, jump_from, style.marker, color=style.color, markerfacecolor="white", zorder=5)
    axes.plot(at, 0, style.marker, color=style.color, clip_on=False, zorder=5)
