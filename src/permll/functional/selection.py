"""Which samples of a batch to learn from: those two networks disagree on, those with small losses.

A choice is a mask over the batch. ``selection_weights`` turns it into weights whose mean over the batch is that over
the chosen alone, so that a loss stays a number for each sample.
"""

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

Schedule = Literal["paper", "code"]


def disagreement(
    logits: Float[Tensor, "batch classes"], others: Float[Tensor, "batch classes"]
) -> Bool[Tensor, " batch"]:
    """Return whether two networks would choose different classes.

    Examples:
        >>> disagreement(torch.tensor([[2.0, 1.0], [2.0, 1.0]]), torch.tensor([[3.0, 0.0], [0.0, 3.0]]))
        tensor([False,  True])
    """
    return logits.argmax(-1) != others.argmax(-1)


def small_losses(
    losses: Float[Tensor, " batch"], drop: Float[Tensor, ""] | float, among: Bool[Tensor, " batch"] | None = None
) -> Bool[Tensor, " batch"]:
    """Return the floor((1 - drop) n) smallest losses, one at least, of all n or of those ``among``.

    Of equal losses the first counts as smaller. Nothing among which to choose gives nothing.

    Examples:
        >>> losses = torch.tensor([0.3, 0.1, 0.9, 0.2])
        >>> small_losses(losses, 0.5)
        tensor([False,  True, False,  True])
        >>> small_losses(losses, 0.5, among=torch.tensor([True, False, True, False]))
        tensor([ True, False, False, False])
    """
    among = torch.ones_like(losses, dtype=torch.bool) if among is None else among
    rank = losses.masked_fill(~among, torch.inf).argsort(stable=True).argsort()
    # (1 - 0.8) * 10 is a little less than 2.
    count = ((1 - drop) * among.sum() + 1e-4).floor().clamp_min(1)
    return among & (rank < count)


def selection_weights(chosen: Bool[Tensor, " batch"], least: float = 0.0) -> Float[Tensor, " batch"]:
    """Return B / n for the n chosen of a batch of B, and 0 for the others: no NaN where none is chosen.

    Args:
        chosen: by this or that rule.
        least: the share of a batch below which a choice has less weight: n is least B then.

    Examples:
        >>> selection_weights(torch.tensor([True, False, True, False]))
        tensor([2., 0., 2., 0.])
        >>> selection_weights(torch.tensor([True, False, False, False]), least=0.5)
        tensor([2., 0., 0., 0.])
    """
    size = len(chosen)
    return chosen * (size / chosen.sum().clamp_min(max(least * size, 1.0)))


def drop_rate(epoch: int, rate: float, ramp: int, exponent: float = 1.0, schedule: Schedule = "paper") -> float:
    """Return the share of a batch that small-loss selection leaves out after ``epoch`` epochs.

    It rises from 0 to the noise rate τ, while networks do not know wrong labels by heart yet. In Co-teaching's paper it
    is τ min(e^c / T, 1). In its code it rises in equal steps to τ^c in the last of the first T epochs, and is τ then.
    For c = 1 both are straight lines.

    Args:
        epoch: e, how many are finished.
        rate: τ.
        ramp: T, in epochs.
        exponent: c.
        schedule: whose.

    Examples:
        >>> [round(drop_rate(epoch, 0.5, 4), 3) for epoch in range(6)]
        [0.0, 0.125, 0.25, 0.375, 0.5, 0.5]
        >>> [round(drop_rate(epoch, 0.5, 4, 2.0, "code"), 3) for epoch in range(6)]
        [0.0, 0.083, 0.167, 0.25, 0.5, 0.5]
    """
    if schedule == "paper":
        return rate * min(epoch**exponent / ramp, 1.0) if epoch > 0 else 0.0
    return rate if epoch >= ramp else rate**exponent * (epoch / max(ramp - 1, 1))


def joint_loss(
    logits: Float[Tensor, "batch classes"],
    others: Float[Tensor, "batch classes"],
    labels: Int[Tensor, " batch"],
    lam: float,
) -> Float[Tensor, " batch"]:
    """Return JoCoR's (1 - λ) (-log p_y - log q_y) + λ (KL(p ‖ q) + KL(q ‖ p)), with p and q the networks' predictions.

    Where the networks agree, only the labels pull; where they do not, they pull each other too. The two divergences are
    Σ_k (p_k - q_k) (log p_k - log q_k).

    Args:
        logits: of one network.
        others: of the other.
        labels: as given.
        lam: λ, the weight of agreement.

    Examples:
        >>> logits = torch.tensor([[1.0, 0.0]])
        >>> joint_loss(logits, logits, torch.tensor([0]), lam=0.5)
        tensor([0.3133])
        >>> joint_loss(logits, -logits, torch.tensor([0]), lam=1.0)
        tensor([0.9242])
    """
    log_p, log_q = logits.log_softmax(-1), others.log_softmax(-1)
    labeled = nn.functional.nll_loss(log_p + log_q, labels, reduction="none")
    apart = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(-1)
    return (1 - lam) * labeled + lam * apart
