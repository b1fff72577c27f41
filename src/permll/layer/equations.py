"""The closed forms of the permutation layer, beside the paper's equation numbers.

Letters, as in the paper: ``y`` the given label, ``α`` the row of parameters a sample owns, ``a = softmax(α)``,
``z`` the logits, ``p = softmax(z)``, ``c`` the number of classes. Definition 1's layer ``P̄ = Σ_k a_k P(y, k)``
swaps the given label with class k with weight a_k, and no c x c matrix is needed to apply it:

    (P̄ p)_y = <a, p>                (P̄ p)_j = a_j p_y + (1 - a_j) p_j     (j ≠ y)
    (P̄ e_y) = a                                                           (Proposition 1)

Eq. (1) compares p with the corrected label P̄ e_y (``on="label"``), eq. (2) compares the permuted prediction P̄ p with
e_y (``on="prediction"``). Each function below returns the loss of each sample with both of its gradients, in O(B c).
The slow form with matrices is in ``reference.py``; the tests hold the two together.
"""

import math
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

Side = Literal["prediction", "label"]
LossName = Literal["ce", "kl", "l1", "l2"]
SIDES: tuple[Side, ...] = get_args(Side)
LOSSES: tuple[LossName, ...] = get_args(LossName)


class Correction(NamedTuple):
    """The corrected loss of each sample, and where it pulls the network and the sample's own row."""

    loss: Float[Tensor, " batch"]
    grad_logits: Float[Tensor, "batch classes"]
    grad_alpha: Float[Tensor, "batch classes"]


def initial_gap(num_classes: int, init: float) -> float:
    """Return g = log(m (c-1) / (1-m)), the head start in α that gives the given label the weight m = ``init``.

    Examples:
        >>> round(initial_gap(10, 0.35), 3)
        1.578
    """
    return math.log(init * (num_classes - 1) / (1 - init))


def initial_alpha(
    labels: Int[Tensor, " rows"], num_classes: int, init: float, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "rows classes"]:
    """Return the paper's start: softmax(α)_y = ``init``, the rest shared equally; α is 0 off the given label.

    Examples:
        >>> initial_alpha(torch.tensor([2]), 3, 0.5).softmax(-1)
        tensor([[0.2500, 0.2500, 0.5000]])
    """
    alpha = torch.zeros(len(labels), num_classes, dtype=dtype, device=labels.device)
    return alpha.scatter_(1, labels[:, None], initial_gap(num_classes, init))


