"""Checks of shapes, class numbers and values of the tensors to evaluate."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from permll.utils.messages import format_list
from permll.utils.validation import check_class_labels

Outputs = Float[Tensor, "samples classes"] | Int[Tensor, " samples"]
_SUM_TOLERANCE = 1e-3


def check_predictions(
    outputs: Outputs,
    labels: Int[Tensor, " samples"],
    num_classes: int | None = None,
    names: tuple[str, str] = ("predictions", "labels"),
) -> tuple[Int[Tensor, " samples"], Int[Tensor, " samples"], int]:
    """Return predicted classes, labels and c; the prediction is the argmax of (N, c) scores, the lowest class in a tie.

    Args:
        outputs: (N, c) probabilities or logits, or (N,) predicted classes.
        labels: (N,) in 0..c-1.
        num_classes: c. Default: the number of columns of ``outputs``, or the highest class + 1.
        names: names of the two in error messages.

    Examples:
        >>> check_predictions(torch.tensor([[0.2, 0.8], [0.5, 0.5]]), torch.tensor([1, 1]))
        (tensor([1, 0]), tensor([1, 1]), 2)
    """
    if outputs.ndim == 2:
        scores, truth = check_scores(outputs, labels, names)
        if num_classes not in (None, scores.shape[1]):
            raise ValueError(f"{names[0]} have {scores.shape[1]} columns, but num_classes is {num_classes}.")
        return scores.argmax(1).cpu(), truth, scores.shape[1]
    check_same_length(**{names[0]: outputs, names[1]: labels})
    predicted, truth = check_labels(outputs, num_classes, names[0]), check_labels(labels, num_classes, names[1])
    return predicted, truth, num_classes or 1 + int(max(predicted.max(), truth.max()))


def check_labels(labels: Tensor, num_classes: int | None, name: str = "labels") -> Int[Tensor, " samples"]:
    """Return class numbers (N,) in 0..c-1 as int64 on the CPU.

    Examples:
        >>> check_labels(torch.tensor([0, 3, 1]), num_classes=3)
        Traceback (most recent call last):
        ValueError: labels must be in 0..2, but 1 position (1) is not: number the classes from 0 to c-1.
    """
    check_class_labels(labels, num_classes, name=name)
    return labels.cpu().long()


def check_scores(
    scores: Float[Tensor, "samples classes"],
    labels: Int[Tensor, " samples"],
    names: tuple[str, str] = ("scores", "labels"),
) -> tuple[Float[Tensor, "samples classes"], Int[Tensor, " samples"]]:
    """Return finite scores (N, c) on their device, in float32 or more, and labels (N,) on the CPU."""
    name = names[0]
    if scores.ndim != 2 or not scores.is_floating_point() or scores.shape[1] == 0:
        raise ValueError(f"{name} must be floats of shape (N, c), one column per class; got {_describe(scores)}.")
    check_same_length(**{name: scores, names[1]: labels})
    truth, scores = check_labels(labels, scores.shape[1], names[1]), scores.detach()
    if not all(math.isfinite(extreme) for extreme in scores.aminmax()):  # NaN propagates; much faster than isfinite()
        rows = _format_positions(~scores.isfinite().all(1), "row")
        raise ValueError(f"{name} are NaN or infinite in {rows}: check the learning rate and these samples.")
    is_half = scores.dtype in (torch.float16, torch.bfloat16)
    return scores.float() if is_half else scores, truth


def check_probabilities(
    probabilities: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"]
) -> tuple[Float[Tensor, "samples classes"], Int[Tensor, " samples"]]:
    """Return probabilities (N, c) whose rows sum to 1 within the precision of their dtype, and labels (N,) on the CPU.

    Examples:
        >>> check_probabilities(torch.tensor([[2.0, -1.0]]), torch.tensor([0]))
        Traceback (most recent call last):
        ValueError: probabilities are negative or do not sum to 1 in 1 row (0): pass softmax(logits), not logits.
    """
    p, truth = check_scores(probabilities, labels, ("probabilities", "labels"))
    tolerance = max(_SUM_TOLERANCE, torch.finfo(probabilities.dtype).eps)
    invalid = (p.amin(1) < 0) | ((p.sum(1) - 1).abs() > tolerance)
    if bool(invalid.any()):
        rows = _format_positions(invalid, "row")
        raise ValueError(f"probabilities are negative or do not sum to 1 in {rows}: pass softmax(logits), not logits.")
    return p, truth


def check_quality(quality: Float[Tensor, " samples"]) -> Float[Tensor, " samples"]:
    """Return label quality (N,) in [0, 1] as float64 on the CPU.

    Examples:
        >>> check_quality(torch.tensor([0.5, torch.nan]))
        Traceback (most recent call last):
        ValueError: quality must lie in [0, 1], low = suspect, but does not at 1 position (1).
    """
    if quality.ndim != 1 or not quality.is_floating_point() or len(quality) == 0:
        raise ValueError(f"quality must be floats of shape (N,), N > 0; got {_describe(quality)}.")
    quality = quality.detach().cpu().double()
    invalid = ~((quality >= 0) & (quality <= 1))
    if bool(invalid.any()):
        positions = _format_positions(invalid, "position")
        raise ValueError(f"quality must lie in [0, 1], low = suspect, but does not at {positions}.")
    return quality


def check_mask(mask: Bool[Tensor, " samples"], name: str) -> Bool[Tensor, " samples"]:
    """Return a mask (N,) on the CPU."""
    if mask.ndim != 1 or mask.dtype != torch.bool or len(mask) == 0:
        raise ValueError(f"{name} must be booleans of shape (N,), N > 0; got {_describe(mask)}.")
    return mask.cpu()


def check_same_length(**named: Tensor) -> None:
    """Raise unless all tensors have the same length.

    Examples:
        >>> check_same_length(given=torch.zeros(3), clean=torch.zeros(2))
        Traceback (most recent call last):
        ValueError: given has 3 entries, but clean has 2: give one entry per sample in the same order.
    """
    lengths = {name: len(values) if values.ndim else 0 for name, values in named.items()}
    (first, expected), *_ = lengths.items()
    for name, length in lengths.items():
        if length != expected:
            raise ValueError(
                f"{first} has {expected:,} entries, but {name} has {length:,}: give one entry per sample in the same "
                "order."
            )


def safe_divide(numerator: float, denominator: float) -> float | None:
    """Return numerator / denominator, or None if the denominator is 0.

    Examples:
        >>> safe_divide(1, 4), safe_divide(0, 0)
        (0.25, None)
    """
    return numerator / denominator if denominator else None


def _describe(values: Tensor) -> str:
    return f"{str(values.dtype).removeprefix('torch.')} of shape {tuple(values.shape)}"


def _format_positions(mask: Tensor, noun: str) -> str:
    return format_list(mask.nonzero().flatten().tolist(), noun)
