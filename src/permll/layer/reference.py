"""Reference implementation of Definition 1 with explicit c x c matrices, for tests and second derivatives.

Every function is differentiable by autograd.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from permll.layer.equations import Labels, LossName, Rows, Side


def swap_matrix(num_classes: int, i: int, j: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return P(i, j): the identity with rows i and j exchanged.

    Examples:
        >>> swap_matrix(3, 0, 2) @ torch.tensor([10.0, 20.0, 30.0], dtype=torch.float64)
        tensor([30., 20., 10.], dtype=torch.float64)
    """
    order = list(range(num_classes))
    order[i], order[j] = order[j], order[i]
    return torch.eye(num_classes, dtype=dtype)[order]


def permutation_layer(alpha: Float[Tensor, " classes"], label: int) -> Float[Tensor, "classes classes"]:
    """Return P̄ = Σ_k softmax(α)_k P(y, k), Definition 1, for one sample."""
    num_classes = len(alpha)
    weights = torch.softmax(alpha, dim=0)
    swaps = [swap_matrix(num_classes, label, k, alpha.dtype).to(alpha.device) for k in range(num_classes)]
    layer = torch.zeros_like(swaps[0])
    for weight, swap in zip(weights, swaps, strict=True):
        layer = layer + weight * swap
    return layer


def reference_loss(alpha: Rows, logits: Rows, labels: Labels, on: Side, loss: LossName) -> Float[Tensor, " batch"]:
    """Return eq. (1) (``on="label"``) or eq. (2) (``on="prediction"``) for each sample, by the definition."""
    return torch.stack([_sample_loss(a, z, int(y), on, loss) for a, z, y in zip(alpha, logits, labels, strict=True)])


def _sample_loss(alpha: Tensor, logits: Tensor, label: int, on: Side, loss: LossName) -> Tensor:
    layer = permutation_layer(alpha, label)
    label_one_hot = torch.nn.functional.one_hot(torch.tensor(label), len(alpha)).to(alpha)
    if on == "prediction":
        prediction, target = layer @ torch.softmax(logits, dim=0), label_one_hot
        log_likelihood = torch.log(prediction[label])  # the target is one-hot
    else:
        prediction, target = torch.softmax(logits, dim=0), layer @ label_one_hot
        log_likelihood = target @ torch.log_softmax(logits, dim=0)
    if loss == "ce":
        return -log_likelihood
    if loss == "kl":
        return torch.xlogy(target, target).sum() - log_likelihood
    return torch.linalg.vector_norm(prediction - target, ord=int(loss[1]))
