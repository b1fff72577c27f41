"""Learning rate schedules as pure functions of the epoch: there is no state to save or resume."""

import math
from collections.abc import Sequence
from typing import Literal, get_args

Kind = Literal["steps", "cosine", "linear", "constant"]


def learning_rate(
    epoch: float,
    epochs: int,
    *,
    kind: Kind = "steps",
    milestones: Sequence[float] = (),
    gamma: float = 0.1,
    warm_up: float = 0.0,
    final: float = 0.0,
) -> float:
    """Return the factor of the initial learning rate at ``epoch``.

    Args:
        epoch: epochs done, with their fraction: 3.5 in the middle of the fourth epoch.
        epochs: number of epochs.
        kind: ``"steps"``: times ``gamma`` at each milestone. ``"cosine"``: from 1 to ``final`` along half a cosine.
            ``"linear"``: 1 up to the first milestone, then linearly to ``final``. ``"constant"``: 1. Cosine and linear
            change at the beginning of an epoch.
        milestones: epochs; values below 1 are fractions of all epochs.
        gamma: factor at a milestone.
        warm_up: epochs of a linear warm-up from 0.
        final: final factor of ``"cosine"`` and ``"linear"``.

    Examples:
        >>> [round(learning_rate(epoch, 120, milestones=(80, 100)), 4) for epoch in (0, 79.9, 80, 100)]
        [1.0, 1.0, 0.1, 0.01]
        >>> round(learning_rate(5, 10, kind="cosine"), 4)
        0.5
        >>> [learning_rate(epoch, 10, kind="linear", milestones=(6,)) for epoch in (0, 6, 7, 9)]
        [1.0, 1.0, 0.75, 0.25]
    """
    if kind not in get_args(Kind):
        raise ValueError(f"unknown schedule {kind!r}. Choose from {', '.join(get_args(Kind))}.")
    ramp = min(epoch / warm_up, 1.0) if warm_up > 0 else 1.0
    if kind == "constant":
        return ramp
    if kind == "cosine":
        return ramp * (final + (1 - final) * (1 + math.cos(math.pi * math.floor(epoch) / epochs)) / 2)
    starts = milestones_in_epochs(milestones, epochs)
    if kind == "linear":
        first = min(starts[0] if starts else 0.0, epochs - 1)
        return ramp * (final + (1 - final) * min((epochs - math.floor(epoch)) / (epochs - first), 1.0))
    return ramp * float(gamma ** sum(epoch >= start for start in starts))


def milestones_in_epochs(milestones: Sequence[float], epochs: int) -> list[float]:
    """Return milestones as epochs; values below 1 are fractions of all epochs."""
    return [milestone * epochs if 0 < milestone < 1 else milestone for milestone in milestones]
