"""Losses and estimators built on a transition matrix: which given labels each clean class turns into.

Letters, as in the papers: ``T[i, j] = P(given label j | clean class i)``, rows sum to one; ``z`` the logits and
``p = softmax(z)`` what the network believes of the clean class, so that ``p T`` is what it expects the given label to
be; ``y`` the given label; ``c`` the number of classes.

The losses need only the column ``T[:, y]`` of each sample, O(B c) in all.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

# --- Losses ---------------------------------------------------------------------------------------------------------


def forward_loss(
    logits: Float[Tensor, "batch classes"], labels: Int[Tensor, " batch"], T: Float[Tensor, "classes classes"]
) -> Float[Tensor, " batch"]:
    """Return -log (p T)_y (B,): the prediction goes forward through the noise. ∂/∂z = p - r, r = ``clean_posterior``.

    A label that no class turns into (a column of zeros) costs -log of the smallest number there is, and moves nothing.

    Examples:
        >>> T = torch.tensor([[0.5, 0.5], [0.0, 1.0]])
        >>> forward_loss(torch.tensor([[0.0, 0.0]]), torch.tensor([1]), T).exp()
        tensor([1.3333])
    """
    return -(logits.log_softmax(-1) + _log_column(T, labels)).logsumexp(-1)


def backward_loss(
    logits: Float[Tensor, "batch classes"],
    labels: Int[Tensor, " batch"],
    inverse: Float[Tensor, "classes classes"],
    floor: float = 1e-7,
) -> Float[Tensor, " batch"]:
    """Return -Σ_k T⁻¹[y, k] log p_k (B,): its mean over the noise is -log p at the clean class. ∂/∂z = p - T⁻¹[y, :].

    T⁻¹ has negative entries, and the loss falls without end as p_k vanishes there: only in those terms, p_k counts as
    ``floor`` at least.

    Args:
        logits: (B, c).
        labels: (B,) as given.
        inverse: (c, c), T⁻¹ as ``inverse_transition`` gives it.
        floor: of p_k where T⁻¹[y, k] is negative.

    Examples:
        >>> inverse = inverse_transition(torch.tensor([[0.75, 0.25], [0.25, 0.75]]))
        >>> inverse
        tensor([[ 1.5000, -0.5000],
                [-0.5000,  1.5000]])
        >>> backward_loss(torch.tensor([[100.0, 0.0]]), torch.tensor([0]), inverse)
        tensor([-8.0590])
    """
    log_p, weights = logits.log_softmax(-1), inverse[labels]
    return -(weights * log_p.where(weights >= 0, log_p.clamp_min(math.log(floor)))).sum(-1)


def importance_weights(
    logits: Float[Tensor, "batch classes"],
    labels: Int[Tensor, " batch"],
    T: Float[Tensor, "classes classes"],
    limit: float = 100.0,
) -> Float[Tensor, " batch"]:
    """Return β = p_y / (p T)_y (B,): how much likelier the label is among clean ones than among given ones.

    β is at most 1 / T[y, y] if T has no negative entries. A matrix that is learned freely may have some: whatever it
    is, β lies in [0, ``limit``].

    Examples:
        >>> T = torch.tensor([[0.5, 0.5], [0.0, 1.0]])
        >>> importance_weights(torch.tensor([[0.0, 0.0], [0.0, 0.0]]), torch.tensor([0, 1]), T)
        tensor([2.0000, 0.6667])
    """
    p = logits.softmax(-1)
    clean, given = p.gather(1, labels[:, None])[:, 0], (p * T.T[labels]).sum(-1)
    return clean / torch.maximum(given, clean / limit).clamp_min(torch.finfo(p.dtype).tiny)


def clean_posterior(
    logits: Float[Tensor, "batch classes"], labels: Int[Tensor, " batch"], T: Float[Tensor, "classes classes"]
) -> Float[Tensor, "batch classes"]:
    """Return r_i = p_i T[i, y] / Σ_k p_k T[k, y] (B, c): the belief about the clean class from input and given label.

    A label that no class turns into says nothing: r = p.

    Examples:
        >>> T = torch.tensor([[0.5, 0.5], [0.0, 1.0]])
        >>> clean_posterior(torch.tensor([[0.0, 0.0], [0.0, 0.0]]), torch.tensor([0, 1]), T)
        tensor([[1.0000, 0.0000],
                [0.3333, 0.6667]])
    """
    return (logits + _log_column(T, labels)).softmax(-1)


# --- Estimators -----------------------------------------------------------------------------------------------------


def anchor_rows(probabilities: Float[Tensor, "rows classes"], quantile: float = 0.97) -> Int[Tensor, " classes"]:
    """Return for each class i the row (c,) that belongs to it beyond doubt: the one with the largest p_i.

    The very largest may be outliers: those at or above the ``quantile`` of p_i are passed over, by rank, so that equal
    values do no harm. A class that is predicted for no more rows than would be passed over keeps them all; otherwise
    its anchor would belong to another class. So it is with a hundred classes of equal size, and 0.97.

    Args:
        probabilities: (N, c) of a network trained on the given labels.
        quantile: 1 passes nothing over.

    Examples:
        >>> p = torch.tensor([[0.9, 0.1], [0.7, 0.3], [0.6, 0.4], [0.3, 0.7]])
        >>> anchor_rows(p, quantile=1.0), anchor_rows(p, quantile=0.9)
        (tensor([0, 3]), tensor([1, 3]))
    """
    anchors = probabilities.argmax(0)
    if quantile < 1:
        count, classes = probabilities.shape
        passed_over = count - math.ceil(quantile * (count - 1))
        predicted = probabilities.argmax(1).bincount(minlength=classes)
        for i in (predicted > passed_over).nonzero()[:, 0].tolist():
            anchors[i] = probabilities[:, i].argsort(descending=True, stable=True)[passed_over]
    return anchors


def anchor_transition(
    probabilities: Float[Tensor, "rows classes"], quantile: float = 0.97
) -> Float[Tensor, "classes classes"]:
    """Return T[i, :] = p(anchor of class i): where the class is certain, only noise spreads the prediction.

    Args:
        probabilities: (N, c) of a network trained on the given labels.
        quantile: as ``anchor_rows`` takes it.

    Examples:
        >>> anchor_transition(torch.tensor([[0.75, 0.25], [0.5, 0.5], [0.0, 1.0]]), quantile=1.0)
        tensor([[0.7500, 0.2500],
                [0.0000, 1.0000]])
    """
    T = probabilities[anchor_rows(probabilities, quantile)]
    return T / T.sum(1, keepdim=True)


def confusion_transition(
    predicted: Int[Tensor, " rows"], labels: Int[Tensor, " rows"], num_classes: int
) -> Float[Tensor, "classes classes"]:
    """Return S[l, j] = #(predicted l, given j) / #(predicted l) (c, c), float64.

    A class that is never predicted gets a row of the identity.

    Examples:
        >>> confusion_transition(torch.tensor([0, 0, 2]), torch.tensor([0, 1, 2]), 3)
        tensor([[0.5000, 0.5000, 0.0000],
                [0.0000, 1.0000, 0.0000],
                [0.0000, 0.0000, 1.0000]], dtype=torch.float64)
    """
    counts = (predicted * num_classes + labels).bincount(minlength=num_classes**2).view(num_classes, num_classes)
    return _by_row(counts.double(), counts.sum(1))


def dual_transition(
    probabilities: Float[Tensor, "rows classes"], labels: Int[Tensor, " rows"], quantile: float = 0.97
) -> Float[Tensor, "classes classes"]:
    """Return T = A S (c, c), float64: from clean classes to predictions by anchors, from there to labels by counts.

    T[i, j] = Σ_l P(predicted l | clean i) P(given j | predicted l), with A from ``anchor_transition`` and S from
    ``confusion_transition``: counts have no share in the error that the anchors' probabilities have.

    Examples:
        >>> p = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> dual_transition(p, torch.tensor([0, 1, 1]), quantile=1.0)
        tensor([[0.5000, 0.5000],
                [0.0000, 1.0000]], dtype=torch.float64)
    """
    S = confusion_transition(probabilities.argmax(1), labels, probabilities.shape[1])
    return anchor_transition(probabilities, quantile).double() @ S


def gold_transition(
    probabilities: Float[Tensor, "rows classes"], labels: Int[Tensor, " rows"]
) -> Float[Tensor, "classes classes"]:
    """Return T[i, :] = the mean of p over rows whose label i is known to be right (c, c), float64.

    A class without such rows gets a row of the identity.

    Args:
        probabilities: (n, c) of a network trained on the other rows' given labels.
        labels: (n,) known to be right.

    Examples:
        >>> gold_transition(torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([0, 0]))
        tensor([[0.7500, 0.2500],
                [0.0000, 1.0000]], dtype=torch.float64)
    """
    classes = probabilities.shape[1]
    sums = probabilities.new_zeros(classes, classes, dtype=torch.float64).index_add_(0, labels, probabilities.double())
    return _by_row(sums, labels.bincount(minlength=classes))


# --- The matrix itself ----------------------------------------------------------------------------------------------


def inverse_transition(T: Float[Tensor, "classes classes"], rtol: float = 1e-3) -> Float[Tensor, "classes classes"]:
    """Return T⁻¹, or the pseudo-inverse without the directions that T shrinks to below ``rtol`` of the largest.

    Classes with the same row of T cannot be told apart, and an estimated T may have two that are nearly the same: its
    inverse would be huge, and so would every loss.

    Examples:
        >>> inverse_transition(torch.tensor([[0.5, 0.5], [0.5, 0.5]]))
        tensor([[0.5000, 0.5000],
                [0.5000, 0.5000]])
    """
    return torch.linalg.pinv(T.double(), rtol=rtol).to(T.dtype)


def condition_number(T: Float[Tensor, "classes classes"]) -> float:
    """Return the largest singular value of T by the smallest: how much T⁻¹ magnifies errors; infinite if singular.

    Examples:
        >>> round(condition_number(torch.tensor([[0.75, 0.25], [0.25, 0.75]])), 6)
        2.0
    """
    return torch.linalg.cond(T.double()).item()


def _log_column(T: Tensor, labels: Tensor) -> Tensor:
    """Return log T[:, y] (B, c), the same finite number throughout where the column is all zeros."""
    column = T.T[labels]
    return column.where(column.any(1, keepdim=True), torch.finfo(T.dtype).tiny).log()


def _by_row(sums: Tensor, counts: Tensor) -> Tensor:
    """Return each row of sums by its count; with a count of zero, the row of the identity."""
    return torch.where(counts[:, None] > 0, sums / counts.clamp_min(1)[:, None], torch.eye(len(sums)).to(sums))
