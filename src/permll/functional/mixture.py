"""Mixtures of two on losses: right labels are learned first, so their losses are the lower of two humps.

A mixture π_0 f_0 + π_1 f_1 has its lower hump (right labels) first. All that EM and users ask of it is how probably a
loss x belongs to the upper one,

    γ(x) = π_1 f_1(x) / (π_0 f_0(x) + π_1 f_1(x)) = sigmoid(log π_1 f_1(x) / (π_0 f_0(x))),

whose log-odds are quadratic in x for two normal distributions, and linear in log x and log(1 - x) for two Beta ones.
So they have one extremum at most, which is known in closed form.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

SHARE = 1e-12  # of each value belongs to each hump at least, so that none is ever empty
EDGE = 1e-3  # scaled losses keep this distance from 0 and 1, where Beta distributions have no finite density
GAP = 1e-2  # nearer means are those of one hump


def loss_range(losses: Float[Tensor, " samples"]) -> tuple[float, float]:
    """Return the 5th and the 95th percentile of the finite losses, as float64: what lies outside tells little.

    Without a finite loss both are NaN.

    Examples:
        >>> loss_range(torch.cat([torch.arange(101.0), torch.tensor([torch.nan])]))
        (5.0, 95.0)
    """
    finite = losses[losses.isfinite()].double().cpu().numpy()
    low, high = np.quantile(finite, (0.05, 0.95)) if len(finite) else (math.nan, math.nan)
    return float(low), float(high)


def unit_scaled(losses: Float[Tensor, " samples"]) -> Float[Tensor, " samples"]:
    """Return (l - min) / (max - min), of the finite losses; where all are alike, zeros. Others stay as they are.

    Examples:
        >>> unit_scaled(torch.tensor([1.0, 2.0, 5.0]))
        tensor([0.0000, 0.2500, 1.0000])
    """
    finite = losses[losses.isfinite()]
    if len(finite) == 0 or finite.min() == finite.max():
        return losses - losses.where(losses.isfinite(), 0.0)
    return (losses - finite.min()) / (finite.max() - finite.min())


def scale_losses(losses: Float[Tensor, "..."], low: Tensor | float, high: Tensor | float) -> Float[Tensor, "..."]:
    """Return (l - low) / (high - low + 1e-6), kept within [1e-3, 1 - 1e-3].

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

    def rising(self) -> tuple[Tensor, Tensor]:
        """Return the ends of the interval on which the odds rise: the wider hump takes over again far out."""
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

    def rising(self) -> tuple[Tensor, Tensor]:
        """Return the ends of the interval on which the odds rise: all of (0, 1), unless a and b rise or fall both."""
        a, b = self.a[1] - self.a[0], self.b[1] - self.b[0]
        extremum = a / (a + b)
        return torch.where((a < 0) & (b < 0), extremum, 0.0), torch.where((a > 0) & (b > 0), extremum, 1.0)

    def _log_odds(self, log_x: Tensor, log_rest: Tensor) -> Tensor:
        # log π / B(a, b) of each hump
        constant = self.weight.log() + torch.lgamma(self.a + self.b) - torch.lgamma(self.a) - torch.lgamma(self.b)
        a, b, c = (part[1] - part[0] for part in (self.a, self.b, constant))
        return a * log_x + b * log_rest + c


Mixture = GaussianMixture | BetaMixture


def wrong_posterior(x: Float[Tensor, "..."], mixture: Mixture, *, monotone: bool = True) -> Float[Tensor, "..."]:
    """Return γ(x), the probability that a label with loss x is wrong: that x belongs to the upper hump.

    Args:
        x: losses, scaled as those the mixture was fitted to.
        mixture: of losses.
        monotone: where a higher loss would make a wrong label less likely, hold γ at its nearest extremum.

    Examples:
        >>> half = torch.tensor([0.5, 0.5])
        >>> narrow_above = GaussianMixture(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.1]), half)
        >>> wrong_posterior(torch.tensor([0.0, 1.0, 2.0]), narrow_above)
        tensor([0.0209, 0.8391, 0.8464])
        >>> wrong_posterior(torch.tensor([0.0, 1.0, 2.0]), narrow_above, monotone=False)
        tensor([0.0209, 0.8391, 0.1360])
    """
    if monotone:
        low, high = mixture.rising()
        x = x.clamp(low, high)
    return mixture.log_odds(x).sigmoid()


