"""Mixup: a batch blended with a permutation of itself, and the loss of what a network says of the blends.

Whom a sample is blended with is a permutation ``partner`` (B,); how much of the first remains is a ``share``, λ: one
number for the batch, or (B,) numbers, one for each pair. ``permll.data.transforms.mixing`` draws both from a batch's keys.
"""

from jaxtyping import Float, Int, Num
from torch import Tensor, nn

Share = Float[Tensor, " batch"] | float  # λ


def blend(
    values: Float[Tensor, "batch ..."], partner: Int[Tensor, " batch"], share: Share
) -> Float[Tensor, "batch ..."]:
    """Return λ v_i + (1 - λ) v_j, with j the partner of i: for inputs, features, losses or rows of targets.

    Examples:
        >>> import torch
        >>> blend(torch.tensor([[0.0, 4.0], [8.0, 0.0]]), torch.tensor([1, 0]), torch.tensor([0.5, 0.75]))
        tensor([[4., 2.],
                [6., 1.]])
    """
    if isinstance(share, Tensor):
        share = share.view(-1, *[1] * (values.ndim - 1))
    return share * values + (1 - share) * values[partner]


def mixed_cross_entropy(
    logits: Float[Tensor, "batch classes"],
    targets: Num[Tensor, "batch ..."],
    partner: Int[Tensor, " batch"],
    share: Share,
) -> Float[Tensor, " batch"]:
    """Return λ H(t_i, p) + (1 - λ) H(t_j, p) of each blend, with j the partner of i and H(t, p) = -Σ_k t_k log p_k.

    H is linear in t, so this is the cross-entropy with blended targets; its gradient in the logits is p minus these.

    Args:
        logits: of the blends.
        targets: of the samples before they were blended: class numbers (B,), or rows (B, c).
        partner: of each sample.
        share: λ.

    Examples:
        >>> import torch
        >>> logits = torch.tensor([[0.0, 0.0], [2.0, 0.0]])
        >>> mixed_cross_entropy(logits, torch.tensor([0, 1]), torch.tensor([1, 0]), 0.5)
        tensor([0.6931, 1.1269])
    """
    own, others = (nn.functional.cross_entropy(logits, t, reduction="none") for t in (targets, targets[partner]))
    return share * own + (1 - share) * others


def guided_share(right: Float[Tensor, " batch"], partner: Int[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    """Return λ_i = δ_i / (δ_i + δ_j), with j the partner of i: of two samples the one whose label is right counts more.

    Args:
        right: δ > 0, how far each label is believed to be right.
        partner: of each sample.

    Examples:
        >>> import torch
        >>> guided_share(torch.tensor([0.9, 0.1]), torch.tensor([1, 0]))
        tensor([0.9000, 0.1000])
    """
    return right / (right + right[partner])


def bootstrapped_targets(
    labels: Int[Tensor, " batch"], predicted: Float[Tensor, "batch classes"], wrong: Float[Tensor, " batch"]
) -> Float[Tensor, "batch classes"]:
    """Return (1 - w) e_y + w t: the given label as far as it is right, the prediction t as far as it is wrong.

    Args:
        labels: y.
        predicted: t, rows that sum to one.
        wrong: w in [0, 1], how probably each label is wrong.

    Examples:
        >>> import torch
        >>> bootstrapped_targets(torch.tensor([0]), torch.tensor([[0.0, 0.5, 0.5]]), torch.tensor([0.2]))
        tensor([[0.8000, 0.1000, 0.1000]])
    """
    return (wrong[:, None] * predicted).scatter_add(1, labels[:, None], (1 - wrong[:, None]).to(predicted))
