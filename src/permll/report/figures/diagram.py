"""The paper's Figure 1: the permutation layer on the label (eq. 1) and on the prediction (eq. 2)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from permll.layer.reference import permutation_layer
from permll.report.figures.style import ACCENT, GRID, INK, MUTED, PROBABILITY_COLORMAP, figure_style

CLASSES = ("cat", "dog", "deer", "horse")
# Positions in cells: a half consists of the matrix, three vectors, and the symbols between them.
_INCHES_PER_CELL = 0.40
_MARGIN, _LEFT = 0.6, 4.6
_MATRIX, _FIRST, _RESULT, _TARGET, _HALF = 1.8, 6.7, 8.8, 11.2, 13.0
_RIGHT = _LEFT + _HALF
_HEAD, _ROW, _FOOT = 3.9, 5.2, 0.5
_SIZE = len(CLASSES)


@dataclass(frozen=True)
class DiagramSample:
    """Sample after training: given and clean label, its row of α, and the prediction of the network."""

    name: str
    given: int
    clean: int
    alpha: Float[Tensor, " classes"]
    prediction: Float[Tensor, " classes"]

    @property
    def layer(self) -> Float[Tensor, "classes classes"]:
        """P̄ of Definition 1."""
        return permutation_layer(self.alpha, self.given)

    @property
    def given_label(self) -> Float[Tensor, " classes"]:
        """The given label as a basis vector, e_ỹ."""
        return torch.eye(len(self.alpha), dtype=self.alpha.dtype)[self.given]

    @property
    def corrected_label(self) -> Float[Tensor, " classes"]:
        """P̄ e_ỹ, which eq. (1) compares with the prediction."""
        return self.layer @ self.given_label

    @property
    def noisified_prediction(self) -> Float[Tensor, " classes"]:
        """P̄ p, which eq. (2) compares with the given label."""
        return self.layer @ self.prediction


def diagram_samples() -> tuple[DiagramSample, ...]:
    """Return the paper's samples 1, 2 and N; the first and the last have a wrong label.

    Examples:
        >>> [(CLASSES[s.given], CLASSES[s.clean]) for s in diagram_samples()]
        [('deer', 'dog'), ('cat', 'cat'), ('horse', 'deer')]
    """
    return (
        _sample("sample 1", 2, 1, weights=(0.02, 0.93, 0.04, 0.01), prediction=(0.06, 0.82, 0.09, 0.03)),
        _sample("sample 2", 0, 0, weights=(0.95, 0.03, 0.01, 0.01), prediction=(0.88, 0.07, 0.02, 0.03)),
        _sample("sample N", 3, 2, weights=(0.01, 0.02, 0.91, 0.06), prediction=(0.04, 0.05, 0.79, 0.12)),
    )


@figure_style()
def draw_diagram(samples: Sequence[DiagramSample]) -> Figure:
    """Draw one row per sample: left the layer on its label, right the layer on its prediction.

    Dots before the last row stand for the samples in between.
    """
    width, height = _RIGHT + _HALF + 0.2, _HEAD + len(samples) * _ROW + _FOOT
    figure = Figure(figsize=(_INCHES_PER_CELL * width, _INCHES_PER_CELL * height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0), aspect="equal")  # y downwards, as in matrices
    axes.set_axis_off()
    _draw_heads(axes)
    for k, sample in enumerate(samples):
        _draw_sample(axes, _HEAD + k * _ROW, sample)
    bottom = _HEAD + len(samples) * _ROW
    for x in (_MARGIN + 0.9, _LEFT + _MATRIX + _SIZE / 2, _RIGHT + _MATRIX + _SIZE / 2):
        axes.text(x, bottom - _ROW - 0.6, "⋮", fontsize=13, color=MUTED, ha="center", va="center")
    axes.plot([_RIGHT, _RIGHT], [0.7, bottom - _ROW + _SIZE], color=GRID, linewidth=1.2)
    key = "light = 0, dark = 1      ✗  wrong given label      ℓ  loss between the two"
    axes.text(_LEFT + _MATRIX, bottom - 0.45, key, color=MUTED, va="center", fontsize=8.5)
    return figure


def _sample(
    name: str, given: int, clean: int, *, weights: tuple[float, ...], prediction: tuple[float, ...]
) -> DiagramSample:
    alpha = torch.tensor(weights, dtype=torch.float64).log()
    return DiagramSample(name, given, clean, alpha, torch.tensor(prediction, dtype=torch.float64))


def _draw_heads(axes: Axes) -> None:
    for x, title, formula, subtitle, names in (
        (
            _LEFT,
            "On the label (eq. 1)",
            r"$\ell(p,\ \bar{P}\,e_{\tilde y})$",
            "the layer corrects the given label",
            ("given\nlabel", "corrected\nlabel", "prediction"),
        ),
        (
            _RIGHT,
            "On the prediction (eq. 2)",
            r"$\ell(\bar{P}\,p,\ e_{\tilde y})$",
            "the layer adds the label's error to the prediction",
            ("prediction", "noisified\nprediction", "given\nlabel"),
        ),
    ):
        axes.text(x + _MATRIX, 0.9, title, fontsize=13, fontweight="bold", va="center")
        axes.text(x + _TARGET + 1, 0.9, formula, fontsize=13, ha="right", va="center")
        axes.text(x + _MATRIX, 1.65, subtitle, fontsize=10, color=MUTED, va="center")
        axes.text(x + _MATRIX + _SIZE / 2, _HEAD - 0.5, "layer of the sample", ha="center", va="center")
        for column, name in zip((_FIRST, _RESULT, _TARGET), names, strict=True):
            axes.text(x + column + 0.5, _HEAD - 0.5, name, ha="center", va="center", linespacing=1.1)


def _draw_sample(axes: Axes, y: float, sample: DiagramSample) -> None:
    _draw_description(axes, y, sample)
    given, prediction, middle = sample.given_label, sample.prediction, y + _SIZE / 2
    arrow = {"arrowstyle": "<->", "color": INK, "linewidth": 1.1, "shrinkA": 4, "shrinkB": 4}
    for x, vectors in (
        (_LEFT, (given, sample.corrected_label, prediction)),
        (_RIGHT, (prediction, sample.noisified_prediction, given)),
    ):
        for row, name in enumerate(CLASSES):
            axes.text(x + _MATRIX - 0.2, y + row + 0.5, name, ha="right", va="center", fontsize=8, color=MUTED)
        _draw_cells(axes, x + _MATRIX, y, sample.layer)
        for column, sign in ((_MATRIX + _SIZE + _FIRST) / 2, "×"), ((_FIRST + 1 + _RESULT) / 2, "="):
            axes.text(x + column, middle, sign, fontsize=15, ha="center", va="center")
        for column, values in zip((_FIRST, _RESULT, _TARGET), vectors, strict=True):
            _draw_cells(axes, x + column, y, values, wrong=values is given and sample.given != sample.clean)
        axes.annotate("", (x + _TARGET, middle), (x + _RESULT + 1, middle), arrowprops=arrow)
        axes.text(x + (_RESULT + 1 + _TARGET) / 2, middle - 0.5, r"$\ell$", fontsize=13, ha="center", va="center")


def _draw_description(axes: Axes, y: float, sample: DiagramSample) -> None:
    """Write the sample, its labels, and what its layer has learned, at the left of a row."""
    given, clean, learned = CLASSES[sample.given], CLASSES[sample.clean], CLASSES[int(sample.alpha.argmax())]
    color, weight, sign = (INK, "normal", "✓") if given == clean else (ACCENT, "bold", "✗")
    swap = "no swap" if learned == given else f"{given} ↔ {learned}"
    axes.text(_MARGIN, y + 0.5, sample.name, fontsize=11, fontweight="bold", va="center")
    axes.text(_MARGIN, y + 1.5, f"a photo of a {clean}", va="center")
    axes.text(_MARGIN, y + 2.2, f"given as {given} {sign}", color=color, fontweight=weight, va="center")
    axes.text(_MARGIN, y + 2.9, f"learned: {swap}", va="center")


def _draw_cells(axes: Axes, x: float, y: float, values: Tensor, wrong: bool = False) -> None:
    """Draw a matrix or a column vector at (x, y); ``wrong`` marks the largest entry with an outline and a cross."""
    table = values if values.ndim == 2 else values[:, None]
    for row, entries in enumerate(table.tolist()):
        for column, value in enumerate(entries):
            left, top, color = x + column, y + row, PROBABILITY_COLORMAP(value)
            axes.add_patch(Rectangle((left, top), 1, 1, facecolor=color, edgecolor="white", linewidth=1.2))
            ink = "white" if value > 0.5 else MUTED
            axes.text(left + 0.5, top + 0.5, _digits(value), color=ink, fontsize=8, ha="center", va="center")
    if wrong:
        row = int(values.argmax())
        axes.add_patch(Rectangle((x, y + row), 1, 1, fill=False, edgecolor=ACCENT, linewidth=2.6, zorder=3))
        axes.text(x + 1.15, y + row + 0.5, "✗", color=ACCENT, fontsize=11, va="center", fontweight="bold")


def _digits(value: float) -> str:
    """Return two decimals without the leading zero, or 0 or 1.

    Examples:
        >>> [_digits(v) for v in (0.0, 0.004, 0.07, 0.82, 1.0)]
        ['0', '0', '.07', '.82', '1']
    """
    text = f"{value:.2f}"
    return text[0] if text in ("0.00", "1.00") else text[1:]
