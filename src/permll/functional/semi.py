"""Semi-supervised learning: believed labels are refined, the others are forgotten and guessed anew.

Letters: ``y`` the given label, ``e_y`` its one-hot form, ``p = softmax(logits)``, ``c`` the number of classes, ``w``
how probably a label is right, ``T`` a temperature. Targets are made without gradient by whoever calls.
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from permll.functional.mixture import fit_gaussian_mixture, wrong_posterior
from permll.functional.mixup import bootstrapped_targets


def sharpen(p: Float[Tensor, "batch classes"], temperature: float) -> Float[Tensor, "batch classes"]:
    """Return p_k^(1/T) / Σ_j p_j^(1/T): below T = 1 the larger entries grow, above it all become alike.

    Examples:
        >>> sharpen(torch.tensor([[0.25, 0.75]]), 0.5)
        tensor([[0.1000, 0.9000]])
    """
    return (p.log() / temperature).softmax(-1)  # powers of a small p would all be 0 at a low temperature


def co_guess(logits: Float[Tensor, "guesses batch classes"], temperature: float) -> Float[Tensor, "batch classes"]:
    """Return the mean prediction over networks and views, sharpened: the target of a row whose label is forgotten.

    Examples:
        >>> co_guess(torch.tensor([[[0.0, 0.0]], [[50.0, 0.0]]]), 0.5)
        tensor([[0.9000, 0.1000]])
    """
    return sharpen(logits.softmax(-1).mean(0), temperature)


def refine(
    labels: Int[Tensor, " batch"],
    logits: Float[Tensor, "views batch classes"],
    right: Float[Tensor, " batch"],
    temperature: float,
) -> Float[Tensor, "batch classes"]:
    """Return w e_y + (1 - w) p, sharpened: the target of a row whose label is believed, p being the mean over views.

    Args:
        labels: y.
        logits: what a network says of some views.
        right: w in [0, 1].
        temperature: T.

    Examples:
        >>> refine(torch.tensor([0]), torch.zeros(1, 1, 2), torch.tensor([0.5]), 0.5)
        tensor([[0.9000, 0.1000]])
    """
    predicted = logits.softmax(-1).mean(0)
    return sharpen(bootstrapped_targets(labels, predicted, 1 - right), temperature)


def squared_error(
    logits: Float[Tensor, "batch classes"], targets: Float[Tensor, "batch classes"]
) -> Float[Tensor, " batch"]:
    """Return 1/c Σ_k (p_k - t_k)², which unlike cross-entropy is bounded: a wrong guess does little harm.

    With d = p - t the gradient in logit k is 2/c p_k (d_k - <p, d>).

    Examples:
        >>> squared_error(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
        tensor([0.2500])
    """
    return (logits.softmax(-1) - targets).square().mean(-1)


def linear_ramp(progress: float) -> float:
    """Return u for u in [0, 1]; before and after, its ends.

    Examples:
        >>> [linear_ramp(u) for u in (-1.0, 0.25, 3.0)]
        [0.0, 0.25, 1.0]
    """
    return float(min(max(progress, 0.0), 1.0))


# --- DivideMix -----------------------------------------------------------------------------------------------------


def right_posterior(losses: Float[Tensor, " samples"]) -> Float[Tensor, " samples"] | None:
    """Return w, how probably each scaled loss belongs to the lower of two normal distributions; None without two.

    The mixture is as coarse as DivideMix's: ten steps of EM, to a tolerance of 0.01, with 5e-4 added to the variances.
    w never rises with the loss. A loss that is not finite is a wrong label's.

    Examples:
        >>> losses = torch.tensor([0.0, 0.1, 0.05, 0.9, 1.0, 0.95])
        >>> right_posterior(losses).round()
        tensor([1., 1., 1., 0., 0., 0.])
    """
    mixture = fit_gaussian_mixture(losses, steps=10, tolerance=1e-2, floor=5e-4)
    if mixture is None:
        return None
    return (1 - wrong_posterior(losses.double(), mixture)).nan_to_num(0.0).to(losses)


def believed(right: Float[Tensor, " samples"], threshold: float, least: int) -> Bool[Tensor, " samples"]:
    """Return which labels are believed: those with w > ``threshold``, or the ``least`` best if these are fewer.

    Examples:
        >>> believed(torch.tensor([0.2, 0.9, 0.4]), 0.5, least=2)
        tensor([False,  True,  True])
    """
    chosen = right > threshold
    if int(chosen.sum()) < least:
        chosen = torch.zeros_like(chosen)
        chosen[right.argsort(descending=True, stable=True)[:least]] = True
    return chosen


def unlabeled_weight(noise_rate: float, num_classes: int) -> float:
    """Return λ_u, the weight of ``squared_error`` beside cross-entropy, by the authors' table of DivideMix.

    They choose it by the true noise rate:

    ============ ========= ============ ============
    classes      up to 20% 50% to 80%   90%
    ============ ========= ============ ============
    10           0         25           50
    100          25        150          150
    ============ ========= ============ ============

    Between ten and a hundred classes, and beyond them, the low value is 25 log10(c / 10), not below 0, and the high one
    25 (c / 10)^0.78. The low one holds up to a rate of 35 %, the high one from 45 % on, and between them a straight
    line: an estimate that is some points off chooses no other value, and those of mixtures are rather too high. The 50
    for 90 % is left out: no estimate is to be trusted there.

    Examples:
        >>> [round(unlabeled_weight(rate, 10), 4) for rate in (0.2, 0.4, 0.5)]
        [0.0, 12.5, 25.0]
        >>> [round(unlabeled_weight(rate, 100), 4) for rate in (0.2, 0.5)]
        [25.0, 150.0]
    """
    tens = math.log10(num_classes / 10)
    low, high = 25 * max(tens, 0.0), 25 * 6**tens
    return low + (high - low) * linear_ramp((noise_rate - 0.35) / 0.1)
