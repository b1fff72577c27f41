"""Outliers: samples that are far from all others, in features of which all directions count alike.

Features are whitened with a covariance V L V^T that is shrunk by 1 % of its mean variance, to
(L + 0.01 mean L)^(-1/2) V^T x. It is computed a second time without the 2 % of rows that are farthest from the mean.
With D(i) the distance of a sample to its tenth neighbor, and its robust score

    z(i) = (log D(i) - median log D) / max(1.4826 MAD, (90 % quantile of log D - median log D) / 1.2816),

MAD the median absolute deviation of log D, and u(i) = (1 - max p) c / (c - 1) in [0, 1], the uncertainty of the
prediction, the outlier score is sigmoid(z + u - 3.5). An outlier has at least 0.5.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from permll.functional.near_duplicates import neighbor_distances, random_projection
from permll.utils.indexing import subsample_rows

NUM_NEIGHBORS = 10
MAX_REFERENCES = 1_000  # few, so that a group of outliers does not hide itself
MAX_DIMS = 768  # more are projected at random first
MAX_COVARIANCE_ROWS = 5_000
SHRINKAGE = 0.01
TRIMMED = 0.02  # of the rows, without which the covariance is computed again: outliers would hide themselves
THRESHOLD = 3.5  # robust standard deviations
MIN_SAMPLES = 30  # fewer have no typical distance

Features = Float[Tensor, "samples dims"]
Scores = Float[Tensor, " samples"]


def outlier_scores(x: Features, max_probs: Scores | None = None, num_classes: int = 2) -> Scores:
    """Return a score in [0, 1] for each sample; an outlier has at least 0.5, and NaN stands for too few samples.

    Args:
        x: (N, d) features.
        max_probs: (N,) probability of the predicted class; without it, predictions count as certain.
        num_classes: c.

    Examples:
        >>> x = torch.randn(500, 4, generator=torch.Generator().manual_seed(0))
        >>> x[3] += 30
        >>> is_outlier(outlier_scores(x)).nonzero()
        tensor([[3]])
    """
    if len(x) < MIN_SAMPLES:
        return torch.full((len(x),), torch.nan)
    distances = neighbor_distances(whiten(x), subsample_rows(len(x), MAX_REFERENCES), NUM_NEIGHBORS)[:, -1]
    positive = distances[distances > 0]
    floor = 0.1 * positive.median().item() if len(positive) else 1.0  # identical samples are not infinitely close
    z = robust_score(distances.clamp_min(floor).log())
    uncertainty = 0.0 if max_probs is None else ((1 - max_probs) * num_classes / (num_classes - 1)).clamp(0, 1)
    return (z + uncertainty - THRESHOLD).sigmoid()


def is_outlier(scores: Scores) -> Bool[Tensor, " samples"]:
    """Return which samples are outliers: those with a score of at least 0.5."""
    return scores >= 0.5


def whiten(x: Features) -> Float[Tensor, "samples components"]:
    """Return centered features with a covariance near the identity, at most ``MAX_DIMS`` of them.

    Examples:
        >>> x = torch.randn(5000, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 10.0])
        >>> whiten(x).std(0).round(decimals=1)
        tensor([0.8000, 1.1000])
    """
    x = random_projection(x.float(), MAX_DIMS)
    sample = x[subsample_rows(len(x), MAX_COVARIANCE_ROWS)]
    mean, transform = _whitening(sample)
    norms = ((sample - mean) @ transform).norm(dim=1)
    mean, transform = _whitening(sample[norms <= norms.quantile(1 - TRIMMED)])
    return (x - mean) @ transform


def _whitening(x: Features) -> tuple[Float[Tensor, " dims"], Float[Tensor, "dims dims"]]:
    """Return the mean and the whitening transform of features."""
    mean = x.mean(0)
    centered = (x - mean).double()
    variances, directions = torch.linalg.eigh(centered.T @ centered / len(centered))
    variances = variances.clamp_min(0) + SHRINKAGE * variances.mean().clamp_min(1e-30)
    return mean, (directions / variances.sqrt()).float()


def robust_score(values: Scores) -> Scores:
    """Return (v - median) / spread; 0 if the values do not vary.

    The spread is the larger one of 1.4826 times the median absolute deviation and of the distance from the median to
    the 90 % quantile, divided by 1.2816; both are the standard deviation of normal values. The second one is for
    values of which a part is larger, such as distances between rows of few categories.

    Examples:
        >>> robust_score(torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 50.0]))[[0, -1]]
        tensor([-1.1242,  9.8925])
    """
    difference = values - values.median()
    spread = max(1.4826 * difference.abs().median().item(), difference.quantile(0.9).item() / 1.2816)
    return difference / spread if spread > 0 else torch.zeros_like(values)
