"""Noise layers: a learned Θ[i, j] = P(given label j | true class i) between a network and the given labels.

With the network's p = softmax(z), a sample with the given label y costs -log (p Θ)_y. Only one column of Θ is asked for
that, so the functions below work with the ``columns`` log Θ[:, y] (B, c) of a batch:

    loss = -log Σ_i p_i Θ[i, y]        ∂loss/∂z = p - r        ∂loss/∂columns = -r        r_i = p_i Θ[i, y] / (p Θ)_y

where r is the belief about the true class from the input and the given label together. A column may hold -inf, for
classes that do not turn into y, as long as one of its entries is finite.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from permll.functional.transition import gold_transition


def adapted_loss(
    logits: Float[Tensor, "batch classes"], columns: Float[Tensor, "batch classes"]
) -> Float[Tensor, " batch"]:
    """Return -log (p Θ)_y of each sample.

    Examples:
        >>> log_theta = torch.tensor([[0.9, 0.1], [0.3, 0.7]]).log()
        >>> adapted_loss(torch.zeros(1, 2), label_columns(log_theta, torch.tensor([0]))).neg().exp()
        tensor([0.6000])
    """
    return -(logits.log_softmax(-1) + columns).logsumexp(-1)


def true_class_posterior(
    logits: Float[Tensor, "batch classes"], columns: Float[Tensor, "batch classes"]
) -> Float[Tensor, "batch classes"]:
    """Return r_i = P(true class i | input, given label y) of each sample.

    Examples:
        >>> log_theta = torch.tensor([[0.9, 0.1], [0.3, 0.7]]).log()
        >>> true_class_posterior(torch.zeros(1, 2), label_columns(log_theta, torch.tensor([0])))
        tensor([[0.7500, 0.2500]])
    """
    return (logits + columns).softmax(-1)


def label_columns(
    log_theta: Float[Tensor, "classes classes"], labels: Int[Tensor, " batch"]
) -> Float[Tensor, "batch classes"]:
    """Return log Θ[:, y] of each sample, for a Θ that all samples share.

    Examples:
        >>> label_columns(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1, 0]))
        tensor([[2., 4.],
                [1., 3.]])
    """
    return log_theta.T.index_select(0, labels)


def conditional_columns(
    features: Float[Tensor, "batch features"],
    u: Float[Tensor, "features classes kept"],
    b: Float[Tensor, "classes kept"],
    targets: Int[Tensor, "classes kept"],
    labels: Int[Tensor, " batch"],
) -> Float[Tensor, "batch classes"]:
    """Return log Θ[:, y] of each sample, for a Θ that depends on what the network sees in it.

        Θ[i, targets_ik] = softmax_k(<u_ik, h> + b_ik), and 0 for all other labels

    It takes the memory of all entries of all samples, O(B c k).

    Args:
        features: h.
        u: how each entry follows the features.
        b: the entries without them.
        targets: the k labels that each class can turn into, all different; with k = c, Θ is full.
        labels: y.

    Examples:
        >>> h, u, b = torch.ones(1, 3), torch.zeros(3, 2, 2), torch.tensor([[0.9, 0.1], [0.3, 0.7]]).log()
        >>> conditional_columns(h, u, b, torch.tensor([[0, 1], [0, 1]]), torch.tensor([1])).exp()
        tensor([[0.1000, 0.7000]])
    """
    classes, kept = targets.shape
    w = (features @ u.flatten(1)).view(-1, classes, kept) + b
    places = targets.new_full((classes, classes), -1)  # where row i keeps label j
    places.scatter_(1, targets, torch.arange(kept, device=targets.device).expand(classes, -1))
    place = places.T[labels]
    entry = w.gather(2, place.clamp_min(0)[..., None])[..., 0]
    return (entry - w.logsumexp(-1)).masked_fill(place < 0, -torch.inf)


def nearest_stochastic(matrix: Float[Tensor, "rows classes"], least: float = 0.0) -> Float[Tensor, "rows classes"]:
    """Return the nearest matrix whose rows sum to one and have no entry below ``least``.

    Each row becomes max(q - τ, least), with the one τ for which that sums to one.

    Examples:
        >>> nearest_stochastic(torch.tensor([[1.5, 0.5, -3.0], [0.2, 0.2, 0.2]]))
        tensor([[1.0000, 0.0000, 0.0000],
                [0.3333, 0.3333, 0.3333]])
    """
    classes = matrix.shape[1]
    room = 1 - classes * least
    if least < 0 or room <= 0:
        raise ValueError(f"least must lie in [0, 1/{classes}), got {least}.")
    shifted = matrix - least
    falling = shifted.sort(1, descending=True).values
    tau = (falling.cumsum(1) - room) / torch.arange(1, classes + 1, device=matrix.device)  # if so many stay above it
    above = (falling > tau).sum(1, keepdim=True)
    return (shifted - tau.gather(1, above - 1)).clamp_min(0) + least


def relationship_graph(
    probabilities: Float[Tensor, "rows classes"], labels: Int[Tensor, " rows"], kept: int
) -> Float[Tensor, "classes classes"]:
    """Return R[i, :]: what is predicted for easy rows labelled i on average, the ``kept`` strongest of it.

    Easy are the rows whose label is the one predicted; a label without any is related to itself alone.

    Examples:
        >>> p = torch.tensor([[0.6, 0.3, 0.1], [0.6, 0.2, 0.2], [0.1, 0.1, 0.8], [0.3, 0.1, 0.6]])
        >>> relationship_graph(p, torch.tensor([0, 0, 2, 1]), 2)
        tensor([[0.7059, 0.2941, 0.0000],
                [0.0000, 1.0000, 0.0000],
                [0.1111, 0.0000, 0.8889]], dtype=torch.float64)
    """
    easy = probabilities.argmax(1) == labels
    full = gold_transition(probabilities[easy], labels[easy])
    where = strongest_per_row(full, kept)
    graph = torch.zeros_like(full).scatter_(1, where, full.gather(1, where))
    return graph / graph.sum(1, keepdim=True)  # never by 0: an easy row's own label has 1/c or more


def strongest_per_row(matrix: Float[Tensor, "classes classes"], kept: int) -> Int[Tensor, "classes kept"]:
    """Return where each row has its largest entries, ``kept`` in all: the diagonal first, whatever it is.

    Examples:
        >>> strongest_per_row(torch.tensor([[0.2, 0.5, 0.3], [0.1, 0.6, 0.3], [0.4, 0.3, 0.3]]), 2)
        tensor([[0, 1],
                [1, 2],
                [2, 0]])
    """
    return matrix.clone().fill_diagonal_(torch.inf).topk(kept, dim=1).indices
