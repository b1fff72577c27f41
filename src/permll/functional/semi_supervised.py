"""Semi-supervised learning: trusted labels are refined, the other samples are treated as unlabeled.

Notation: ``y`` the given label, ``e_y`` its one-hot vector, ``p = softmax(logits)``, ``c`` the number of classes, ``w``
the probability that a label is clean, ``T`` a temperature. Callers compute targets without gradients.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from permll.functional._shapes import Labels, Logits, Mask, PerSample, Rows
from permll.functional.mixture import fit_gaussian_mixture, mislabeled_posterior
from permll.functional.mixup import bootstrapped_targets
from permll.functional.schedules import linear_rampup


def sharpen(p: Rows, temperature: float) -> Rows:
    """Return p_k^(1/T) / Σ_j p_j^(1/T).

    Examples:
        >>> sharpen(torch.tensor([[0.25, 0.75]]), 0.5)
        tensor([[0.1000, 0.9000]])
    """
    return (p.log() / temperature).softmax(-1)  # powers of small probabilities would underflow


def co_guess_labels(logits: Float[Tensor, "guesses batch classes"], temperature: float) -> Rows:
    """Return the sharpened mean prediction over networks and views, the target of an unlabeled sample.

    Examples:
        >>> co_guess_labels(torch.tensor([[[0.0, 0.0]], [[50.0, 0.0]]]), 0.5)
        tensor([[0.9000, 0.1000]])
    """
    return sharpen(logits.softmax(-1).mean(0), temperature)


def co_refine_labels(
    labels: Labels, logits: Float[Tensor, "views batch classes"], clean_probs: PerSample, temperature: float
) -> Rows:
    """Return w e_y + (1 - w) p, sharpened, with p the mean prediction over views: the target of a labeled sample.

    Args:
        labels: y.
        logits: a network's outputs for several views.
        clean_probs: w in [0, 1].
        temperature: T.

    Examples:
        >>> co_refine_labels(torch.tensor([0]), torch.zeros(1, 1, 2), torch.tensor([0.5]), 0.5)
        tensor([[0.9000, 0.1000]])
    """
    predicted = logits.softmax(-1).mean(0)
    return sharpen(bootstrapped_targets(labels, predicted, 1 - clean_probs), temperature)


def softmax_mse_loss(logits: Logits, targets: Rows) -> PerSample:
    """Return 1/c Σ_k (p_k - t_k)², which unlike cross-entropy is bounded.

    With d = p - t the gradient in logit k is 2/c p_k (d_k - <p, d>).

    Examples:
        >>> softmax_mse_loss(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
        tensor([0.2500])
    """
    return (logits.softmax(-1) - targets).square().mean(-1)


# --- DivideMix ------------------------------------------------------------------------------------------------------


def gmm_clean_probability(losses: PerSample) -> PerSample | None:
    """Return w, the posterior of the lower component of a two-component Gaussian mixture; None if none can be fitted.

    The fit is that of DivideMix: ten EM steps, tolerance 0.01, 5e-4 added to the variances. w never increases with the
    loss. Losses that are not finite get w = 0.

    Args:
        losses: losses scaled to [0, 1].

    Examples:
        >>> losses = torch.tensor([0.0, 0.1, 0.05, 0.9, 1.0, 0.95])
        >>> gmm_clean_probability(losses).round()
        tensor([1., 1., 1., 0., 0., 0.])
    """
    mixture = fit_gaussian_mixture(losses, max_steps=10, tolerance=1e-2, reg_covar=5e-4)
    if mixture is None:
        return None
    return (1 - mislabeled_posterior(losses.double(), mixture)).nan_to_num(0.0).to(losses)


def trusted_label_mask(clean_probs: PerSample, threshold: float, min_count: int) -> Mask:
    """Select the samples with w > ``threshold``, or the ``min_count`` best if these are fewer.

    Examples:
        >>> trusted_label_mask(torch.tensor([0.2, 0.9, 0.4]), 0.5, min_count=2)
        tensor([False,  True,  True])
    """
    mask = clean_probs > threshold
    if int(mask.sum()) < min_count:
        mask = torch.zeros_like(mask)
        mask[clean_probs.argsort(descending=True, stable=True)[:min_count]] = True
    return mask


def dividemix_unlabeled_weight(noise_rate: float, num_classes: int) -> float:
    """Return λ_u, DivideMix's weight of ``softmax_mse_loss`` relative to cross-entropy.

    The authors choose it by the true noise rate:

    ============ ========= ============ ============
    classes      up to 20% 50% to 80%   90%
    ============ ========= ============ ============
    10           0         25           50
    100          25        150          150
    ============ ========= ============ ============

    For other numbers of classes the low value is 25 log10(c / 10), at least 0, and the high value 25 (c / 10)^0.78. The
    low value is used up to a rate of 35 %, the high value from 45 % on, with linear interpolation between them, so that
    small errors of an estimated rate rarely matter; estimates from mixtures tend to be too high. The 50 for 90 % noise
    is not used, since estimates are unreliable there.

    Examples:
        >>> [round(dividemix_unlabeled_weight(rate, 10), 4) for rate in (0.2, 0.4, 0.5)]
        [0.0, 12.5, 25.0]
        >>> [round(dividemix_unlabeled_weight(rate, 100), 4) for rate in (0.2, 0.5)]
        [25.0, 150.0]
    """
    log_tens = math.log10(num_classes / 10)
    low, high = 25 * max(log_tens, 0.0), 25 * 6**log_tens
    return low + (high - low) * linear_rampup((noise_rate - 0.35) / 0.1)
