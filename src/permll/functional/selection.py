"""Sample selection: masks of samples to learn from, by disagreement, small loss or divergence.

A selection is a boolean mask over the batch. ``selection_weights`` converts it to weights, so that the mean of the
weighted losses over the batch is the mean over the selected samples.
"""

import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from permll.functional._shapes import Labels, Logits, Mask, PerSample, Rows

Units = Literal["bits", "nats"]


def disagreement_mask(logits: Logits, other_logits: Logits) -> Mask:
    """Return whether two networks predict different classes.

    Examples:
        >>> disagreement_mask(torch.tensor([[2.0, 1.0], [2.0, 1.0]]), torch.tensor([[3.0, 0.0], [0.0, 3.0]]))
        tensor([False,  True])
    """
    return logits.argmax(-1) != other_logits.argmax(-1)


def small_loss_mask(losses: PerSample, drop: Float[Tensor, ""] | float, among: Mask | None = None) -> Mask:
    """Select the floor((1 - drop) n) smallest losses, at least one, of all n samples or of those in ``among``.

    Ties are resolved by position. An empty ``among`` selects nothing.

    Examples:
        >>> losses = torch.tensor([0.3, 0.1, 0.9, 0.2])
        >>> small_loss_mask(losses, 0.5)
        tensor([False,  True, False,  True])
        >>> small_loss_mask(losses, 0.5, among=torch.tensor([True, False, True, False]))
        tensor([ True, False, False, False])
    """
    among = torch.ones_like(losses, dtype=torch.bool) if among is None else among
    order = losses.masked_fill(~among, torch.inf).argsort(stable=True).argsort()
    count = ((1 - drop) * among.sum() + 1e-4).floor().clamp_min(1)  # 1e-4: (1 - 0.8) * 10 is slightly below 2
    return among & (order < count)


def selection_weights(mask: Mask, min_fraction: float = 0.0) -> PerSample:
    """Return B / n for the n selected samples of a batch of B, and 0 for the others; all 0 if none is selected.

    Args:
        mask: selected samples.
        min_fraction: lower bound of n / B, which limits the weight of small selections.

    Examples:
        >>> selection_weights(torch.tensor([True, False, True, False]))
        tensor([2., 0., 2., 0.])
        >>> selection_weights(torch.tensor([True, False, False, False]), min_fraction=0.5)
        tensor([2., 0., 0., 0.])
    """
    size = len(mask)
    return mask * (size / mask.sum().clamp_min(max(min_fraction * size, 1.0)))


def jocor_loss(logits: Logits, other_logits: Logits, labels: Labels, lam: float) -> PerSample:
    """Return JoCoR's (1 - λ) (-log p_y - log q_y) + λ (KL(p ‖ q) + KL(q ‖ p)), p and q the networks' predictions.

    The sum of the two divergences is Σ_k (p_k - q_k) (log p_k - log q_k).

    Args:
        logits: outputs of one network.
        other_logits: outputs of the other network.
        labels: given labels.
        lam: λ, weight of the agreement term.

    Examples:
        >>> logits = torch.tensor([[1.0, 0.0]])
        >>> jocor_loss(logits, logits, torch.tensor([0]), lam=0.5)
        tensor([0.3133])
        >>> jocor_loss(logits, -logits, torch.tensor([0]), lam=1.0)
        tensor([0.9242])
    """
    log_p, log_q = logits.log_softmax(-1), other_logits.log_softmax(-1)
    supervised = nn.functional.nll_loss(log_p + log_q, labels, reduction="none")
    divergence = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(-1)
    return (1 - lam) * supervised + lam * divergence


# --- UniCon ---------------------------------------------------------------------------------------------------------


def label_js_divergence(p: Rows, labels: Labels, units: Units = "bits") -> PerSample:
    """Return the Jensen-Shannon divergence JSD(p, e_y) = KL(p || m) / 2 + KL(e_y || m) / 2, with m = (p + e_y) / 2.

    It depends on p_y only,

        JSD = log 2 + (p_y log p_y - (1 + p_y) log(1 + p_y)) / 2,

    and decreases from log 2 at p_y = 0 to 0 at p_y = 1.

    Args:
        p: predictions, rows sum to one.
        labels: y.
        units: unit of the logarithm: the maximum is 1 in ``"bits"`` and 0.693 in ``"nats"``.

    Examples:
        >>> p, labels = torch.tensor([[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]]), torch.tensor([0, 0, 0])
        >>> label_js_divergence(p, labels)
        tensor([1.0000, 0.3113, 0.0000])
    """
    p_y = p.gather(-1, labels[:, None])[:, 0].clamp(0.0, 1.0)
    nats = math.log(2) + (torch.xlogy(p_y, p_y) - (1 + p_y) * p_y.log1p()) / 2
    return nats.clamp(0.0, math.log(2)) / (math.log(2) if units == "bits" else 1.0)


def js_divergence_cutoff(divergence: PerSample, mean: float = 0.7, tau: float = 5.0) -> float:
    """Return the divergence below which labels count as clean: the mean d̄, or d̄ - (d̄ - min d) / τ if d̄ >= ``mean``.

    Args:
        divergence: d.
        mean: d_μ, the threshold of d̄ for the lower cutoff.
        tau: τ.

    Examples:
        >>> [round(js_divergence_cutoff(torch.tensor(d)), 4) for d in ([0.0, 0.5, 0.7], [0.5, 1.0])]
        [0.4, 0.7]
    """
    average = divergence.double().mean().item()
    return average if average < mean else average - (average - divergence.min().item()) / tau


def uniform_selection_mask(divergence: PerSample, labels: Labels, quota: int) -> Mask:
    """Select for each label the ``quota`` samples of smallest divergence, or all if there are fewer.

    Examples:
        >>> uniform_selection_mask(torch.tensor([0.3, 0.1, 0.2, 0.9]), torch.tensor([0, 0, 0, 1]), 2)
        tensor([False,  True,  True,  True])
    """
    order = divergence.argsort(stable=True)
    order = order[labels[order].argsort(stable=True)]  # by label, then by divergence
    sorted_labels = labels[order]
    place = torch.arange(len(order), device=order.device) - torch.searchsorted(sorted_labels, sorted_labels)
    mask = torch.zeros_like(labels, dtype=torch.bool)
    mask[order[place < quota]] = True
    return mask
