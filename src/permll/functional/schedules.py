"""Schedules of loss weights and drop rates over training."""

import math
from typing import Literal

Schedule = Literal["paper", "code"]


def sigmoid_rampup(progress: float) -> float:
    """Return exp(-5 (1 - u)²) with u = ``progress`` clipped to [0, 1]; rises from 0.007 to 1.

    Examples:
        >>> [round(sigmoid_rampup(u), 4) for u in (0.0, 0.5, 1.0, 2.0)]
        [0.0067, 0.2865, 1.0, 1.0]
    """
    return math.exp(-5 * (1 - linear_rampup(progress)) ** 2)


def linear_rampup(progress: float) -> float:
    """Return ``progress`` clipped to [0, 1].

    Examples:
        >>> [linear_rampup(u) for u in (-1.0, 0.25, 3.0)]
        [0.0, 0.25, 1.0]
    """
    return float(min(max(progress, 0.0), 1.0))


def small_loss_drop_rate(
    epoch: int, rate: float, ramp: int, exponent: float = 1.0, schedule: Schedule = "paper"
) -> float:
    """Return the fraction of a batch that small-loss selection drops in an epoch.

    It rises from 0 to the noise rate τ while networks have not memorized wrong labels yet. In the paper of Co-teaching
    it is τ min(e^c / T, 1). In its code it rises linearly to τ^c in the last of the first T epochs, and is τ from then
    on. Both are linear for c = 1.

    Args:
        epoch: e, number of finished epochs.
        rate: τ.
        ramp: T, in epochs.
        exponent: c.
        schedule: ``"paper"`` or ``"code"``.

    Examples:
        >>> [round(small_loss_drop_rate(epoch, 0.5, 4), 3) for epoch in range(6)]
        [0.0, 0.125, 0.25, 0.375, 0.5, 0.5]
        >>> [round(small_loss_drop_rate(epoch, 0.5, 4, 2.0, "code"), 3) for epoch in range(6)]
        [0.0, 0.083, 0.167, 0.25, 0.5, 0.5]
    """
    if schedule == "paper":
        return rate * min(epoch**exponent / ramp, 1.0) if epoch > 0 else 0.0
    return rate if epoch >= ramp else rate**exponent * (epoch / max(ramp - 1, 1))
