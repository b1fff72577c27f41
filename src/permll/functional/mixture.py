"""Two-component mixtures of losses: clean labels are learned first, so they form the component of lower loss.

A mixture π_0 f_0 + π_1 f_1 has its lower component (clean labels) first. The posterior of the upper component at loss x
is

    γ(x) = π_1 f_1(x) / (π_0 f_0(x) + π_1 f_1(x)) = sigmoid(log π_1 f_1(x) / (π_0 f_0(x))).

Its log-odds are quadratic in x for Gaussian components, and linear in log x and log(1 - x) for Beta components, so they
have at most one extremum, known in closed form.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from permll.functional._shapes import PerSample

MIN_RESPONSIBILITY = 1e-12  # of each component for each value, so that no component is empty
EDGE = 1e-3  # margin of scaled losses to 0 and 1, where Beta densities may be infinite
MIN_MEAN_DISTANCE = 1e-2  # closer means count as one component


def loss_percentile_range(losses: PerSample) -> tuple[float, float]:
    """Return the 5th and the 95th percentile of the finite losses in float64; NaN if there are none.

    Examples:
        >>> loss_percentile_range(torch.cat([torch.arange(101.0), torch.tensor([torch.nan])]))
        (5.0, 95.0)
    """
    finite = losses[losses.isfinite()].double().cpu().numpy()
    low, high = np.quantile(finite, (0.05, 0.95)) if len(finite) else (math.nan, math.nan)
    return float(low), float(high)


def min_max_scale(losses: PerSample) -> PerSample:
    """Return (l - min) / (max - min) over the finite losses, or zeros if these are equal; other values stay unchanged.

    Examples:
        >>> min_max_scale(torch.tensor([1.0, 2.0, 5.0]))
        tensor([0.0000, 0.2500, 1.0000])
    """
    finite = losses[losses.isfinite()]
    if len(finite) == 0 or finite.min() == finite.max():
        return losses - losses.where(losses.isfinite(), 0.0)
    return (losses - finite.min()) / (finite.max() - finite.min())


def scale_losses(losses: Float[Tensor, "..."], low: Tensor | float, high: Tensor | float) -> Float[Tensor, "..."]:
    """Return (l - low) / (high - low + 1e-6), clipped to [1e-3, 1 - 1e-3].

    Examples:
        >>> scale_losses(torch.tensor([0.0, 1.0, 2.0, 9.0]), 0.0, 4.0)
        tensor([0.0010, 0.2500, 0.5000, 0.9990])
    """
    return ((losses - low) / (high - low + 1e-6)).clamp(EDGE, 1 - EDGE)


class GaussianMixture(NamedTuple):
    """Two normal distributions, the upper one last."""

    mean: Float[Tensor, "2"]
    variance: Float[Tensor, "2"]
    weight: Float[Tensor, "2"]

    def log_odds(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return log π_1 f_1(x) / (π_0 f_0(x))."""
        (m0, m1), (v0, v1), (w0, w1) = self
        return (x - m0).square() / (2 * v0) - (x - m1).square() / (2 * v1) + (w1 / w0).log() + (v0 / v1).log() / 2

    def increasing_interval(self) -> tuple[Tensor, Tensor]:
        """Return the interval on which the odds increase; beyond it the component of larger variance dominates."""
        (m0, m1), (v0, v1), _ = self
        extremum = (m1 * v0 - m0 * v1) / (v0 - v1)
        return torch.where(v0 < v1, extremum, -math.inf), torch.where(v0 > v1, extremum, math.inf)


