"""Fit of the power β of predictions and of the transition matrix T to given labels.

The model: a sample of class k has the label y with the probability T[k, y], and its class is k with a probability
proportional to p[k]^β.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from permll.functional.noise_rate import initial_transition, joint_from_label_probs, smoothed_transition
from permll.utils.indexing import subsample_rows

POWERS = tuple(2 ** (step / 8) for step in range(-12, 21))  # of p, 0.35 to 5.7
MAX_ROWS = 10_000  # determine a rate to half a percent
PSEUDO_SAMPLES = 100  # per class, with symmetric noise, that smooth T
EM_STEPS = 10
BISECTIONS = 40
MIN_PROB = 1e-12


def fit_power(log_p: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"]) -> float:
    """Return the power β of the predictions under which the labels are likeliest.

    A classifier that was trained on randomly wrong labels is less certain of the classes than it could be: β > 1. It
    maximizes Σ log((1 - ε) q[y] + ε (1 - q[y]) / (c - 1)), with q ∝ p^β and the best ε, since a transition matrix with
    many entries would explain errors of the classifier as noise. But to this model, wrong labels that depend on the
    class look like overconfidence. So if its β is below 1, the β <= 1 is used that is likeliest with T.

    Examples:
        >>> generator = torch.Generator().manual_seed(0)
        >>> classes = torch.randint(3, (3000,), generator=generator)
        >>> labels = torch.where(torch.rand(3000, generator=generator) < 0.2, (classes + 1) % 3, classes)
        >>> p = 0.6 * torch.nn.functional.one_hot(classes, 3) + 0.4 / 3
        >>> fit_power(p.log(), labels) > 1
        True
    """
    log_p, labels = subsample(log_p, labels)
    of_labels = torch.stack([_label_probs(log_p, labels, one) for one in POWERS])
    fits = dict(zip(POWERS, _random_noise_likelihood(of_labels, log_p.shape[1]).tolist(), strict=True))
    power = _likeliest(fits, len(labels))
    if power >= 1:
        return power
    return _likeliest({one: run_em((one * log_p).softmax(-1), labels)[1] for one in POWERS if one <= 1}, len(labels))


def fit_transition(
    log_p: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"], power: float
) -> Float[Tensor, "classes classes"]:
    """Return T by ten steps of the EM algorithm, smoothed by 100 samples of symmetric noise for each class.

    With r[k] ∝ p[k]^β T[k, y] for each sample, T[k, y] is the fraction of the weight of class k that has the label y.

    Args:
        log_p: logarithms of probabilities.
        labels: given labels.
        power: β.

    Examples:
        >>> classes = torch.tensor([0, 1]).repeat(500)
        >>> log_p = (0.98 * torch.nn.functional.one_hot(classes, 2) + 0.01).log()
        >>> labels = classes.where(torch.arange(1000) % 5 > 0, 0)        # every fifth label is 0
        >>> fit_transition(log_p, labels, 1.0)
        tensor([[0.9840, 0.0160],
                [0.1766, 0.8234]], dtype=torch.float64)
    """
    log_p, labels = subsample(log_p, labels)
    return run_em((power * log_p).softmax(-1), labels)[0]


def run_em(
    q: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"]
) -> tuple[Float[Tensor, "classes classes"], float]:
    """Return T for class probabilities q, and the mean log-likelihood of the labels before the last step."""
    transition, likelihood = initial_transition(q.shape[1]).to(q.device), -torch.inf
    for _ in range(EM_STEPS):
        r = q * transition.T.to(q.dtype)[labels]
        total = r.sum(1, keepdim=True).clamp_min(MIN_PROB)
        likelihood = float(total.double().log().mean())
        transition = smoothed(joint_from_label_probs(r / total, labels), len(labels))
    return transition, likelihood


def smoothed(joint: Float[Tensor, "classes classes"], samples: int) -> Float[Tensor, "classes classes"]:
    """Return T of a joint distribution of a number of samples, smoothed as by ``fit_transition``."""
    return smoothed_transition(joint, samples, PSEUDO_SAMPLES / len(joint)).clamp_min(MIN_PROB)


def subsample(
    log_p: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"]
) -> tuple[Float[Tensor, "some classes"], Int[Tensor, " some"]]:
    """Return at most ``MAX_ROWS`` rows, the same at every call."""
    if len(labels) <= MAX_ROWS:
        return log_p, labels
    rows = subsample_rows(len(labels), MAX_ROWS).to(labels.device)
    return log_p[rows], labels[rows]


def _label_probs(log_p: Tensor, labels: Tensor, power: float) -> Tensor:
    """Return q[y] (N,), in float64."""
    scaled = power * log_p
    return (scaled.gather(1, labels[:, None])[:, 0].double() - scaled.logsumexp(1).double()).exp()


def _random_noise_likelihood(of_labels: Tensor, classes: int) -> Tensor:
    """Return the mean log-likelihood of labels (n,) with the best ε, for rows (n, N) of their probabilities q[y]."""
    q = of_labels.clamp_min(MIN_PROB)
    other = (1 - q).clamp_min(0) / (classes - 1)
    low = torch.zeros(len(q), 1, dtype=q.dtype, device=q.device)
    high = torch.full_like(low, 1 - 1 / classes)
    for _ in range(BISECTIONS):  # the likelihood is concave in ε
        rate = (low + high) / 2
        rises = ((other - q) / (q + rate * (other - q))).sum(1, keepdim=True) > 0
        low, high = torch.where(rises, rate, low), torch.where(rises, high, rate)
    return (q + low * (other - q)).log().mean(1)


def _likeliest(fits: dict[float, float], rows: int) -> float:
    """Return the power nearest to 1 whose log-likelihood, ``rows`` times its mean, equals the largest to 0.1."""
    best = max(fits.values())
    return min(
        (power for power, fit in fits.items() if rows * (best - fit) <= 0.1), key=lambda power: abs(math.log(power))
    )
