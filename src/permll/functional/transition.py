"""Transition matrices: corrected losses, estimators and inverse.

Notation, as in the papers: ``T[i, j] = P(given label j | clean class i)``, rows sum to one; ``z`` the logits;
``p = softmax(z)`` the prediction of the clean class, so that ``p T`` predicts the given label; ``y`` the given label;
``c`` the number of classes.

The losses use only the column ``T[:, y]`` of each sample, O(B c) in all.
"""

import math

import torch
from jaxtyping import Int
from torch import Tensor

from permll.functional._shapes import Labels, Logits, Matrix, PerSample, Rows

# --- Losses ---------------------------------------------------------------------------------------------------------


def forward_correction_loss(logits: Logits, labels: Labels, T: Matrix) -> PerSample:
    """Return -log (p T)_y (B,), forward correction. ∂/∂z = p - r with r = ``clean_posterior``.

    A label of probability 0 for every class (a zero column of T) has a large constant loss and no gradient.

    Examples:
        >>> T = torch.tensor([[0.5, 0.5], [0.0, 1.0]])
        >>> forward_correction_loss(torch.tensor([[0.0, 0.0]]), torch.tensor([1]), T).exp()
        tensor([1.3333])
    """
    return -(logits.log_softmax(-1) + _log_column(T, labels)).logsumexp(-1)


def backward_correction_loss(logits: Logits, labels: Labels, inverse: Matrix, min_prob: float = 1e-7) -> PerSample:
    """Return -Σ_k T⁻¹[y, k] log p_k (B,), backward correction. ∂/∂z = p - T⁻¹[y, :].

    Its expectation over the noise is -log p at the clean class. T⁻¹ has negative entries, for which the loss is
    unbounded below as p_k vanishes; in these terms p_k is clamped to at least ``min_prob``.

    Args:
        logits: (B, c).
        labels: (B,) given labels.
        inverse: (c, c) T⁻¹ from ``inverse_transition``.
        min_prob: lower bound of p_k where T⁻¹[y, k] is negative.

    Examples:
        >>> inverse = inverse_transition(torch.tensor([[0.75, 0.25], [0.25, 0.75]]))
        >>> inverse
        tensor([[ 1.5000, -0.5000],
                [-0.5000,  1.5000]])
        >>> backward_correction_loss(torch.tensor([[100.0, 0.0]]), torch.tensor([0]), inverse)
        tensor([-8.0590])
    """
    log_p, weights = logits.log_softmax(-1), inverse[labels]
    return -(weights * log_p.where(weights >= 0, log_p.clamp_min(math.log(min_prob)))).sum(-1)


def importance_weights(logits: Logits, labels: Labels, T: Matrix, max_weight: float = 100.0) -> PerSample:
    """Return β = p_y / (p T)_y (B,), clipped to [0, ``max_weight``]: the ratio of clean and noisy label probabilities.

    β is at most 1 / T[y, y] if T has no negative entries, which a freely learned matrix may have.

    Examples:
        >>> T = torch.tensor([[0.5, 0.5], [0.0, 1.0]])
        >>> importance_weights(torch.tensor([[0.0, 0.0], [0.0, 0.0]]), torch.tensor([0, 1]), T)
        tensor([2.0000, 0.6667])
    """
    p = logits.softmax(-1)
    clean, noisy = p.gather(1, labels[:, None])[:, 0], (p * T.T[labels]).sum(-1)
    return clean / torch.maximum(noisy, clean / max_weight).clamp_min(torch.finfo(p.dtype).tiny)


def clean_posterior(logits: Logits, labels: Labels, T: Matrix) -> Rows:
    """Return r_i = p_i T[i, y] / Σ_k p_k T[k, y] (B, c), the posterior of the clean class given input and label.

    For a zero column of T, r = p.

    Examples:
        >>> T = torch.tensor([[0.5, 0.5], [0.0, 1.0]])
        >>> clean_posterior(torch.tensor([[0.0, 0.0], [0.0, 0.0]]), torch.tensor([0, 1]), T)
        tensor([[1.0000, 0.0000],
                [0.3333, 0.6667]])
    """
    return (logits + _log_column(T, labels)).softmax(-1)


# --- Estimators -----------------------------------------------------------------------------------------------------


def anchor_indices(probabilities: Rows, quantile: float = 0.97) -> Int[Tensor, " classes"]:
    """Return the anchor point of each class (c,): the row with the largest p_i, outliers excluded.

    Rows at or above the ``quantile`` of p_i are skipped as outliers; they are counted by position in the sorted order,
    which handles ties. Nothing is skipped for a class that is predicted for at most as many rows as would be skipped,
    since its anchor would belong to another class. This occurs with 100 classes of equal size and 0.97.

    Args:
        probabilities: (N, c) predictions of a network trained on the given labels.
        quantile: 1 skips nothing.

    Examples:
        >>> p = torch.tensor([[0.9, 0.1], [0.7, 0.3], [0.6, 0.4], [0.3, 0.7]])
        >>> anchor_indices(p, quantile=1.0), anchor_indices(p, quantile=0.9)
        (tensor([0, 3]), tensor([1, 3]))
    """
    anchors = probabilities.argmax(0)
    if quantile < 1:
        count, classes = probabilities.shape
        skipped = count - math.ceil(quantile * (count - 1))
        predicted = probabilities.argmax(1).bincount(minlength=classes)
        for i in (predicted > skipped).nonzero()[:, 0].tolist():
            anchors[i] = probabilities[:, i].argsort(descending=True, stable=True)[skipped]
    return anchors


