"""Per-sample memories: averaged predictions (ELR) and estimated label noise (SOP).

Notation, as in the papers: ``y`` the given label, ``e_y`` its one-hot vector, ``p = softmax(logits)``, ``c`` the number
of classes; ``t`` the memory of ELR; ``s`` the noise of SOP, parametrized by ``u`` and ``v``.
"""

import torch
from torch import Tensor, nn

from permll.functional._shapes import Labels, Logits, PerSample, Rows

MIN_PROB = 1e-4  # clamp of probabilities in the code of both papers


def normalize_rows(rows: Rows, fallback: Rows) -> Rows:
    """Divide non-negative rows by their sums; rows of zeros are replaced by those of ``fallback``.

    Examples:
        >>> normalize_rows(torch.tensor([[1.0, 3.0], [0.0, 0.0]]), torch.eye(2))
        tensor([[0.2500, 0.7500],
                [0.0000, 1.0000]])
    """
    total = rows.sum(-1, keepdim=True)
    return torch.where(total > 0, rows / total.where(total > 0, 1.0), fallback)


# --- ELR: early-learning regularization -----------------------------------------------------------------------------


def elr_target(target: Rows, logits: Logits, beta: float) -> Rows:
    """Return the updated memory β t + (1 - β) p, without gradients.

    p is clamped to [1e-4, 1 - 1e-4] and normalized, so a memory that starts at zero sums to 1 - β^n after n updates.

    Examples:
        >>> elr_target(torch.zeros(1, 2), torch.zeros(1, 2), beta=0.7)
        tensor([[0.1500, 0.1500]])
    """
    p = _clamped(logits.detach())
    return beta * target + (1 - beta) * p / p.sum(-1, keepdim=True)


def elr_regularizer(target: Rows, logits: Logits) -> PerSample:
    """Return log(1 - <t, p>), which decreases as the prediction agrees with the memory.

    p is clamped to [1e-4, 1 - 1e-4], which bounds the logarithm below by log 1e-4. Within these bounds the gradient in
    logit k is p_k Σ_j (t_j - t_k) p_j / (1 - <t, p>).

    Examples:
        >>> elr_regularizer(torch.tensor([[0.5, 0.5]]), torch.zeros(1, 2))
        tensor([-0.6931])
    """
    return torch.log1p(-(target * _clamped(logits)).sum(-1))


def elr_reweighted_labels(labels: Rows, target: Rows) -> Rows:
    """Return y t / Σ_k y_k t_k, soft labels of mixup reweighted by the memory (ELR+).

    Labels stay unchanged where the memory is zero for all of their classes.

    Examples:
        >>> elr_reweighted_labels(torch.tensor([[0.5, 0.5, 0.0]]), torch.tensor([[0.1, 0.4, 0.5]]))
        tensor([[0.2000, 0.8000, 0.0000]])
    """
    return normalize_rows(labels * target, labels)


def _clamped(logits: Tensor) -> Tensor:
    return logits.softmax(-1).clamp(MIN_PROB, 1 - MIN_PROB)


# --- SOP: sparse over-parametrization -------------------------------------------------------------------------------


def sop_noise(u: PerSample, v: Rows, labels: Labels) -> Rows:
    """Return the label noise s = u² e_y - v² (1 - e_y): added to the given class, subtracted from the others.

    Args:
        u: (N,) one parameter per sample.
        v: (N, c) one parameter per class; that of the given class is not used.
        labels: (N,) given labels.

    Examples:
        >>> sop_noise(torch.tensor([0.5]), torch.tensor([[9.0, 0.1, 1.0]]), torch.tensor([0]))
        tensor([[ 0.2500, -0.0100, -1.0000]])
    """
    return (-v.square()).scatter(-1, labels[:, None], u.square()[:, None])


def sop_cross_entropy(logits: Logits, noise: Rows, labels: Labels) -> PerSample:
    """Return -log q_y, where q is p + s, clamped to at least 1e-4 and normalized.

    If no entry is clamped, q_y = (p_y + u²) / Z. The gradient in the logits is p_y / (p_y + u²) (p - e_y), a
    down-weighted gradient of cross-entropy, and the gradient in u is -2u (1 / (p_y + u²) - 1 / Z).

    Examples:
        >>> noise = torch.tensor([[0.5, -0.5]])
        >>> sop_cross_entropy(torch.zeros(1, 2), noise, torch.tensor([0])).exp()
        tensor([1.0001])
    """
    q = nn.functional.normalize((logits.softmax(-1) + noise).clamp_min(MIN_PROB), p=1.0, dim=-1)
    return -q.gather(-1, labels[:, None])[:, 0].clamp_min(MIN_PROB).log()


def sop_squared_error(logits: Logits, noise: Rows, labels: Labels) -> PerSample:
    """Return |e_k + s - e_y|², with k the predicted class: the loss of v.

    The gradient in v_j is -4 v_j (1[j = k] - v_j²) for j ≠ y, so -v_k² approaches -1 for a prediction k ≠ y.

    Examples:
        >>> logits, noise = torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, -0.5]])
        >>> sop_squared_error(logits, noise, torch.tensor([0]))
        tensor([0.2500])
    """
    predicted = torch.zeros_like(logits).scatter_(-1, logits.argmax(-1, keepdim=True), 1.0)
    return (predicted + noise).scatter_add(-1, labels[:, None], -torch.ones_like(logits[:, :1])).square().sum(-1)


def sop_corrected_labels(noise: Rows, labels: Labels) -> Rows:
    """Return e_y - s, the given labels without their noise, clamped at 0 and normalized; e_y where nothing remains.

    Examples:
        >>> sop_corrected_labels(torch.tensor([[0.75, -0.75], [1.0, 0.0]]), torch.tensor([0, 0]))
        tensor([[0.2500, 0.7500],
                [1.0000, 0.0000]])
    """
    one_hot = torch.zeros_like(noise).scatter_(-1, labels[:, None], 1.0)
    return normalize_rows((one_hot - noise).clamp_min(0.0), one_hot)
