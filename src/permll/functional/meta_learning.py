"""Meta-learning of MLNT: consistency with a teacher after a gradient step on synthetic noisy labels.

Notation: θ the student's weights, θ_m = θ - η ∇CE(θ, ŷ_m) the weights after a step on the m-th set of synthetic labels,
q the predictions of a teacher, J_m = KL(q ‖ p(θ_m)) the meta loss.
"""

from collections.abc import Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from permll.functional._shapes import Labels, Logits, PerSample, Rows


def batch_nearest_neighbors(features: Float[Tensor, "batch features"], k: int) -> Int[Tensor, "batch neighbors"]:
    """Return the k nearest other rows of each row in a batch, or all others if there are fewer.

    Examples:
        >>> batch_nearest_neighbors(torch.tensor([[0.0], [1.0], [5.0]]), 1)
        tensor([[1],
                [0],
                [1]])
    """
    # The faster computation by matrix products would lose small distances between large features.
    distance = torch.cdist(features, features, compute_mode="donot_use_mm_for_euclid_dist").fill_diagonal_(torch.inf)
    return distance.topk(min(k, len(features) - 1), largest=False).indices


def synthetic_noisy_labels(
    labels: Labels,
    neighbors: Int[Tensor, "batch neighbors"],
    rows: Int[Tensor, " chosen"],
    picks: Int[Tensor, " chosen"],
) -> Labels:
    """Replace the labels of ``rows`` by the label of one neighbor each; ``picks`` are the columns in ``neighbors``.

    Examples:
        >>> neighbors = torch.tensor([[1, 2], [0, 2], [1, 0]])
        >>> synthetic_noisy_labels(torch.tensor([5, 6, 7]), neighbors, torch.tensor([0, 2]), torch.tensor([1, 0]))
        tensor([7, 6, 6])
    """
    return labels.index_copy(0, rows, labels[neighbors[rows, picks]])


def differentiable_sgd_step(
    loss: Float[Tensor, ""], parameters: Mapping[str, Tensor], lr: float, second_order: bool
) -> dict[str, Tensor]:
    """Return θ - η ∇loss by name, differentiable in θ; parameters that the loss does not depend on stay unchanged.

    Args:
        loss: scalar loss of the parameters; its graph is retained for further steps.
        parameters: θ.
        lr: η.
        second_order: whether to differentiate through ∇loss, or treat it as constant.

    Examples:
        >>> theta = torch.tensor(3.0, requires_grad=True)
        >>> for second_order in (True, False):
        ...     after = differentiable_sgd_step(theta.square(), {"theta": theta}, 0.1, second_order)["theta"]
        ...     print(round(after.item(), 4), torch.autograd.grad(after, theta)[0])
        2.4 tensor(0.8000)
        2.4 tensor(1.)
    """
    trainable = {name: value for name, value in parameters.items() if value.requires_grad}
    gradients = torch.autograd.grad(
        loss, list(trainable.values()), create_graph=second_order, retain_graph=True, allow_unused=True
    )
    return {
        **parameters,
        **{
            name: value - lr * gradient
            for (name, value), gradient in zip(trainable.items(), gradients, strict=True)
            if gradient is not None
        },
    }


def consistency_loss(logits: Logits, teacher_probs: Rows) -> PerSample:
    """Return KL(q ‖ softmax(z)) = Σ_k q_k (log q_k - log p_k) of each sample, q the teacher's predictions.

    Examples:
        >>> consistency_loss(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
        tensor([0.6931])
    """
    return nn.functional.kl_div(logits.log_softmax(-1), teacher_probs, reduction="none").sum(-1)
