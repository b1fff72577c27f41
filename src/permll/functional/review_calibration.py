"""How many labels are wrong that were not reviewed, from the decisions about those that were.

Labels alone cannot tell how many are wrong (``permll.functional.label_errors``), reviewed labels can. With
l = log(q / (1 - q)) the log-odds of the quality of a label, the probability that it is wrong is

    P(wrong) = 1 / (1 + exp(a l - b)),

and a = 1, b = 0 for a quality that is calibrated. The decisions determine a and b; before any, log a is normal with
mean 0 and standard deviation 1/2, and b with mean 0 and standard deviation 2. If all reviewed labels were wrong, they
do not tell at which quality labels begin to be correct. The estimated number of wrong labels before the review does:
the sum of P(wrong) over all labels is normal around it.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

SLOPE_DEVIATION = 0.5  # of log a
SHIFT_DEVIATION = 2.0  # of b
GRID_SIZE = 41
GRID_RANGE = 4.0  # standard deviations
REFINEMENTS = 2  # of the grid, around the pairs that the decisions leave
MAX_LOG_ODDS = 16.0  # float32 does not separate higher qualities
LEVELS = 3201  # of log-odds; equal ones are counted together
QUANTILES = (0.025, 0.975)
RATE_DEVIATION = 0.25  # of an estimate from labels alone, as a fraction of it, besides its interval
MIN_DEVIATION = 0.005  # of such an estimate, as a fraction of all labels


class Remaining(NamedTuple):
    """Estimate of a number of wrong labels.

    Args:
        estimate: with the mean of log a and of b.
        low: lower end of the 95 % interval.
        high: upper end of it.
    """

    estimate: float
    low: float
    high: float


class Calibration(NamedTuple):
    """Weights of pairs (a, b) after the decisions.

    Args:
        slopes: (g,) values of a.
        shifts: (g,) values of b.
        weights: (g,) their probabilities.
    """

    slopes: Float[Tensor, " pairs"]
    shifts: Float[Tensor, " pairs"]
    weights: Float[Tensor, " pairs"]

    def wrong_probs(self, quality: Float[Tensor, " samples"]) -> Float[Tensor, " samples"]:
        """Return the probability that each label is wrong, with the mean of log a and of b.

        Examples:
            >>> calibrate(torch.tensor([]), torch.tensor([], dtype=torch.bool)).wrong_probs(torch.tensor([0.5, 0.9]))
            tensor([0.5000, 0.1000], dtype=torch.float64)
        """
        slope, shift = (self.weights @ self.slopes.log()).exp(), self.weights @ self.shifts
        return torch.sigmoid(shift - slope * log_odds(quality))

    def remaining(self, quality: Float[Tensor, " samples"]) -> Remaining:
        """Return how many of these labels are wrong; the interval covers the draw of each label, too.

        Examples:
            >>> none = torch.tensor([], dtype=torch.bool)
            >>> calibrate(torch.tensor([]), none).remaining(torch.full((100,), 0.9)).estimate
            10.0...
        """
        levels, counts = _levels(quality).unique(return_counts=True)
        probs = _wrong_probs(self.slopes, self.shifts, levels)
        means, variances = counts.double() @ probs, counts.double() @ (probs * (1 - probs))
        low, high = (_quantile(means, variances, self.weights, level) for level in QUANTILES)
        return Remaining(float(self.wrong_probs(quality).sum()), max(low, 0.0), min(high, float(len(quality))))


def calibrate(
    quality: Float[Tensor, " reviewed"],
    was_wrong: Bool[Tensor, " reviewed"],
    all_quality: Float[Tensor, " samples"] | None = None,
    total: Remaining | None = None,
) -> Calibration:
    """Return the probabilities of a and b given the reviewed labels, on a grid that is refined.

    Args:
        quality: of the reviewed labels, before the review.
        was_wrong: whether the reviewer found the label wrong.
        all_quality: of all labels, reviewed or not, if ``total`` is known.
        total: how many of all labels were estimated to be wrong before the review, with a 95 % interval.

    Examples:
        >>> quality = torch.full((200,), 0.3)
        >>> before = calibrate(quality[:0], quality[:0] > 0)
        >>> after = calibrate(quality, torch.arange(200) % 10 == 0)        # a tenth of them was wrong
        >>> [round(float(one.wrong_probs(quality[:1])), 1) for one in (before, after)]
        [0.7, 0.1]
    """
    levels, positions = _levels(quality).unique(return_inverse=True)
    count = len(levels)
    wrong = torch.bincount(positions[was_wrong], minlength=count).double()
    correct = torch.bincount(positions[~was_wrong], minlength=count).double()
    steps = torch.linspace(-GRID_RANGE, GRID_RANGE, GRID_SIZE, dtype=torch.float64)
    means, deviations = [0.0, 0.0], [1.0, 1.0]
    for _ in range(REFINEMENTS + 1):
        axes = (mean + deviation * steps for mean, deviation in zip(means, deviations, strict=True))
        slope, shift = (axis.flatten() for axis in torch.meshgrid(*axes, indexing="ij"))  # in standard deviations
        slopes, shifts = (SLOPE_DEVIATION * slope).exp(), SHIFT_DEVIATION * shift
        logits = shifts - slopes * levels[:, None]
        likelihood = wrong @ torch.nn.functional.logsigmoid(logits) + correct @ torch.nn.functional.logsigmoid(-logits)
        if all_quality is not None and total is not None:
            likelihood = likelihood + _total_likelihood(slopes, shifts, all_quality, total)
        weights = (likelihood - (slope**2 + shift**2) / 2).softmax(0)
        means = [float(weights @ values) for values in (slope, shift)]
        deviations = [
            float((weights @ (values - mean) ** 2).sqrt()) for values, mean in zip((slope, shift), means, strict=True)
        ]
    return Calibration(slopes, shifts, weights)


def log_odds(quality: Float[Tensor, " samples"]) -> Float[Tensor, " samples"]:
    """Return log(q / (1 - q)) in float64, within ±16.

    Examples:
        >>> log_odds(torch.tensor([0.5, 0.0, 1.0])).tolist()
        [0.0, -16.0, 16.0]
    """
    return quality.double().logit().clamp(-MAX_LOG_ODDS, MAX_LOG_ODDS)


def _total_likelihood(slopes: Tensor, shifts: Tensor, quality: Tensor, total: Remaining) -> Tensor:
    """Return the log-likelihood of an estimated number of wrong labels, (pairs,)."""
    levels, counts = _levels(quality).unique(return_counts=True)
    expected = counts.double() @ _wrong_probs(slopes, shifts, levels)
    deviation = math.hypot((total.high - total.low) / 4, RATE_DEVIATION * total.estimate)
    return -(((expected - total.estimate) / max(deviation, MIN_DEVIATION * len(quality))) ** 2) / 2


def _levels(quality: Tensor) -> Tensor:
    """Return log-odds, rounded to one of ``LEVELS`` numbers."""
    step = 2 * MAX_LOG_ODDS / (LEVELS - 1)
    return (log_odds(quality) / step).round() * step


def _wrong_probs(slopes: Tensor, shifts: Tensor, odds: Tensor) -> Tensor:
    """Return P(wrong), (levels, pairs)."""
    return torch.sigmoid(shifts - slopes * odds[:, None])


def _quantile(means: Tensor, variances: Tensor, weights: Tensor, level: float) -> float:
    """Return the quantile of a mixture of normal distributions, by bisection."""
    deviations = variances.clamp_min(1e-12).sqrt()
    low, high = float((means - 6 * deviations).min()), float((means + 6 * deviations).max())
    for _ in range(60):
        middle = (low + high) / 2
        below = float(torch.special.ndtr((middle - means) / deviations) @ weights)
        low, high = (middle, high) if below < level else (low, middle)
    return high