class BetaMixture(NamedTuple):
    """Two Beta distributions, x^(a-1) (1-x)^(b-1) / B(a, b), the upper one last."""

    a: Float[Tensor, "2"]
    b: Float[Tensor, "2"]
    weight: Float[Tensor, "2"]

    @property
    def mean(self) -> Float[Tensor, "2"]:
        """Return a / (a + b)."""
        return self.a / (self.a + self.b)

    def log_odds(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return log π_1 f_1(x) / (π_0 f_0(x)) for x in (0, 1)."""
        return self._log_odds(x.log(), (-x).log1p())

    def increasing_interval(self) -> tuple[Tensor, Tensor]:
        """Return the interval on which the odds increase: (0, 1), unless both a and b increase or both decrease."""
        a, b = self.a[1] - self.a[0], self.b[1] - self.b[0]
        extremum = a / (a + b)
        return torch.where((a < 0) & (b < 0), extremum, 0.0), torch.where((a > 0) & (b > 0), extremum, 1.0)

    def _log_odds(self, log_x: Tensor, log_1mx: Tensor) -> Tensor:
        # log π / B(a, b) of each component
        constant = self.weight.log() + torch.lgamma(self.a + self.b) - torch.lgamma(self.a) - torch.lgamma(self.b)
        a, b, c = (part[1] - part[0] for part in (self.a, self.b, constant))
        return a * log_x + b * log_1mx + c


Mixture = GaussianMixture | BetaMixture


def mislabeled_posterior(x: Float[Tensor, "..."], mixture: Mixture, *, monotone: bool = True) -> Float[Tensor, "..."]:
    """Return γ(x), the probability that a label with loss x is wrong: the posterior of the upper component.

    Args:
        x: losses, scaled as for the fit.
        mixture: fitted mixture.
        monotone: hold γ at its extremum where it would decrease with the loss.

    Examples:
        >>> half = torch.tensor([0.5, 0.5])
        >>> mixture = GaussianMixture(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.1]), half)
        >>> mislabeled_posterior(torch.tensor([0.0, 1.0, 2.0]), mixture)
        tensor([0.0209, 0.8391, 0.8464])
        >>> mislabeled_posterior(torch.tensor([0.0, 1.0, 2.0]), mixture, monotone=False)
        tensor([0.0209, 0.8391, 0.1360])
    """
    if monotone:
        low, high = mixture.increasing_interval()
        x = x.clamp(low, high)
    return mixture.log_odds(x).sigmoid()


# Not sklearn.mixture.GaussianMixture: from the same start its posteriors differ by 1e-12, in 2 to 6 times the time.
def fit_gaussian_mixture(
    x: PerSample, *, max_steps: int = 100, tolerance: float = 1e-3, reg_covar: float = 1e-6
) -> GaussianMixture | None:
    """Fit a mixture of two normal distributions by EM, in float64; None if there are no two different values.

    EM starts from the two clusters of k-means, which starts from a split at the mean, so the fit is deterministic.
    Values that are not finite are ignored.

    Args:
        x: values.
        max_steps: maximum number of EM steps.
        tolerance: EM stops when the mean log-likelihood changes by less.
        reg_covar: added to each variance, which keeps it positive.

    Examples:
        >>> losses = torch.cat([torch.linspace(0.0, 0.2, 50), torch.linspace(0.7, 0.9, 25)])
        >>> fit_gaussian_mixture(losses).mean
        tensor([0.1000, 0.8000], dtype=torch.float64)
    """
    x = x[x.isfinite()].double()
    if not _has_two_values(x):
        return None
    mixture = _gaussian_m_step(x, (x > _kmeans_threshold(x)).double(), reg_covar)
    likelihood = -math.inf
    for _ in range(max_steps):
        log_odds = mixture.log_odds(x)
        previous, likelihood = likelihood, _mean_log_likelihood(x, log_odds, mixture)
        mixture = _gaussian_m_step(x, log_odds.sigmoid(), reg_covar)
        if abs(likelihood - previous) < tolerance:
            break
    return mixture if mixture.mean[0] <= mixture.mean[1] else GaussianMixture(*(part.flip(0) for part in mixture))


def fit_beta_mixture(x: PerSample, *, steps: int = 10) -> BetaMixture | None:
    """Fit a mixture of two Beta distributions by EM, in float64; None if the components coincide.

    EM starts from Beta(1, 2) and Beta(2, 1) with equal weights. The M-step matches the weighted moments m and s² of
    each component: a = m (m (1-m) / s² - 1), b = a (1-m) / m. It does not always increase the likelihood, and many
    steps can merge the components.

    Args:
        x: values in [0, 1]; others are ignored, and the ends are moved in by 1e-4.
        steps: number of EM steps.

    Examples:
        >>> losses = torch.cat([torch.linspace(0, 1, 100) ** 4, 1 - torch.linspace(0, 1, 50) ** 4])
        >>> fit_beta_mixture(losses).mean
        tensor([0.1479, 0.7820], dtype=torch.float64)
    """
    x = x[(x >= 0) & (x <= 1)].double().clamp(1e-4, 1 - 1e-4)
    if not _has_two_values(x):
        return None
    log_x, log_1mx = x.log(), (-x).log1p()
    start = torch.tensor([1.0, 2.0], dtype=x.dtype, device=x.device)
    mixture = BetaMixture(start, start.flip(0), torch.full_like(start, 0.5))
    for _ in range(steps):
        mean, variance, weight = _weighted_moments(x, mixture._log_odds(log_x, log_1mx).sigmoid())
        # x is clipped, so s² < m (1-m), and so is the lower bound of s²: a and b are positive.
        a = mean * (mean * (1 - mean) / variance.clamp_min(1e-6) - 1)
        mixture = BetaMixture(a, a * (1 - mean) / mean, weight)
    if mixture.mean[0] > mixture.mean[1]:
        mixture = BetaMixture(*(part.flip(0) for part in mixture))
    return mixture if mixture.mean.diff() > MIN_MEAN_DISTANCE else None


def _weighted_moments(x: Tensor, upper: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return means, variances and weights (2,) from the responsibilities (N,) of the upper component."""
    upper = upper.clamp(MIN_RESPONSIBILITY, 1 - MIN_RESPONSIBILITY)
    responsibilities = torch.stack([1 - upper, upper])
    total = responsibilities.sum(1)
    mean = responsibilities @ x / total
    variance = (x - mean[:, None]).square_().mul_(responsibilities).sum(1) / total
    return mean, variance, total / len(x)


def _gaussian_m_step(x: Tensor, upper: Tensor, reg_covar: float) -> GaussianMixture:
    mean, variance, weight = _weighted_moments(x, upper)
    return GaussianMixture(mean, variance + reg_covar, weight)


def _mean_log_likelihood(x: Tensor, log_odds: Tensor, mixture: GaussianMixture) -> float:
    """Return the mean of log(π_0 f_0 + π_1 f_1) = log π_0 f_0 + log(1 + odds)."""
    mean, variance, weight = (part[0] for part in mixture)
    log_lower = weight.log() - (2 * math.pi * variance).log() / 2 - (x - mean).square() / (2 * variance)
    return (log_lower + torch.nn.functional.softplus(log_odds)).mean().item()


def _kmeans_threshold(x: Tensor) -> Tensor:
    """Return the midpoint of the two cluster means of k-means."""
    low, high = x.min(), x.max()
    margin = EDGE * (high - low)
    middle = x.mean().clamp(low + margin, high - margin)  # keeps both clusters non-empty under rounding
    for _ in range(100):
        upper = x > middle
        previous, middle = middle, (x[upper].mean() + x[~upper].mean()) / 2
        if middle == previous:
            break
    return middle


def _has_two_values(x: Tensor) -> bool:
    """Return whether two values differ by more than rounding."""
    return len(x) > 1 and bool(x.max() - x.min() > 1e-12 * x.abs().max())
