"""Closed forms of the permutation layer: loss and gradients, with the paper's equation numbers.

Notation, as in the paper: ``y`` the given label, ``α`` the parameters of a sample, ``a = softmax(α)``, ``z`` the
logits, ``p = softmax(z)``, ``c`` the number of classes. The layer of Definition 1, ``P̄ = Σ_k a_k P(y, k)``, swaps the
given label with class k with weight a_k. It can be applied without a c x c matrix:

    (P̄ p)_y = <a, p>                (P̄ p)_j = a_j p_y + (1 - a_j) p_j     (j ≠ y)
    (P̄ e_y) = a                                                           (Proposition 1)

Eq. (1) compares p with the corrected label P̄ e_y (``on="label"``). Eq. (2) compares the permuted prediction P̄ p with
e_y (``on="prediction"``). Each loss below returns per-sample values and both gradients in O(B c). ``reference.py`` has
the definition with explicit matrices; the tests compare the two.
"""

import math
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

Rows = Float[Tensor, "batch classes"]
Labels = Int[Tensor, " batch"]
Side = Literal["prediction", "label"]
LossName = Literal["ce", "kl", "l1", "l2"]
SIDES: tuple[Side, ...] = get_args(Side)
LOSSES: tuple[LossName, ...] = get_args(LossName)


class LossAndGrads(NamedTuple):
    """Corrected loss of each sample, and its gradients in the logits and in α."""

    loss: Float[Tensor, " batch"]
    grad_logits: Rows
    grad_alpha: Rows


def initial_label_logit(num_classes: int, init: float) -> float:
    """Return g = log(m (c-1) / (1-m)), the entry of α at the given label that gives it the weight m = ``init``.

    Examples:
        >>> round(initial_label_logit(10, 0.35), 3)
        1.578
    """
    return math.log(init * (num_classes - 1) / (1 - init))


def initial_alpha(
    labels: Int[Tensor, " rows"], num_classes: int, init: float, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "rows classes"]:
    """Return the paper's initial α: softmax(α)_y = ``init``, equal weights elsewhere; α is 0 except at the given label.

    Examples:
        >>> initial_alpha(torch.tensor([2]), 3, 0.5).softmax(-1)
        tensor([[0.2500, 0.2500, 0.5000]])
    """
    alpha = torch.zeros(len(labels), num_classes, dtype=dtype, device=labels.device)
    return alpha.scatter_(1, labels[:, None], initial_label_logit(num_classes, init))


def permuted_prediction(alpha: Rows, probabilities: Rows, labels: Labels) -> Rows:
    """Return P̄ p, Definition 1 applied to a prediction, without building P̄.

    Examples:
        >>> p = torch.tensor([[0.7, 0.2, 0.1]])
        >>> swap_0_and_1 = torch.tensor([[-50.0, 0.0, -50.0]])
        >>> permuted_prediction(swap_0_and_1, p, torch.tensor([0]))
        tensor([[0.2000, 0.7000, 0.1000]])
    """
    return _permuted(alpha.softmax(-1), probabilities, labels[:, None])


def layer_matrix(alpha: Float[Tensor, " classes"], label: int) -> Float[Tensor, "classes classes"]:
    """Return P̄ of one sample: a in row and column y, 1 - a on the rest of the diagonal.

    Examples:
        >>> layer_matrix(torch.tensor([0.0, 0.0, -torch.inf]), 0)
        tensor([[0.5000, 0.5000, 0.0000],
                [0.5000, 0.5000, 0.0000],
                [0.0000, 0.0000, 1.0000]])
    """
    a = alpha.softmax(-1)
    matrix = torch.diag(1 - a)
    matrix[label], matrix[:, label] = a, a
    return matrix


def posterior(alpha: Rows, logits: Rows) -> Rows:
    """Return r = softmax(α + z), the posterior of the true class given the input and the given label.

    It is the soft target of the network in eq. (2) with cross-entropy. Its entry at the given label is the label's
    quality, its largest entry the proposed label.
    """
    return (alpha + logits).softmax(-1)


def softmax(rows: Rows) -> Rows:
    """Return the softmax of each row; for few classes on the CPU several times faster than PyTorch's kernel.

    Examples:
        >>> softmax(torch.tensor([[0.0, 0.0], [800.0, 0.0]]))
        tensor([[0.5000, 0.5000],
                [1.0000, 0.0000]])
    """
    return normalize((rows - rows.amax(-1, keepdim=True)).exp_())


def normalize(rows: Float[Tensor, "... classes"]) -> Float[Tensor, "... classes"]:
    """Divide rows of positive numbers by their sums, in place."""
    return rows.div_(rows.sum(-1, keepdim=True))


# --- Eq. (2): the layer on the prediction, ℓ(P̄ p, e_y) -------------------------------------------------------------


def prediction_ce(alpha: Rows, logits: Rows, labels: Labels | None = None) -> LossAndGrads:  # noqa: ARG001
    """Return -log <a, p>; with r = a p / <a, p>: ∂/∂z = p - r, ∂/∂α = a - r. It equals KL(e_y || P̄ p)."""
    a, p = alpha.softmax(-1), logits.softmax(-1)
    # <a, p> >= min(a), so it vanishes only where exp(α) underflows in its dtype.
    a = a.clamp_min_(torch.finfo(a.dtype).tiny)
    joint = a * p
    evidence = joint.sum(-1, keepdim=True)
    grad_logits = p.addcdiv_(joint, evidence, value=-1)  # in place, without materializing r
    return LossAndGrads(evidence.squeeze(-1).log().neg_(), grad_logits, a.addcdiv_(joint, evidence, value=-1))