def anchor_transition(probabilities: Rows, quantile: float = 0.97) -> Matrix:
    """Return T[i, :] = p(anchor of class i): at a sample of known class, the prediction is the noise distribution.

    Args:
        probabilities: (N, c) predictions of a network trained on the given labels.
        quantile: see ``anchor_indices``.

    Examples:
        >>> anchor_transition(torch.tensor([[0.75, 0.25], [0.5, 0.5], [0.0, 1.0]]), quantile=1.0)
        tensor([[0.7500, 0.2500],
                [0.0000, 1.0000]])
    """
    T = probabilities[anchor_indices(probabilities, quantile)]
    return T / T.sum(1, keepdim=True)


def confusion_transition(predicted: Labels, labels: Labels, num_classes: int) -> Matrix:
    """Return S[l, j] = #(predicted l, given j) / #(predicted l) (c, c), float64.

    The row of a class that is never predicted is that of the identity.

    Examples:
        >>> confusion_transition(torch.tensor([0, 0, 2]), torch.tensor([0, 1, 2]), 3)
        tensor([[0.5000, 0.5000, 0.0000],
                [0.0000, 1.0000, 0.0000],
                [0.0000, 0.0000, 1.0000]], dtype=torch.float64)
    """
    counts = (predicted * num_classes + labels).bincount(minlength=num_classes**2).view(num_classes, num_classes)
    return _divide_rows(counts.double(), counts.sum(1))


def dual_transition(probabilities: Rows, labels: Labels, quantile: float = 0.97) -> Matrix:
    """Return Dual T, T = A S (c, c), float64, with A from ``anchor_transition`` and S from ``confusion_transition``.

    T[i, j] = Σ_l P(predicted l | clean i) P(given j | predicted l). The counts in S are free of the estimation error of
    probabilities at anchors.

    Examples:
        >>> p = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> dual_transition(p, torch.tensor([0, 1, 1]), quantile=1.0)
        tensor([[0.5000, 0.5000],
                [0.0000, 1.0000]], dtype=torch.float64)
    """
    S = confusion_transition(probabilities.argmax(1), labels, probabilities.shape[1])
    return anchor_transition(probabilities, quantile).double() @ S


def gold_transition(probabilities: Rows, labels: Labels) -> Matrix:
    """Return T[i, :], the mean of p over trusted rows of class i (c, c), float64.

    The row of a class without trusted rows is that of the identity.

    Args:
        probabilities: (n, c) predictions for the trusted rows of a network trained on the other rows.
        labels: (n,) trusted labels.

    Examples:
        >>> gold_transition(torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([0, 0]))
        tensor([[0.7500, 0.2500],
                [0.0000, 1.0000]], dtype=torch.float64)
    """
    classes = probabilities.shape[1]
    sums = probabilities.new_zeros(classes, classes, dtype=torch.float64).index_add_(0, labels, probabilities.double())
    return _divide_rows(sums, labels.bincount(minlength=classes))


# --- The matrix itself ----------------------------------------------------------------------------------------------


def inverse_transition(T: Matrix, rtol: float = 1e-3) -> Matrix:
    """Return the pseudo-inverse of T without singular values below ``rtol`` times the largest.

    An estimated T may have two nearly equal rows, and the entries of its inverse would be huge.

    Examples:
        >>> inverse_transition(torch.tensor([[0.5, 0.5], [0.5, 0.5]]))
        tensor([[0.5000, 0.5000],
                [0.5000, 0.5000]])
    """
    return torch.linalg.pinv(T.double(), rtol=rtol).to(T.dtype)


def condition_number(T: Matrix) -> float:
    """Return the condition number of T, infinite if T is singular.

    Examples:
        >>> round(condition_number(torch.tensor([[0.75, 0.25], [0.25, 0.75]])), 6)
        2.0
    """
    return torch.linalg.cond(T.double()).item()


def _log_column(T: Tensor, labels: Tensor) -> Tensor:
    """Return log T[:, y] (B, c), a finite constant for zero columns."""
    column = T.T[labels]
    return column.where(column.any(1, keepdim=True), torch.finfo(T.dtype).tiny).log()


def _divide_rows(sums: Tensor, counts: Tensor) -> Tensor:
    """Divide each row by its count; rows with a count of zero become those of the identity."""
    return torch.where(counts[:, None] > 0, sums / counts.clamp_min(1)[:, None], torch.eye(len(sums)).to(sums))
