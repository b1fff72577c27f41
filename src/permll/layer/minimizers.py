"""α*(θ): the row of α that minimises a sample's loss for a fixed network, in closed form.

The paper mentions these solutions and prefers gradient steps; Propositions 2 and 3 are statements about them. Where a
minimum lies at a corner of the simplex it is approached as α grows without bound, so entries of -inf are allowed.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from permll.layer.equations import LossName, Side


def best_alpha(
    logits: Float[Tensor, "batch classes"], labels: Int[Tensor, " batch"], on: Side, loss: LossName
) -> Float[Tensor, "batch classes"]:
    """Return argmin_α ℓ for each sample.

    - On the label, KL, L1 and L2 vanish where a = p (Proposition 2), so α* = z.
    - On the label, cross-entropy is linear in a: all weight on the likeliest class.
    - On the prediction, CE, KL and L1 fall with <a, p>: all weight on the likeliest class.
    - On the prediction, L2 also rewards spreading what is left over the other classes, so its minimum may mix swaps
      with several likely classes; see ``_best_weights_for_l2``.

    Examples:
        >>> best_alpha(torch.tensor([[0.0, 1.0, 2.0]]), torch.tensor([0]), "prediction", "ce")
        tensor([[-inf, -inf, 0.]])
    """
    if on == "prediction" and loss == "l2":
        p = logits.double().softmax(-1)
        rows = [_best_weights_for_l2(row, int(y)) for row, y in zip(p, labels, strict=True)]
        return torch.stack(rows).log().to(logits)
    if on == "label" and loss != "ce":
        return logits.clone()
    corner = torch.full_like(logits, -torch.inf)
    return corner.scatter_(-1, logits.argmax(-1, keepdim=True), 0.0)


def _best_weights_for_l2(p: Tensor, y: int) -> Tensor:
    """Minimise (1 - q_y)² + Σ_{j≠y} q_j² over the simplex, q_y = p_y + Σ a_j d_j, q_j = p_j - a_j d_j, d = p - p_y.

    Only classes with d_j > 0 can receive weight, and all of the weight is spent if there is one. The gain of a class,
    d_j (1 - q_y + p_j), grows with p_j whatever q_y is, so the classes in use are the k likeliest. For those, equal
    gains d_j (1 - q_y + q_j) = λ make a_j = (p_j + u) / d_j - λ / d_j² with u = 1 - q_y; Σ a_j = 1 and the definition
    of q_y are two linear equations for u and λ. The right k is the largest one whose weights are all positive.
    """
    likelier = p.argsort(descending=True)
    likelier = likelier[p[likelier] > p[y]]
    weights = torch.zeros_like(p)
    weights[y if len(likelier) == 0 else likelier[0]] = 1.0
    for k in range(2, len(likelier) + 1):
        used = likelier[:k]
        shares = _equal_gains(p[used], p[used] - p[y], float(p[y]))
        if not (shares >= 0).all():  # nor NaN, where classes are too close to tell apart
            break
        weights[used] = shares
    return weights


def _equal_gains(p: Tensor, d: Tensor, p_y: float) -> Tensor:
    # Σ a_j = 1:                 u Σ 1/d   - λ Σ 1/d²  = 1 - Σ p/d
    # u = 1 - p_y - Σ a_j d_j:   u (1 + k) - λ Σ 1/d   = 1 - p_y - Σ p
    inverse, square, k = (1 / d).sum(), (1 / d**2).sum(), len(d)
    matrix = torch.stack([torch.stack([inverse, -square]), torch.stack([torch.full_like(inverse, 1 + k), -inverse])])
    u, lam = torch.linalg.solve(matrix, torch.stack([1 - (p / d).sum(), 1 - p_y - p.sum()]))
    return (p + u) / d - lam / d**2
