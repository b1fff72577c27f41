"""What may be measured: tensors whose shapes fit, whose classes exist and whose numbers are numbers."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from permll.utils.messages import format_list

Outputs = Float[Tensor, "samples classes"] | Int[Tensor, " samples"]
_SUM_TOLERANCE = 1e-3


class Answers(NamedTuple):
    """What was said and what is true, on the CPU."""

    predicted: Int[Tensor, " samples"]
    labels: Int[Tensor, " samples"]
    num_classes: int


def read_answers(
    outputs: Outputs,
    labels: Int[Tensor, " samples"],
    num_classes: int | None = None,
    names: tuple[str, str] = ("predictions", "labels"),
) -> Answers:
    """Return predictions, labels and c; of (N, c) scores the largest is the prediction, the lowest class among equals.

    Args:
        outputs: (N, c) probabilities or logits, or (N,) predicted classes.
        labels: (N,) in 0..c-1.
        num_classes: c; by default the width of the scores, or one more than the highest class there is.
        names: what complaints call the two.

    Examples:
        >>> read_answers(torch.tensor([[0.2, 0.8], [0.5, 0.5]]), torch.tensor([1, 1]))
        Answers(predicted=tensor([1, 0]), labels=tensor([1, 1]), num_classes=2)
    """
    if outputs.ndim == 2:
        scores, truth = read_scores(outputs, labels, names)
        if num_classes not in (None, scores.shape[1]):
            raise ValueError(f"{names[0]} have {scores.shape[1]} columns, but num_classes is {num_classes}: drop one.")
        return Answers(scores.argmax(1).cpu(), truth, scores.shape[1])
    predicted, truth = read_classes({names[0]: outputs, names[1]: labels}, num_classes)
    return Answers(predicted, truth, num_classes or 1 + int(max(predicted.max(), truth.max())))


def read_classes(named: dict[str, Tensor], num_classes: int | None = None) -> list[Int[Tensor, " samples"]]:
    """Return class numbers (N,) as int64 on the CPU, all of one length and in 0..c-1.

    Examples:
        >>> read_classes({"labels": torch.tensor([0, 3, 1])}, num_classes=3)
        Traceback (most recent call last):
        ValueError: labels lie outside 0..2 at 1 position (1): number the classes from 0 to c-1.
    """
    same_length(**named)
    return [_classes(values, num_classes, name) for name, values in named.items()]


def read_scores(
    scores: Float[Tensor, "samples classes"],
    labels: Int[Tensor, " samples"],
    names: tuple[str, str] = ("scores", "labels"),
) -> tuple[Float[Tensor, "samples classes"], Int[Tensor, " samples"]]:
    """Return finite scores (N, c), in float32 at least, where they are, and labels (N,) on the CPU."""
    name = names[0]
    if scores.ndim != 2 or not scores.is_floating_point() or scores.shape[1] == 0:
        raise ValueError(f"{name} must be floats of shape (N, c), one column for each class; got {_described(scores)}.")
    same_length(**{name: scores, names[1]: labels})
    truth, scores = _classes(labels, scores.shape[1], names[1]), scores.detach()
    if not all(math.isfinite(extreme) for extreme in scores.aminmax()):  # NaN is both; far faster than isfinite()
        where = _positions(~scores.isfinite().all(1), "row")
        raise ValueError(f"{name} are NaN or infinite in {where}: look at the learning rate and at those samples.")
    half = scores.dtype in (torch.float16, torch.bfloat16)
    return scores.float() if half else scores, truth


def read_probabilities(
    probabilities: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"]
) -> tuple[Float[Tensor, "samples classes"], Int[Tensor, " samples"]]:
    """Return probabilities (N, c), each row of which sums to 1 as far as its dtype can, and labels (N,) on the CPU.

    Examples:
        >>> read_probabilities(torch.tensor([[2.0, -1.0]]), torch.tensor([0]))
        Traceback (most recent call last):
        ValueError: probabilities are negative, or do not sum to 1, in 1 row (0): give softmax(logits), not logits.
    """
    p, truth = read_scores(probabilities, labels, ("probabilities", "labels"))
    tolerance = max(_SUM_TOLERANCE, torch.finfo(probabilities.dtype).eps)
    bad = (p.amin(1) < 0) | ((p.sum(1) - 1).abs() > tolerance)
    if bool(bad.any()):
        where = _positions(bad, "row")
        raise ValueError(
            f"probabilities are negative, or do not sum to 1, in {where}: give softmax(logits), not logits."
        )
    return p, truth


def read_quality(quality: Float[Tensor, " samples"]) -> Float[Tensor, " samples"]:
    """Return label quality (N,) in [0, 1] as float64 on the CPU.

    Examples:
        >>> read_quality(torch.tensor([0.5, torch.nan]))
        Traceback (most recent call last):
        ValueError: quality lies outside 0..1, or is NaN, at 1 position (1): 0 is a suspect label, 1 one to trust.
    """
    if quality.ndim != 1 or not quality.is_floating_point() or len(quality) == 0:
        raise ValueError(f"quality must be floats of shape (N,), N > 0; got {_described(quality)}.")
    quality = quality.detach().cpu().double()
    outside = ~((quality >= 0) & (quality <= 1))
    if bool(outside.any()):
        where = _positions(outside, "position")
        raise ValueError(f"quality lies outside 0..1, or is NaN, at {where}: 0 is a suspect label, 1 one to trust.")
    return quality


def read_mask(mask: Bool[Tensor, " samples"], name: str) -> Bool[Tensor, " samples"]:
    """Return a mask (N,) on the CPU."""
    if mask.ndim != 1 or mask.dtype != torch.bool or len(mask) == 0:
        raise ValueError(f"{name} must be true or false, of shape (N,), N > 0; got {_described(mask)}.")
    return mask.cpu()


def same_length(**named: Tensor) -> None:
    """Refuse tensors that are not about the same number of samples.

    Examples:
        >>> same_length(given=torch.zeros(3), clean=torch.zeros(2))
        Traceback (most recent call last):
        ValueError: given has 3 entries, clean has 2: give one for each sample, in the same order.
    """
    lengths = {name: len(values) if values.ndim else 0 for name, values in named.items()}
    if len(set(lengths.values())) > 1:
        (first, length), *others = lengths.items()
        other = next(name for name, found in others if found != length)
        raise ValueError(
            f"{first} has {length:,} entries, {other} has {lengths[other]:,}: "
            "give one for each sample, in the same order."
        )


def ratio(part: float, whole: float) -> float | None:
    """Return part / whole, and None where there is no whole to take a part of.

    Examples:
        >>> ratio(1, 4), ratio(0, 0)
        (0.25, None)
    """
    return part / whole if whole else None


def _classes(values: Tensor, num_classes: int | None, name: str) -> Tensor:
    whole = not (values.is_floating_point() or values.is_complex() or values.dtype == torch.bool)
    if values.ndim != 1 or len(values) == 0 or not whole:
        raise ValueError(f"{name} must be whole numbers of shape (N,), N > 0; got {_described(values)}.")
    values = values.cpu().long()
    outside = (values < 0) if num_classes is None else (values < 0) | (values >= num_classes)
    if bool(outside.any()):
        span = "below 0" if num_classes is None else f"outside 0..{num_classes - 1}"
        where = _positions(outside, "position")
        raise ValueError(f"{name} lie {span} at {where}: number the classes from 0 to c-1.")
    return values


def _described(values: Tensor) -> str:
    return f"{str(values.dtype).removeprefix('torch.')} of shape {tuple(values.shape)}"


def _positions(mask: Tensor, noun: str) -> str:
    return format_list(mask.nonzero().flatten().tolist(), noun)
