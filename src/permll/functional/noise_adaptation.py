"""Noise adaptation layers: a learned Θ[i, j] = P(given label j | true class i) between a network and the given labels.

With p = softmax(z) the loss of a sample with given label y is -log (p Θ)_y. It uses one column of Θ, so the functions
below work with ``columns``, log Θ[:, y] (B, c) of a batch:

    loss = -log Σ_i p_i Θ[i, y]        ∂loss/∂z = p - r        ∂loss/∂columns = -r        r_i = p_i Θ[i, y] / (p Θ)_y

where r is the posterior of the true class given input and label. A column may contain -inf for classes that are never
labeled y, if at least one of its entries is finite.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from permll.functional._shapes import Labels, Logits, Matrix, PerSample, Rows
from permll.functional.transition import gold_transition


def noise_layer_loss(logits: Logits, columns: Rows) -> PerSample:
    """Return -log (p Θ)_y of each sample.

    Examples:
        >>> log_theta = torch.tensor([[0.9, 0.1], [0.3, 0.7]]).log()
        >>> noise_layer_loss(torch.zeros(1, 2), log_transition_columns(log_theta, torch.tensor([0]))).neg().exp()
        tensor([0.6000])
    """
    return -(logits.log_softmax(-1) + columns).logsumexp(-1)


def noise_layer_posterior(logits: Logits, columns: Rows) -> Rows:
    """Return r_i = P(true class i | input, given label y) of each sample.

    Examples:
        >>> log_theta = torch.tensor([[0.9, 0.1], [0.3, 0.7]]).log()
        >>> noise_layer_posterior(torch.zeros(1, 2), log_transition_columns(log_theta, torch.tensor([0])))
        tensor([[0.7500, 0.2500]])
    """
    return (logits + columns).softmax(-1)


def log_transition_columns(log_theta: Matrix, labels: Labels) -> Rows:
    """Return log Θ[:, y] of each sample, for one Θ shared by all samples.

    Examples:
        >>> log_transition_columns(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1, 0]))
        tensor([[2., 4.],
                [1., 3.]])
    """
    return log_theta.T.index_select(0, labels)


def conditional_transition_columns(
    features: Float[Tensor, "batch features"],
    u: Float[Tensor, "features classes k"],
    b: Float[Tensor, "classes k"],
    targets: Int[Tensor, "classes k"],
    labels: Labels,
) -> Rows:
    """Return log Θ[:, y] of each sample, for a Θ that depends on the network's features.

        Θ[i, targets_ik] = softmax_k(<u_ik, h> + b_ik), and 0 for all other labels

    It needs O(B c k) memory.

    Args:
        features: h.
        u: weights of the features.
        b: biases.
        targets: the k possible labels of each class, all different; with k = c, Θ is dense.
        labels: y.

    Examples:
        >>> h, u, b = torch.ones(1, 3), torch.zeros(3, 2, 2), torch.tensor([[0.9, 0.1], [0.3, 0.7]]).log()
        >>> conditional_transition_columns(h, u, b, torch.tensor([[0, 1], [0, 1]]), torch.tensor([1])).exp()
        tensor([[0.1000, 0.7000]])
    """
    classes, k = targets.shape
    w = (features @ u.flatten(1)).view(-1, classes, k) + b
    columns = targets.new_full((classes, classes), -1)  # column of label j in row i of ``targets``
    columns.scatter_(1, targets, torch.arange(k, device=targets.device).expand(classes, -1))
    column = columns.T[labels]
    entry = w.gather(2, column.clamp_min(0)[..., None])[..., 0]
    return (entry - w.logsumexp(-1)).masked_fill(column < 0, -torch.inf)


def project_to_stochastic(matrix: Rows, min_entry: float = 0.0) -> Rows:
    """Return the nearest matrix whose rows sum to one with entries of at least ``min_entry``.

    Each row becomes max(q - τ, min_entry), with the unique τ for which it sums to one.

    Examples:
        >>> project_to_stochastic(torch.tensor([[1.5, 0.5, -3.0], [0.2, 0.2, 0.2]]))
        tensor([[1.0000, 0.0000, 0.0000],
                [0.3333, 0.3333, 0.3333]])
    """
    classes = matrix.shape[1]
    budget = 1 - classes * min_entry
    if min_entry < 0 or budget <= 0:
        raise ValueError(f"min_entry must lie in [0, 1/{classes}), got {min_entry}.")
    shifted = matrix - min_entry
    descending = shifted.sort(1, descending=True).values
    counts = torch.arange(1, classes + 1, device=matrix.device)
    tau = (descending.cumsum(1) - budget) / counts  # for a support of the ``counts`` largest entries
    support = (descending > tau).sum(1, keepdim=True)
    return (shifted - tau.gather(1, support - 1)).clamp_min(0) + min_entry


def relationship_graph(probabilities: Rows, labels: Labels, k: int) -> Matrix:
    """Return R[i, :], the mean prediction of easy rows labeled i, restricted to its ``k`` largest entries.

    A row is easy if its label is predicted. A label without easy rows is related to itself only.

    Examples:
        >>> p = torch.tensor([[0.6, 0.3, 0.1], [0.6, 0.2, 0.2], [0.1, 0.1, 0.8], [0.3, 0.1, 0.6]])
        >>> relationship_graph(p, torch.tensor([0, 0, 2, 1]), 2)
        tensor([[0.7059, 0.2941, 0.0000],
                [0.0000, 1.0000, 0.0000],
                [0.1111, 0.0000, 0.8889]], dtype=torch.float64)
    """
    easy = probabilities.argmax(1) == labels
    full = gold_transition(probabilities[easy], labels[easy])
    top = top_k_per_row(full, k)
    graph = torch.zeros_like(full).scatter_(1, top, full.gather(1, top))
    return graph / graph.sum(1, keepdim=True)  # positive: the label of an easy row has a probability of at least 1/c


def top_k_per_row(matrix: Matrix, k: int) -> Int[Tensor, "classes k"]:
    """Return the columns of the k largest entries of each row; the diagonal always comes first.

    Examples:
        >>> top_k_per_row(torch.tensor([[0.2, 0.5, 0.3], [0.1, 0.6, 0.3], [0.4, 0.3, 0.3]]), 2)
        tensor([[0, 1],
                [1, 2],
                [2, 0]])
    """
    return matrix.clone().fill_diagonal_(torch.inf).topk(k, dim=1).indices
