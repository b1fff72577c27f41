"""α*(θ): closed-form minimizers of the loss in α for a fixed network.

The paper mentions these solutions and prefers gradient steps. Propositions 2 and 3 are statements about them. A minimum
at a corner of the simplex is a limit in α, so entries may be -inf.
"""

import torch
from torch import Tensor

from permll.layer.equations import Labels, LossName, Rows, Side


def best_alpha(logits: Rows, labels: Labels, on: Side, loss: LossName) -> Rows:
    """Return argmin_α ℓ for each sample.

    - On the label, KL, L1 and L2 vanish at a = p (Proposition 2), so α* = z.
    - On the label, cross-entropy is linear in a: all weight on the most probable class.
    - On the prediction, CE, KL and L1 decrease in <a, p>: all weight on the most probable class.
    - On the prediction, L2 also decreases when the remaining mass is spread, so its minimum may mix swaps with several
      probable classes; see ``_best_weights_for_l2``.

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
    """Minimize (1 - q_y)² + Σ_{j≠y} q_j² over the simplex, q_y = p_y + Σ a_j d_j, q_j = p_j - a_j d_j, d = p - p_y.

    Only classes with d_j > 0 can have weight, and together they have all of it. The gain of a class,
    d_j (1 - q_y + p_j), increases in p_j for every q_y, so the support is the k most probable classes. On the support
    equal gains d_j (1 - q_y + q_j) = λ give a_j = (p_j + u) / d_j - λ / d_j² with u = 1 - q_y. Σ a_j = 1 and the
    definition of q_y are two linear equations for u and λ. k is the largest number whose weights are all positive.
    """
    candidates = p.argsort(descending=True)
    candidates = candidates[p[candidates] > p[y]]
    weights = torch.zeros_like(p)
    weights[y if len(candidates) == 0 else candidates[0]] = 1.0
    for k in range(2, len(candidates) + 1):
        support = candidates[:k]
        support_weights = _equal_gain_weights(p[support], p[support] - p[y], float(p[y]))
        if not (support_weights >= 0).all():  # also False for NaN, from classes of nearly equal probability
            break
        weights[support] = support_weights
    return weights


def _equal_gain_weights(p: Tensor, d: Tensor, p_y: float) -> Tensor:
    # Σ a_j = 1:                 u Σ 1/d   - λ Σ 1/d²  = 1 - Σ p/d
    # u = 1 - p_y - Σ a_j d_j:   u (1 + k) - λ Σ 1/d   = 1 - p_y - Σ p
    inverse, square, k = (1 / d).sum(), (1 / d**2).sum(), len(d)
    matrix = torch.stack([torch.stack([inverse, -square]), torch.stack([torch.full_like(inverse, 1 + k), -inverse])])
    u, lam = torch.linalg.solve(matrix, torch.stack([1 - (p / d).sum(), 1 - p_y - p.sum()]))
    return (p + u) / d - lam / d**2