def prediction_l1(alpha: Rows, logits: Rows, labels: Labels | None = None) -> LossAndGrads:  # noqa: ARG001
    """Return ‖P̄ p - e_y‖₁ = 2 (1 - <a, p>)."""
    a, p = alpha.softmax(-1), logits.softmax(-1)
    loss = 2 * (1 - (a * p).sum(-1))
    return LossAndGrads(loss, _through_softmax(p, -2 * a), _through_softmax(a, -2 * p))


def prediction_l2(alpha: Rows, logits: Rows, labels: Labels) -> LossAndGrads:
    """Return ‖P̄ p - e_y‖₂ (the norm, not its square)."""
    a, p, y = alpha.softmax(-1), logits.softmax(-1), labels[:, None]
    loss, v = _norm_and_direction(_permuted(a, p, y).sub_(_one_hot(p, y)))  # v = ∂ℓ/∂(P̄ p)
    v_y = v.gather(-1, y)
    grad_a = v_y * p + v * (p.gather(-1, y) - p)
    grad_p = v_y * a + v * (1 - a)
    # Every other entry (P̄ p)_j contains a_j p_y, so all of them depend on p_y.
    grad_p = grad_p.scatter(-1, y, (v * a).sum(-1, keepdim=True))
    return LossAndGrads(loss, _through_softmax(p, grad_p), _through_softmax(a, grad_a))


# --- Eq. (1): the layer on the label, ℓ(p, P̄ e_y) = ℓ(p, a) by Proposition 1 ---------------------------------------


def label_ce(alpha: Rows, logits: Rows, labels: Labels | None = None) -> LossAndGrads:  # noqa: ARG001
    """Return -Σ_k a_k log p_k, which by Jensen's inequality is at least ``prediction_ce``."""
    a, log_p = alpha.softmax(-1), logits.log_softmax(-1)
    return LossAndGrads(-(a * log_p).sum(-1), log_p.exp() - a, _through_softmax(a, -log_p))


def label_kl(alpha: Rows, logits: Rows, labels: Labels | None = None) -> LossAndGrads:  # noqa: ARG001
    """Return KL(a || p) = Σ_k a_k (log a_k - log p_k)."""
    log_a, log_p = alpha.log_softmax(-1), logits.log_softmax(-1)
    a, surprise = log_a.exp(), log_a - log_p
    return LossAndGrads((a * surprise).sum(-1), log_p.exp() - a, _through_softmax(a, surprise))


def label_l1(alpha: Rows, logits: Rows, labels: Labels | None = None) -> LossAndGrads:  # noqa: ARG001
    """Return ‖p - a‖₁."""
    a, p = alpha.softmax(-1), logits.softmax(-1)
    difference = p - a
    sign = difference.sign()
    return LossAndGrads(difference.abs().sum(-1), _through_softmax(p, sign), _through_softmax(a, -sign))


def label_l2(alpha: Rows, logits: Rows, labels: Labels | None = None) -> LossAndGrads:  # noqa: ARG001
    """Return ‖p - a‖₂ (the norm, not its square)."""
    a, p = alpha.softmax(-1), logits.softmax(-1)
    loss, v = _norm_and_direction(p - a)
    return LossAndGrads(loss, _through_softmax(p, v), _through_softmax(a, -v))


CLOSED_FORMS: dict[tuple[Side, LossName], Callable[..., LossAndGrads]] = {
    ("prediction", "ce"): prediction_ce,
    ("prediction", "kl"): prediction_ce,  # equal for a one-hot target
    ("prediction", "l1"): prediction_l1,
    ("prediction", "l2"): prediction_l2,
    ("label", "ce"): label_ce,
    ("label", "kl"): label_kl,
    ("label", "l1"): label_l1,
    ("label", "l2"): label_l2,
}
NEEDS_LABELS = (("prediction", "l2"),)  # the other closed forms depend on the label only through α


def plain_loss(logits: Rows, labels: Labels, loss: LossName) -> Float[Tensor, " batch"]:
    """Return ℓ(p, e_y), the loss without the layer. Differentiable by autograd.

    Examples:
        >>> plain_loss(torch.zeros(1, 4), torch.tensor([2]), "l1")
        tensor([1.5000])
    """
    if loss in ("ce", "kl"):
        return torch.nn.functional.cross_entropy(logits, labels, reduction="none")
    p, y = logits.softmax(-1), labels[:, None]
    return torch.linalg.vector_norm(p - _one_hot(p, y), ord=int(loss[1]), dim=-1)


def _permuted(a: Tensor, p: Tensor, y: Tensor) -> Tensor:
    q = p + a * (p.gather(-1, y) - p)
    return q.scatter(-1, y, (a * p).sum(-1, keepdim=True))


def _one_hot(like: Tensor, y: Tensor) -> Tensor:
    return torch.zeros_like(like).scatter_(-1, y, 1.0)


def _through_softmax(weights: Tensor, gradient: Tensor) -> Tensor:
    """Backpropagate ∂ℓ/∂w through w = softmax(x): ∂ℓ/∂x = w (∂ℓ/∂w - <w, ∂ℓ/∂w>)."""
    return weights * (gradient - (weights * gradient).sum(-1, keepdim=True))


def _norm_and_direction(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return ‖x‖₂ and its gradient x / ‖x‖₂, which is 0 at 0 (the subgradient that autograd uses)."""
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return norm.squeeze(-1), x / norm.clamp_min(torch.finfo(x.dtype).tiny)
