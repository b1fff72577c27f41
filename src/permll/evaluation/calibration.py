"""Calibration and likelihood of predicted probabilities.

``p`` (N, c) are probabilities whose rows sum to 1, ``y`` (N,) the labels. Confidence is the largest probability of a
sample. scikit-learn has no multiclass calibration error, its Brier score for several classes needs version 1.7, and its
log loss clips probabilities of 0 at another value.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from permll.evaluation.validation import check_probabilities

NUM_BINS = 15


def expected_calibration_error(
    p: Float[Tensor, "samples classes"], y: Int[Tensor, " samples"], *, num_bins: int = NUM_BINS
) -> float:
    """Return Σ_m (n_m / N) |accuracy_m - confidence_m| over bins m of equal width.

    Bin m holds the n_m samples with confidence in ((m-1)/M, m/M], where M is ``num_bins``.

    Examples:
        >>> confident = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
        >>> expected_calibration_error(confident, torch.tensor([0, 1]))
        0.5
    """
    if num_bins < 1:
        raise ValueError(f"num_bins must be at least 1, got {num_bins}.")
    p, y = check_probabilities(p, y)
    largest, predicted = p.max(1)
    confidence, is_correct = largest.cpu().double(), (predicted.cpu() == y).double()
    index = torch.bucketize(confidence, torch.arange(1, num_bins, dtype=torch.float64) / num_bins)
    count = index.bincount(minlength=num_bins)
    mean_confidence, mean_accuracy = (
        (index.bincount(values, minlength=num_bins) / count).tolist() for values in (confidence, is_correct)
    )
    bins = zip(count.tolist(), mean_accuracy, mean_confidence, strict=True)
    return sum(n * abs(accuracy - mean) for n, accuracy, mean in bins if n) / len(y)


def brier_score(p: Float[Tensor, "samples classes"], y: Int[Tensor, " samples"]) -> float:
    """Return (1/N) Σ_i ‖p_i - e_{y_i}‖₂², between 0 and 2.

    Examples:
        >>> brier_score(torch.tensor([[0.5, 0.5]]), torch.tensor([0]))
        0.5
    """
    p, y = check_probabilities(p, y)
    index = y[:, None].to(p.device)
    # Squares the difference itself: Σ p² - 2 p_y + 1 would suffer from cancellation.
    difference = p.scatter_add(1, index, torch.full_like(index, -1, dtype=p.dtype))
    return float(difference.square_().sum(1).cpu().double().mean())


def negative_log_likelihood(p: Float[Tensor, "samples classes"], y: Int[Tensor, " samples"]) -> float:
    """Return -(1/N) Σ_i log p_i[y_i].

    Probabilities of 0 are replaced by the smallest normal number of the dtype, so that the mean stays finite: such a
    sample contributes 87 in float32 and 708 in float64.

    Examples:
        >>> round(negative_log_likelihood(torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([1, 0])), 4)
        0.3466
    """
    p, y = check_probabilities(p, y)
    label_probs = p.gather(1, y[:, None].to(p.device)).clamp_min_(torch.finfo(p.dtype).tiny)
    return -float(label_probs.cpu().double().log().mean())
