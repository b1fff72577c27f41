"""Whether a model knows how sure it may be.

Letters: ``p`` (N, c) are probabilities whose rows sum to 1, ``y`` (N,) the labels. The confidence of a sample is its
largest probability; bins group samples by confidence, and a calibrated model is right in a bin as often as it says.
"""

from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from permll.evaluation.validation import read_probabilities

Equal = Literal["width", "mass"]
BINS = 15


class Bin(NamedTuple):
    """The samples whose confidence lies together."""

    lower: float  # of equal width: the bin's edges, the upper one inside; of equal mass: the confidences it spans
    upper: float
    samples: int
    confidence: float  # mean
    accuracy: float


def reliability_curve(
    p: Float[Tensor, "samples classes"], y: Int[Tensor, " samples"], *, bins: int = BINS, equal: Equal = "width"
) -> list[Bin]:
    """Return confidence and accuracy of each bin that has samples, by rising confidence.

    Args:
        p: probabilities.
        y: labels.
        bins: how many.
        equal: ``"width"``, bin m holds confidences in ((m-1)/bins, m/bins]; ``"mass"``, bins hold N / bins samples
            each, but equal confidences stay together, so that the order of samples does not matter.

    Examples:
        >>> p = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6]], dtype=torch.float64)
        >>> for found in reliability_curve(p, torch.tensor([0, 1, 1]), bins=2, equal="mass"):
        ...     print(found)
        Bin(lower=0.6, upper=0.6, samples=1, confidence=0.6, accuracy=1.0)
        Bin(lower=0.8, upper=0.9, samples=2, confidence=0.85..., accuracy=0.5)
    """
    if equal not in get_args(Equal):
        raise ValueError(f"bins of equal {equal!r} are unknown: take 'width' or 'mass'.")
    if bins < 1:
        raise ValueError(f"there are {bins} bins: take one at least.")
    p, y = read_probabilities(p, y)
    largest, predicted = p.max(1)
    confidence, right = largest.cpu().double(), (predicted.cpu() == y).double()
    place = (_by_width if equal == "width" else _by_mass)(confidence, bins)
    count = place.bincount(minlength=bins)
    means = [place.bincount(values, minlength=bins) / count for values in (confidence, right)]
    if equal == "width":
        edges = torch.arange(bins + 1, dtype=torch.float64) / bins
        lower, upper = edges[:-1], edges[1:]
    else:
        start = torch.zeros(bins, dtype=torch.float64)
        lower, upper = (
            start.scatter_reduce(0, place, confidence, extreme, include_self=False) for extreme in ("amin", "amax")
        )
    columns = (lower.tolist(), upper.tolist(), count.tolist(), *(mean.tolist() for mean in means))
    return [found for found in map(Bin, *columns) if found.samples]


def expected_calibration_error(
    p: Float[Tensor, "samples classes"], y: Int[Tensor, " samples"], *, bins: int = BINS, equal: Equal = "width"
) -> float:
    """Return Σ_m (n_m / N) |accuracy_m - confidence_m| over the bins of ``reliability_curve``.

    Examples:
        >>> sure = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
        >>> expected_calibration_error(sure, torch.tensor([0, 1]))
        0.5
    """
    curve = reliability_curve(p, y, bins=bins, equal=equal)
    return sum(found.samples * abs(found.accuracy - found.confidence) for found in curve) / len(y)


def maximum_calibration_error(
    p: Float[Tensor, "samples classes"], y: Int[Tensor, " samples"], *, bins: int = BINS, equal: Equal = "width"
) -> float:
    """Return max_m |accuracy_m - confidence_m| over the bins of ``reliability_curve``; a bin of one sample counts too.

    Examples:
        >>> p = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.5, 0.5]])
        >>> maximum_calibration_error(p, torch.tensor([0, 0, 0]))
        0.5
    """
    return max(abs(found.accuracy - found.confidence) for found in reliability_curve(p, y, bins=bins, equal=equal))


def brier_score(p: Float[Tensor, "samples classes"], y: Int[Tensor, " samples"]) -> float:
    """Return (1/N) Σ_i ‖p_i - e_{y_i}‖₂², from 0 (sure and right) to 2 (sure and wrong).

    Examples:
        >>> brier_score(torch.tensor([[0.5, 0.5]]), torch.tensor([0]))
        0.5
    """
    p, y = read_probabilities(p, y)
    index = y[:, None].to(p.device)
    # The difference itself is squared: Σ p² - 2 p_y + 1 would cancel where the model is sure and right.
    difference = p.scatter_add(1, index, torch.full_like(index, -1, dtype=p.dtype))
    return float(difference.square_().sum(1).cpu().double().mean())


def negative_log_likelihood(p: Float[Tensor, "samples classes"], y: Int[Tensor, " samples"]) -> float:
    """Return -(1/N) Σ_i log p_i[y_i].

    A probability that was rounded to 0 counts as the smallest number of its dtype, so that one sample does not make
    the mean infinite: it adds 87 in float32, 708 in float64.

    Examples:
        >>> round(negative_log_likelihood(torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([1, 0])), 4)
        0.3466
    """
    p, y = read_probabilities(p, y)
    own = p.gather(1, y[:, None].to(p.device)).clamp_min_(torch.finfo(p.dtype).tiny)
    return -float(own.cpu().double().log().mean())


def _by_width(confidence: Tensor, bins: int) -> Tensor:
    return torch.bucketize(confidence, torch.arange(1, bins, dtype=torch.float64) / bins)


def _by_mass(confidence: Tensor, bins: int) -> Tensor:
    """Return each sample's bin by the middle of the ranks that its confidence takes."""
    _, own, counts = confidence.unique(return_inverse=True, return_counts=True)
    twice_middle = 2 * counts.cumsum(0) - counts
    return (twice_middle * bins // (2 * len(confidence)))[own]
