"""The learning rate as a pure function of how far training has come: nothing to save, nothing to resume."""

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
    """Return the factor of the initial learning rate at ``epoch``, counted from 0 with its fraction.

    Args:
        epoch: how far training has come: 3.5 in the middle of the fourth epoch.
        epochs: how long it lasts.
        kind: ``"steps"``: times ``gamma`` at each of the ``milestones``, from the beginning of that epoch on.
            ``"cosine"``: from 1 to ``final`` along half a cosine, epoch by epoch. ``"linear"``: 1 up to the first
            milestone, then evenly down to ``final``, epoch by epoch. ``"constant"``: 1.
        milestones: epochs, or below 1 fractions of all epochs.
        gamma: the factor at a milestone.
        warm_up: epochs in which the rate rises evenly from 0.
        final: where the cosine or the line ends.

    Examples:
        >>> [round(learning_rate(epoch, 120, milestones=(80, 100)), 4) for epoch in (0, 79.9, 80, 100)]
        [1.0, 1.0, 0.1, 0.01]
        >>> round(learning_rate(5, 10, kind="cosine"), 4)
        0.5
        >>> [learning_rate(epoch, 10, kind="linear", milestones=(6,)) for epoch in (0, 6, 7, 9)]
        [1.0, 1.0, 0.75, 0.25]
    """
    if kind not in get_args(Kind):
        raise ValueError(f"a schedule is one of {', '.join(get_args(Kind))}; got {kind!r}.")
    rise = min(epoch / warm_up, 1.0) if warm_up > 0 else 1.0
    if kind == "constant":
        return rise
    if kind == "cosine":
        return rise * (final + (1 - final) * (1 + math.cos(math.pi * math.floor(epoch) / epochs)) / 2)
    begin = _in_epochs(milestones, epochs)
    if kind == "linear":
        first = min(begin[0] if begin else 0.0, epochs - 1)
        return rise * (final + (1 - final) * min((epochs - math.floor(epoch)) / (epochs - first), 1.0))
    return rise * float(gamma ** sum(epoch >= start for start in begin))


def first_beta(
    epoch: float, epochs: int, *, milestones: Sequence[float] = (), beta1: float | None = None
) -> float | None:
    """Return what Adam's first decay rate is to be at ``epoch``; None for what the optimizer began with.

    Args:
        epoch: how far training has come.
        epochs: how long it lasts.
        milestones: epochs, or below 1 fractions of all epochs.
        beta1: its value from the first milestone on.

    Examples:
        >>> first_beta(79.9, 200, milestones=(80,), beta1=0.1)
        >>> first_beta(80, 200, milestones=(80,), beta1=0.1)
        0.1
    """
    begin = _in_epochs(milestones, epochs)
    return beta1 if begin and epoch >= begin[0] else None


def _in_epochs(milestones: Sequence[float], epochs: int) -> list[float]:
    return [milestone * epochs if 0 < milestone < 1 else milestone for milestone in milestones]
