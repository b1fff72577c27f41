"""Robust losses: cross-entropy variants that limit the influence of wrong labels.

Notation: ``z`` the logits, ``p = softmax(z)``, ``y`` the given label, ``e_y`` its one-hot vector, ``H(p)`` the entropy
of p. Every loss is a function of log p, so none overflows and no probability is clamped. Gradients are in z.
"""

import math

import torch
from torch import Tensor

from permll.functional._shapes import Labels, Logits, Mask, PerSample


def soft_bootstrap_loss(
    logits: Logits, labels: Labels, beta: float = 0.95, *, detach_target: bool = False
) -> PerSample:
    """Return -Σ_k (β [k = y] + (1 - β) p_k) log p_k = -β log p_y + (1 - β) H(p), soft bootstrapping.

    Its gradient is β (p - e_y) - (1 - β) p (log p + H(p)). With a detached target the second term is zero, so the
    gradient is β times that of cross-entropy.

    Examples:
        >>> soft_bootstrap_loss(torch.zeros(1, 2), torch.tensor([0]))
        tensor([0.6931])
    """
    log_p = logits.log_softmax(-1)
    p = log_p.detach().exp() if detach_target else log_p.exp()
    return -beta * _at_label(log_p, labels) - (1 - beta) * (p * log_p).sum(-1)


def hard_bootstrap_loss(logits: Logits, labels: Labels, beta: float = 0.8) -> PerSample:
    """Return -β log p_y - (1 - β) log p_k with k = argmax p, hard bootstrapping.

    Examples:
        >>> logits = torch.tensor([[2.0, 0.0]])
        >>> hard_bootstrap_loss(logits, torch.tensor([0])) < hard_bootstrap_loss(logits, torch.tensor([1]))
        tensor([True])
    """
    log_p = logits.log_softmax(-1)
    return -beta * _at_label(log_p, labels) - (1 - beta) * log_p.max(-1).values


def gce(logits: Logits, labels: Labels, q: float = 0.7) -> PerSample:
    """Return generalized cross-entropy, L_q = (1 - p_y^q) / q: cross-entropy for q → 0, 1 - p_y for q = 1.

    Its gradient is p_y^q times that of cross-entropy, so labels of low probability have little influence.

    Examples:
        >>> gce(torch.zeros(1, 2), torch.tensor([0]), q=1.0)
        tensor([0.5000])
    """
    return _box_cox(_at_label(logits.log_softmax(-1), labels), q)


def truncated_gce(logits: Logits, labels: Labels, keep: Mask, q: float = 0.7, k: float = 0.5) -> PerSample:
    """Return L_q for the samples in ``keep``, and the constant L_q(k) = (1 - k^q) / q for pruned samples.

    With ``keep`` from ``truncated_gce_mask`` this is min(L_q, L_q(k)).

    Examples:
        >>> logits, labels = torch.tensor([[0.0, 3.0]]).expand(2, 2), torch.tensor([0, 1])
        >>> truncated_gce(logits, labels, torch.tensor([False, True]), q=1.0)
        tensor([0.5000, 0.0474])
    """
    bound = _box_cox(logits.new_tensor(math.log(k)), q)
    return torch.where(keep, gce(logits, labels, q), bound)


def truncated_gce_mask(logits: Logits, labels: Labels, k: float = 0.5) -> Mask:
    """Return p_y > k, the samples that truncated GCE keeps; equivalent to L_q(p_y) < L_q(k) for any q.

    Examples:
        >>> truncated_gce_mask(torch.tensor([[0.0, 3.0]]).expand(2, 2), torch.tensor([0, 1]))
        tensor([False,  True])
    """
    return _at_label(logits.log_softmax(-1), labels) > math.log(k)


def symmetric_cross_entropy(
    logits: Logits, labels: Labels, alpha: float = 0.1, beta: float = 1.0, A: float = -4.0
) -> PerSample:
    """Return -α log p_y - β Σ_k p_k log e_y[k] with log 0 = A, which is -α log p_y - β A (1 - p_y).

    Its gradient is (α - β A p_y) times that of cross-entropy.

    Examples:
        >>> symmetric_cross_entropy(torch.zeros(1, 2), torch.tensor([0]), alpha=0.0)
        tensor([2.])
    """
    log_p = _at_label(logits.log_softmax(-1), labels)
    return -alpha * log_p + beta * A * log_p.expm1()


def _at_label(log_p: Tensor, labels: Tensor) -> Tensor:
    return log_p.gather(-1, labels[:, None])[:, 0]


def _box_cox(log_p: Tensor, q: float) -> Tensor:
    """Return (1 - p^q) / q from log p, exact down to q = 0, where it is -log p."""
    return -log_p if q == 0 else (q * log_p).expm1() / -q
