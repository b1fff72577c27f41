"""Training that looks one step ahead: what would a step on somewhat wrong labels do to the network?

MLNT's letters: θ the student's weights, θ_m = θ - η ∇CE(θ, ŷ_m) the weights after a step on the m-th set of synthetic
labels, and a teacher whose predictions q the student should keep to all the same: J_m = KL(q ‖ p(θ_m)).
"""

import math
from collections.abc import Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor


def nearest_in_batch(features: Float[Tensor, "batch features"], k: int) -> Int[Tensor, "batch neighbors"]:
    """Return the k rows nearest to each row, itself left out; fewer in a batch that has fewer others.

    Examples:
        >>> nearest_in_batch(torch.tensor([[0.0], [1.0], [5.0]]), 1)
        tensor([[1],
                [0],
                [1]])
    """
    # The quick way, by a product of matrices, would lose small distances between large features.
    distance = torch.cdist(features, features, compute_mode="donot_use_mm_for_euclid_dist").fill_diagonal_(torch.inf)
    return distance.topk(min(k, len(features) - 1), largest=False).indices


def synthetic_labels(
    labels: Int[Tensor, " batch"],
    neighbors: Int[Tensor, "batch neighbors"],
    rows: Int[Tensor, " chosen"],
    picks: Int[Tensor, " chosen"],
) -> Int[Tensor, " batch"]:
    """Return the labels, with those of ``rows`` replaced by the label of a neighbor: of which, ``picks`` says.

    Examples:
        >>> neighbors = torch.tensor([[1, 2], [0, 2], [1, 0]])
        >>> synthetic_labels(torch.tensor([5, 6, 7]), neighbors, torch.tensor([0, 2]), torch.tensor([1, 0]))
        tensor([7, 6, 6])
    """
    return labels.index_copy(0, rows, labels[neighbors[rows, picks]])


def one_step(
    loss: Float[Tensor, ""], parameters: Mapping[str, Tensor], lr: float, second_order: bool
) -> dict[str, Tensor]:
    """Return θ - η ∇loss by name, differentiable in θ; parameters that the loss does not ask stay as they are.

    Args:
        loss: a number that depends on the parameters. Its graph is kept, for other steps from the same pass.
        parameters: θ.
        lr: η.
        second_order: whether gradients see that ∇loss depends on θ too, or take it for a constant.

    Examples:
        >>> theta = torch.tensor(3.0, requires_grad=True)
        >>> for second_order in (True, False):
        ...     after = one_step(theta.square(), {"theta": theta}, 0.1, second_order)["theta"]
        ...     print(round(after.item(), 4), torch.autograd.grad(after, theta)[0])
        2.4 tensor(0.8000)
        2.4 tensor(1.)
    """
    moving = {name: value for name, value in parameters.items() if value.requires_grad}
    gradients = torch.autograd.grad(
        loss, list(moving.values()), create_graph=second_order, retain_graph=True, allow_unused=True
    )
    return {
        **parameters,
        **{
            name: value - lr * gradient
            for (name, value), gradient in zip(moving.items(), gradients, strict=True)
            if gradient is not None
        },
    }


def consistency(
    logits: Float[Tensor, "batch classes"], teacher: Float[Tensor, "batch classes"]
) -> Float[Tensor, " batch"]:
    """Return KL(q ‖ softmax(z)) = Σ_k q_k (log q_k - log p_k) of each sample, from the teacher's predictions q.

    Examples:
        >>> consistency(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
        tensor([0.6931])
    """
    return (torch.special.xlogy(teacher, teacher) - teacher * logits.log_softmax(-1)).sum(-1)


def ramp_up(progress: float) -> float:
    """Return exp(-5 (1 - u)²) for u in [0, 1], which rises smoothly from almost 0 to 1; before and after, its ends.

    Examples:
        >>> [round(ramp_up(u), 4) for u in (0.0, 0.5, 1.0, 2.0)]
        [0.0067, 0.2865, 1.0, 1.0]
    """
    return math.exp(-5 * (1 - min(max(progress, 0.0), 1.0)) ** 2)
