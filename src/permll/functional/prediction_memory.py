"""Memories: what the network said of each sample (ELR), and how its label seems to be wrong (SOP).

Letters, as in the papers: ``y`` the given label, ``e_y`` its one-hot form, ``p = softmax(logits)``, ``c`` the number of
classes; ``t`` the memory of ELR; ``s`` the noise of SOP, which ``u`` and ``v`` make.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

FLOOR = 1e-4  # what both papers' authors keep probabilities away from 0 (and in ELR from 1) by


def in_order(index: Int[Tensor, " batch"]) -> tuple[Int[Tensor, " visits"], ...]:
    """Return the places in a batch of all first visits, then of all second ones, and so on.

    A memory that is written part by part comes out as if every visit had had a batch of its own.

    Args:
        index: (B,) which sample each place visits.

    Examples:
        >>> in_order(torch.tensor([7, 3, 7, 5]))
        (tensor([0, 1, 3]), tensor([2]))
    """
    order = index.argsort(stable=True)
    visited = index[order]
    number = torch.empty_like(index)
    number[order] = torch.arange(len(index), device=index.device) - torch.searchsorted(visited, visited)
    times = int(number.max()) + 1 if len(index) else 0
    return tuple((number == n).nonzero()[:, 0] for n in range(times))


def normalized(
    rows: Float[Tensor, "rows classes"], otherwise: Float[Tensor, "rows classes"]
) -> Float[Tensor, "rows classes"]:
    """Return rows of nothing negative, each divided by its sum; in place of a row of zeros, that of ``otherwise``.

    Examples:
        >>> normalized(torch.tensor([[1.0, 3.0], [0.0, 0.0]]), torch.eye(2))
        tensor([[0.2500, 0.7500],
                [0.0000, 1.0000]])
    """
    total = rows.sum(-1, keepdim=True)
    return torch.where(total > 0, rows / total.where(total > 0, 1.0), otherwise)


# --- ELR: early-learning regularisation ----------------------------------------------------------------------------


def elr_target(
    target: Float[Tensor, "batch classes"], logits: Float[Tensor, "batch classes"], beta: float
) -> Float[Tensor, "batch classes"]:
    """Return the memory after a visit, β t + (1 - β) p, without gradients.

    p is kept within [1e-4, 1 - 1e-4] and divided by its sum, so a memory that begins with zeros sums to 1 - β^n after n
    visits.

    Examples:
        >>> elr_target(torch.zeros(1, 2), torch.zeros(1, 2), beta=0.7)
        tensor([[0.1500, 0.1500]])
    """
    p = _clamped(logits.detach())
    return beta * target + (1 - beta) * p / p.sum(-1, keepdim=True)


def elr_regularizer(
    target: Float[Tensor, "batch classes"], logits: Float[Tensor, "batch classes"]
) -> Float[Tensor, " batch"]:
    """Return log(1 - <t, p>), which falls as the prediction agrees with the memory.

    p is kept within [1e-4, 1 - 1e-4], so that the logarithm is that of 1e-4 at least. Within these bounds the gradient
    in logit k is p_k Σ_j (t_j - t_k) p_j / (1 - <t, p>).

    Examples:
        >>> elr_regularizer(torch.tensor([[0.5, 0.5]]), torch.zeros(1, 2))
        tensor([-0.6931])
    """
    return torch.log1p(-(target * _clamped(logits)).sum(-1))


def supported_labels(
    labels: Float[Tensor, "batch classes"], target: Float[Tensor, "batch classes"]
) -> Float[Tensor, "batch classes"]:
    """Return y t / Σ_k y_k t_k of soft labels y: of the classes of a blend, the one that the memory knows gains.

    Where the memory knows none of them, the label stays as it is. One class alone stays so too.

    Examples:
        >>> supported_labels(torch.tensor([[0.5, 0.5, 0.0]]), torch.tensor([[0.1, 0.4, 0.5]]))
        tensor([[0.2000, 0.8000, 0.0000]])
    """
    return normalized(labels * target, labels)


def _clamped(logits: Tensor) -> Tensor:
    return logits.softmax(-1).clamp(FLOOR, 1 - FLOOR)


# --- SOP: sparse over-parameterisation -----------------------------------------------------------------------------


def sop_noise(
    u: Float[Tensor, " rows"], v: Float[Tensor, "rows classes"], labels: Int[Tensor, " rows"]
) -> Float[Tensor, "rows classes"]:
    """Return s = u² e_y - v² (1 - e_y): what the noise has added to the given class and taken from the others.

    Args:
        u: (N,) one number for each sample.
        v: (N, c) one for each of its classes; that of the given class has no say.
        labels: (N,).

    Examples:
        >>> sop_noise(torch.tensor([0.5]), torch.tensor([[9.0, 0.1, 1.0]]), torch.tensor([0]))
        tensor([[ 0.2500, -0.0100, -1.0000]])
    """
    return (-v.square()).scatter(-1, labels[:, None], u.square()[:, None])


def sop_cross_entropy(
    logits: Float[Tensor, "batch classes"], noise: Float[Tensor, "batch classes"], labels: Int[Tensor, " batch"]
) -> Float[Tensor, " batch"]:
    """Return -log q_y, where q is p + s, kept above 1e-4 and divided by its sum.

    With no entry at the floor, q_y = (p_y + u²) / Z: the gradient in the logits is p_y / (p_y + u²) (p - e_y), that of
    cross-entropy with less and less weight, and the gradient in u is -2u (1 / (p_y + u²) - 1 / Z).

    Examples:
        >>> noise = torch.tensor([[0.5, -0.5]])
        >>> sop_cross_entropy(torch.zeros(1, 2), noise, torch.tensor([0])).exp()
        tensor([1.0001])
    """
    q = nn.functional.normalize((logits.softmax(-1) + noise).clamp_min(FLOOR), p=1.0, dim=-1)
    return -q.gather(-1, labels[:, None])[:, 0].clamp_min(FLOOR).log()


def sop_squared_error(
    logits: Float[Tensor, "batch classes"], noise: Float[Tensor, "batch classes"], labels: Int[Tensor, " batch"]
) -> Float[Tensor, " batch"]:
    """Return |e_k + s - e_y|², where k is the class the network would choose: what v learns by.

    The gradient in v_j is -4 v_j (1[j = k] - v_j²) for j ≠ y: -v_k² grows until it takes all of the prediction away.

    Examples:
        >>> logits, noise = torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, -0.5]])
        >>> sop_squared_error(logits, noise, torch.tensor([0]))
        tensor([0.2500])
    """
    chosen = torch.zeros_like(logits).scatter_(-1, logits.argmax(-1, keepdim=True), 1.0)
    return (chosen + noise).scatter_add(-1, labels[:, None], -torch.ones_like(logits[:, :1])).square().sum(-1)


def sop_labels(noise: Float[Tensor, "rows classes"], labels: Int[Tensor, " rows"]) -> Float[Tensor, "rows classes"]:
    """Return e_y - s, what remains of the given labels without their noise, as probabilities.

    Nothing negative is kept, and rows are divided by their sum; where nothing remains, the label is the given one.

    Examples:
        >>> sop_labels(torch.tensor([[0.75, -0.75], [1.0, 0.0]]), torch.tensor([0, 0]))
        tensor([[0.2500, 0.7500],
                [1.0000, 0.0000]])
    """
    given = torch.zeros_like(noise).scatter_(-1, labels[:, None], 1.0)
    return normalized((given - noise).clamp_min(0.0), given)
