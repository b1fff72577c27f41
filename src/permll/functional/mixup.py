"""Mixup: convex combinations of a batch with a permutation of itself, and losses on them.

``partner`` (B,) is the permutation, ``lam`` is λ, the weight of the first sample: one number for the batch, or (B,) one
per pair. ``permll.data.transforms.mixing`` draws both.
"""

from jaxtyping import Float, Num
from torch import Tensor, nn

from permll.functional._shapes import Index, Labels, Logits, PerSample, Rows

MixupWeight = PerSample | float  # λ


def mixup_blend(values: Float[Tensor, "batch ..."], partner: Index, lam: MixupWeight) -> Float[Tensor, "batch ..."]:
    """Return λ v_i + (1 - λ) v_j, with j the partner of i; for inputs, features, losses or soft targets.

    Examples:
        >>> import torch
        >>> mixup_blend(torch.tensor([[0.0, 4.0], [8.0, 0.0]]), torch.tensor([1, 0]), torch.tensor([0.5, 0.75]))
        tensor([[4., 2.],
                [6., 1.]])
    """
    if isinstance(lam, Tensor):
        lam = lam.view(-1, *[1] * (values.ndim - 1))
    return lam * values + (1 - lam) * values[partner]


def mixup_cross_entropy(
    logits: Logits, targets: Num[Tensor, "batch ..."], partner: Index, lam: MixupWeight
) -> PerSample:
    """Return λ H(t_i, p) + (1 - λ) H(t_j, p), with j the partner of i and H(t, p) = -Σ_k t_k log p_k.

    H is linear in t, so this equals cross-entropy with blended targets. Its gradient in the logits is p minus those.

    Args:
        logits: network outputs for the blended inputs.
        targets: targets of the unblended samples: class numbers (B,) or rows (B, c).
        partner: partner of each sample.
        lam: λ.

    Examples:
        >>> import torch
        >>> logits = torch.tensor([[0.0, 0.0], [2.0, 0.0]])
        >>> mixup_cross_entropy(logits, torch.tensor([0, 1]), torch.tensor([1, 0]), 0.5)
        tensor([0.6931, 1.1269])
    """
    first, second = (nn.functional.cross_entropy(logits, t, reduction="none") for t in (targets, targets[partner]))
    return lam * first + (1 - lam) * second


def guided_mixup_weight(clean_probs: PerSample, partner: Index) -> PerSample:
    """Return λ_i = δ_i / (δ_i + δ_j), with j the partner of i; the sample with the cleaner label gets more weight.

    Args:
        clean_probs: δ > 0, probability that each label is clean.
        partner: partner of each sample.

    Examples:
        >>> import torch
        >>> guided_mixup_weight(torch.tensor([0.9, 0.1]), torch.tensor([1, 0]))
        tensor([0.9000, 0.1000])
    """
    return clean_probs / (clean_probs + clean_probs[partner])


def bootstrapped_targets(labels: Labels, predicted: Rows, noisy_probs: PerSample) -> Rows:
    """Return (1 - w) e_y + w t, the given label blended with the prediction t (dynamic bootstrapping).

    Args:
        labels: y.
        predicted: t, rows that sum to one.
        noisy_probs: w in [0, 1], probability that each label is wrong.

    Examples:
        >>> import torch
        >>> bootstrapped_targets(torch.tensor([0]), torch.tensor([[0.0, 0.5, 0.5]]), torch.tensor([0.2]))
        tensor([[0.8000, 0.1000, 0.1000]])
    """
    w = noisy_probs[:, None]
    return (w * predicted).scatter_add(1, labels[:, None], (1 - w).to(predicted))
