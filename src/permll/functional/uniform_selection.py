"""UniCon's choice of labels to believe: by the Jensen-Shannon divergence from the prediction, equally many a class."""

import math
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Units = Literal["bits", "nats"]


def label_divergence(
    p: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"], units: Units = "bits"
) -> Float[Tensor, " samples"]:
    """Return JSD(p, e_y) = KL(p || m) / 2 + KL(e_y || m) / 2, with m = (p + e_y) / 2.

    All entries of p but the given one meet a zero, so that only p_y counts:

        JSD = log 2 + (p_y log p_y - (1 + p_y) log(1 + p_y)) / 2,

    which falls from log 2 at p_y = 0 to 0 at p_y = 1.

    Args:
        p: predictions, rows sum to one.
        labels: y.
        units: of the logarithm: in ``"bits"`` the largest value is 1, in ``"nats"`` it is 0.693.

    Examples:
        >>> p, labels = torch.tensor([[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]]), torch.tensor([0, 0, 0])
        >>> label_divergence(p, labels)
        tensor([1.0000, 0.3113, 0.0000])
    """
    given = p.gather(-1, labels[:, None])[:, 0].clamp(0.0, 1.0)
    nats = math.log(2) + (torch.xlogy(given, given) - (1 + given) * given.log1p()) / 2
    return nats.clamp(0.0, math.log(2)) / (math.log(2) if units == "bits" else 1.0)


def divergence_cutoff(divergence: Float[Tensor, " samples"], mean: float = 0.7, tau: float = 5.0) -> float:
    """Return below which divergence labels count as right: its mean d̄, and d̄ - (d̄ - min d) / τ where d̄ is high.

    Args:
        divergence: d.
        mean: d_μ: from this d̄ on, fewer are taken.
        tau: τ.

    Examples:
        >>> [round(divergence_cutoff(torch.tensor(d)), 4) for d in ([0.0, 0.5, 0.7], [0.5, 1.0])]
        [0.4, 0.7]
    """
    found = divergence.double().mean().item()
    return found if found < mean else found - (found - divergence.min().item()) / tau


def uniform_selection(
    divergence: Float[Tensor, " samples"], labels: Int[Tensor, " samples"], quota: int
) -> Bool[Tensor, " samples"]:
    """Return which rows are taken: of each label the ``quota`` with the least divergence, or all if it has no more.

    Examples:
        >>> uniform_selection(torch.tensor([0.3, 0.1, 0.2, 0.9]), torch.tensor([0, 0, 0, 1]), 2)
        tensor([False,  True,  True,  True])
    """
    order = divergence.argsort(stable=True)
    order = order[labels[order].argsort(stable=True)]  # label by label, in each the least first
    sorted_labels = labels[order]
    place = torch.arange(len(order), device=order.device) - torch.searchsorted(sorted_labels, sorted_labels)
    chosen = torch.zeros_like(labels, dtype=torch.bool)
    chosen[order[place < quota]] = True
    return chosen