def permuted_prediction(
    alpha: Float[Tensor, "batch classes"],
    probabilities: Float[Tensor, "batch classes"],
    labels: Int[Tensor, " batch"],
) -> Float[Tensor, "batch classes"]:
    """Return P̄ p (Definition 1 applied to a prediction) without building P̄.

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


def posterior(
    alpha: Float[Tensor, "batch classes"], logits: Float[Tensor, "batch classes"]
) -> Float[Tensor, "batch classes"]:
    """Return r = softmax(α + z): the belief about the true class from the input and the given label together.

    It is the soft target that eq. (2) with cross-entropy pulls the network to. Its entry at the given label is how
    far that label is believed, its largest entry the best proposal for a new one.
    """
    return (alpha + logits).softmax(-1)


# --- Eq. (2): the layer on the prediction, ℓ(P̄ p, e_y) -------------------------------------------------------------


def prediction_ce(
    alpha: Float[Tensor, "batch classes"],
    logits: Float[Tensor, "batch classes"],
    labels: Int[Tensor, " batch"] | None = None,  # noqa: ARG001 -- α already knows it: <a, p> is symmetric in the classes
) -> Correction:
    """Return -log <a, p>; with r = a p / <a, p>: ∂/∂z = p - r, ∂/∂α = a - r. KL(e_y || P̄ p) is the same number."""
    a, p = alpha.softmax(-1), logits.softmax(-1)
    # <a, p> >= min(a), so it can only vanish where α's own spread exceeds what its dtype can exponentiate.
    a = a.clamp_min_(torch.finfo(a.dtype).tiny)
    joint = a * p
    evidence = joint.sum(-1, keepdim=True)
    by_logits = p.addcdiv_(joint, evidence, value=-1)  # r itself is never written down
    return Correction(evidence.squeeze(-1).log().neg_(), by_logits, a.addcdiv_(joint, evidence, value=-1))


def prediction_l1(
    alpha: Float[Tensor, "batch classes"],
    logits: Float[Tensor, "batch classes"],
    labels: Int[Tensor, " batch"] | None = None,  # noqa: ARG001 -- as above
) -> Correction:
    """Return ‖P̄ p - e_y‖₁ = 2 (1 - <a, p>)."""
    a, p = alpha.softmax(-1), logits.softmax(-1)
    loss = 2 * (1 - (a * p).sum(-1))
    return Correction(loss, _through_softmax(p, -2 * a), _through_softmax(a, -2 * p))


def prediction_l2(
    alpha: Float[Tensor, "batch classes"],
    logits: Float[Tensor, "batch classes"],
    labels: Int[Tensor, " batch"],
) -> Correction:
    """Return ‖P̄ p - e_y‖₂ (the norm, not its square)."""
    a, p, y = alpha.softmax(-1), logits.softmax(-1), labels[:, None]
    loss, v = _norm_and_direction(_permuted(a, p, y).sub_(_one_hot(p, y)))  # v = ∂ℓ/∂(P̄ p)
    v_y = v.gather(-1, y)
    by_a = v_y * p + v * (p.gather(-1, y) - p)
    by_p = v_y * a + v * (1 - a)
    # Every other class keeps the share a_j of p_y, so p_y acts on all of them.
    by_p = by_p.scatter(-1, y, (v * a).sum(-1, keepdim=True))
    return Correction(loss, _through_softmax(p, by_p), _through_softmax(a, by_a))


# --- Eq. (1): the layer on the label, ℓ(p, P̄ e_y) = ℓ(p, a) by Proposition 1 ---------------------------------------


def label_ce(
    alpha: Float[Tensor, "batch classes"],
    logits: Float[Tensor, "batch classes"],
    labels: Int[Tensor, " batch"] | None = None,  # noqa: ARG001 -- α is the corrected label
) -> Correction:
    """Return -Σ_k a_k log p_k; by Jensen never below ``prediction_ce``."""
    a, log_p = alpha.softmax(-1), logits.log_softmax(-1)
    return Correction(-(a * log_p).sum(-1), log_p.exp() - a, _through_softmax(a, -log_p))


def label_kl(
    alpha: Float[Tensor, "batch classes"],
    logits: Float[Tensor, "batch classes"],
    labels: Int[Tensor, " batch"] | None = None,  # noqa: ARG001 -- as above
) -> Correction:
    """Return KL(a || p) = Σ_k a_k (log a_k - log p_k)."""
    log_a, log_p = alpha.log_softmax(-1), logits.log_softmax(-1)
    a, surprise = log_a.exp(), log_a - log_p
    return Correction((a * surprise).sum(-1), log_p.exp() - a, _through_softmax(a, surprise))


def label_l1(
    alpha: Float[Tensor, "batch classes"],
    logits: Float[Tensor, "batch classes"],
    labels: Int[Tensor, " batch"] | None = None,  # noqa: ARG001 -- as above
) -> Correction:
    """Return ‖p - a‖₁."""
    a, p = alpha.softmax(-1), logits.softmax(-1)
    difference = p - a
    sign = difference.sign()
    return Correction(difference.abs().sum(-1), _through_softmax(p, sign), _through_softmax(a, -sign))


def label_l2(
    alpha: Float[Tensor, "batch classes"],
    logits: Float[Tensor, "batch classes"],
    labels: Int[Tensor, " batch"] | None = None,  # noqa: ARG001 -- as above
) -> Correction:
    """Return ‖p - a‖₂ (the norm, not its square)."""
    a, p = alpha.softmax(-1), logits.softmax(-1)
    loss, v = _norm_and_direction(p - a)
    return Correction(loss, _through_softmax(p, v), _through_softmax(a, -v))


CLOSED_FORMS: dict[tuple[Side, LossName], Callable[..., Correction]] = {
    ("prediction", "ce"): prediction_ce,
    ("prediction", "kl"): prediction_ce,  # against a one-hot target the two losses are one
    ("prediction", "l1"): prediction_l1,
    ("prediction", "l2"): prediction_l2,
    ("label", "ce"): label_ce,
    ("label", "kl"): label_kl,
    ("label", "l1"): label_l1,
    ("label", "l2"): label_l2,
}
ASK_FOR_LABELS = (("prediction", "l2"),)  # the others find all they need in α


def plain_loss(
    logits: Float[Tensor, "batch classes"], labels: Int[Tensor, " batch"], loss: LossName
) -> Float[Tensor, " batch"]:
    """Return ℓ(p, e_y), the loss with the layer discarded. Differentiable by autograd.

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
    """Carry ∂ℓ/∂w back through w = softmax(x): ∂ℓ/∂x = w (∂ℓ/∂w - <w, ∂ℓ/∂w>)."""
    return weights * (gradient - (weights * gradient).sum(-1, keepdim=True))


def _norm_and_direction(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return ‖x‖₂ and its gradient x / ‖x‖₂, which is 0 at 0 (the subgradient autograd takes too)."""
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return norm.squeeze(-1), x / norm.clamp_min(torch.finfo(x.dtype).tiny)