def fit_gaussian_mixture(
    x: Float[Tensor, " samples"], *, steps: int = 100, tolerance: float = 1e-3, floor: float = 1e-6
) -> GaussianMixture | None:
    """Return the mixture of two normal distributions that EM finds, in float64; None without two different values.

    It begins with the two groups of k-means, which itself begins with a split at the mean: nothing is left to chance.
    Values that are not finite are left out.

    Args:
        x: values.
        steps: of EM at most.
        tolerance: EM ends when the mean log-likelihood changes by less.
        floor: added to each variance, which therefore cannot vanish.

    Examples:
        >>> losses = torch.cat([torch.linspace(0.0, 0.2, 50), torch.linspace(0.7, 0.9, 25)])
        >>> fit_gaussian_mixture(losses).mean
        tensor([0.1000, 0.8000], dtype=torch.float64)
    """
    x = x[x.isfinite()].double()
    if not _differ(x):
        return None
    mixture = _normal_moments(x, (x > _middle(x)).double(), floor)
    likelihood = -math.inf
    for _ in range(steps):
        odds = mixture.log_odds(x)
        before, likelihood = likelihood, _mean_log_likelihood(x, odds, mixture)
        mixture = _normal_moments(x, odds.sigmoid(), floor)
        if abs(likelihood - before) < tolerance:
            break
    return mixture if mixture.mean[0] <= mixture.mean[1] else GaussianMixture(*(part.flip(0) for part in mixture))


def fit_beta_mixture(x: Float[Tensor, " samples"], *, steps: int = 10) -> BetaMixture | None:
    """Return the mixture of two Beta distributions that EM finds, in float64; None if it finds no two humps.

    It begins with Beta(1, 2) and Beta(2, 1), each with half of the weight. The M-step matches the moments m and s² that
    each hump has under its shares: a = m (m (1-m) / s² - 1), b = a (1-m) / m. That need not raise the likelihood: many
    steps can make two humps into one, which is then none.

    Args:
        x: values in [0, 1]; others, and those that are not finite, are left out, and the ends are moved in by 1e-4.
        steps: of EM.

    Examples:
        >>> losses = torch.cat([torch.linspace(0, 1, 100) ** 4, 1 - torch.linspace(0, 1, 50) ** 4])
        >>> fit_beta_mixture(losses).mean
        tensor([0.1479, 0.7820], dtype=torch.float64)
    """
    x = x[(x >= 0) & (x <= 1)].double().clamp(1e-4, 1 - 1e-4)
    if not _differ(x):
        return None
    log_x, log_rest = x.log(), (-x).log1p()
    first = torch.tensor([1.0, 2.0], dtype=x.dtype, device=x.device)
    mixture = BetaMixture(first, first.flip(0), torch.full_like(first, 0.5))
    for _ in range(steps):
        mean, variance, weight = _moments(x, mixture._log_odds(log_x, log_rest).sigmoid())
        # Within these ends s² is below m (1-m), and so is the floor: a and b are positive.
        a = mean * (mean * (1 - mean) / variance.clamp_min(1e-6) - 1)
        mixture = BetaMixture(a, a * (1 - mean) / mean, weight)
    if mixture.mean[0] > mixture.mean[1]:
        mixture = BetaMixture(*(part.flip(0) for part in mixture))
    return mixture if mixture.mean.diff() > GAP else None


def _moments(x: Tensor, upper: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return means, variances and weights (2,) of the humps; ``upper`` (N,) is each value's share in the upper one."""
    upper = upper.clamp(SHARE, 1 - SHARE)
    shares = torch.stack([1 - upper, upper])
    total = shares.sum(1)
    mean = shares @ x / total
    variance = (x - mean[:, None]).square_().mul_(shares).sum(1) / total
    return mean, variance, total / len(x)


def _normal_moments(x: Tensor, upper: Tensor, floor: float) -> GaussianMixture:
    mean, variance, weight = _moments(x, upper)
    return GaussianMixture(mean, variance + floor, weight)


def _mean_log_likelihood(x: Tensor, odds: Tensor, mixture: GaussianMixture) -> float:
    """Return the mean of log(π_0 f_0 + π_1 f_1) = log π_0 f_0 + log(1 + odds)."""
    mean, variance, weight = (part[0] for part in mixture)
    lower = weight.log() - (2 * math.pi * variance).log() / 2 - (x - mean).square() / (2 * variance)
    return (lower + torch.nn.functional.softplus(odds)).mean().item()


def _middle(x: Tensor) -> Tensor:
    """Return the value halfway between the two means that k-means finds."""
    low, high = x.min(), x.max()
    margin = EDGE * (high - low)
    middle = x.mean().clamp(low + margin, high - margin)  # rounding must not leave a group empty
    for _ in range(100):
        upper = x > middle
        before, middle = middle, (x[upper].mean() + x[~upper].mean()) / 2
        if middle == before:
            break
    return middle


def _differ(x: Tensor) -> bool:
    """Return whether there are two values that differ by more than rounding."""
    return len(x) > 1 and bool(x.max() - x.min() > 1e-12 * x.abs().max())
