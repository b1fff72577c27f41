"""Which labels are wrong, from out-of-sample predictions: quality, proposals and the fraction of wrong labels.

Assumption: every sample has one correct class, the one that most careful annotators would give. With p the predicted
probabilities, and T[k, y] the probability that a sample of class k has the label y, the posterior of class k is

    r[k] ∝ p[k]^β T[k, y] exp(-b [k = y]).

β and T are fitted to the labels (``fit_power``, ``fit_transition``). They determine which labels are more suspect than
others. How many are wrong is not identified: a classifier that predicts noisy labels perfectly explains them without
any error, so labels cannot tell mistakes from ambiguous samples. The fraction is known up to an interval:

- At least the fraction that T explains is wrong, ``low``: the mean of 1 - r[y] with b = 0.
- At most as many labels are wrong as differ from the prediction, if the classifier is right about them.

If T explains most of the disagreement, the noise depends on the class but not on the sample, and the rest is attributed
to the classifier. Otherwise the mistakes are where samples are hard, as people make them, and the disagreement is
attributed to the labels (``estimate_rate``). The shift b is chosen so that as many labels are issues as are estimated
to be wrong. A label is proposed if it is the most probable class at the middle between ``low`` and the estimate.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from permll.functional.noise_rate import initial_transition, joint_from_label_probs, smoothed_transition
from permll.utils.indexing import subsample_rows

POWERS = tuple(2 ** (step / 4) for step in range(-6, 11))  # of p, 0.35 to 5.7
MAX_ROWS = 10_000  # rows that β and T are fitted to; they determine a rate to half a percent
PSEUDO_SAMPLES = 100  # per class, with symmetric noise, that smooth T
EM_STEPS = 10
BISECTIONS = 40
CHUNK_ROWS = 100_000  # rows per float64 chunk
MIN_PROB = 1e-12


class LabelErrors(NamedTuple):
    """Result of ``find_errors``."""

    quality: Float[Tensor, " samples"]  # probability that the label is correct; at most 1/2 for issues
    posterior: Float[Tensor, "samples classes"]  # for proposals
    rate: float  # estimated fraction of wrong labels
    limits: tuple[float, float]  # of the rate: ``low`` and the estimate, beyond their sampling error of 95 %
    transition: Float[Tensor, "classes classes"]  # T
    joint: Float[Tensor, "classes classes"]  # J[k, y] = P(class k, label y), with this rate


def find_errors(
    log_p: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"], num_trained: int = 0
) -> LabelErrors:
    """Return quality, proposals and the fraction of wrong labels; see the module.

    Args:
        log_p: logarithms of predicted probabilities, or logits.
        labels: given labels.
        num_trained: number of first rows that the classifier was trained on; the others are out of sample. Trained rows
            are biased toward their labels, so they have a shift of their own, for the same rate.

    Examples:
        >>> labels = torch.tensor([0, 1]).repeat(50)
        >>> log_p = (0.98 * torch.nn.functional.one_hot(labels, 2) + 0.01).log()
        >>> labels[::10] = 1 - labels[::10]
        >>> errors = find_errors(log_p, labels)
        >>> round(errors.rate, 2), int((errors.quality <= 0.5).sum())
        (0.09, 10)
    """
    has_trained = 0 < num_trained < len(labels)
    outside = slice(num_trained if has_trained else 0, None)
    groups = [slice(0, num_trained), outside] if has_trained else [outside]

    def shifts(value: float) -> Tensor:
        return torch.cat([torch.full_like(part := log_odds[group], shift_for_rate(part, value)) for group in groups])

    power = fit_power(log_p[outside], labels[outside])
    transition = fit_transition(log_p, labels, power)
    log_odds = label_log_odds(log_p, labels, power, transition)
    low = float(torch.sigmoid(-log_odds[outside]).mean())
    disagreement = float((log_p[outside].argmax(1) != labels[outside]).double().mean())
    n = len(labels[outside])
    majority = float(labels[outside].bincount().max()) / n
    low, rate = min(low, disagreement), estimate_rate(low, disagreement, majority)
    if 1 - disagreement <= majority + 2 * math.sqrt(majority * (1 - majority) / n):
        low = rate = 0.0  # predictions that do not depend on the samples say nothing about their labels
    if has_trained:  # T is too small off the diagonal as long as the bias of these rows is not subtracted
        posterior = label_posterior(log_p, labels, power, transition, shifts(rate))
        transition = _smoothed(joint_from_label_probs(posterior, labels), len(labels))
        log_odds = label_log_odds(log_p, labels, power, transition)
    quality = torch.sigmoid(log_odds - shifts(rate))
    posterior = label_posterior(log_p, labels, power, transition, shifts((low + rate) / 2))
    joint = _with_rate(joint_from_label_probs(posterior[outside], labels[outside]), rate)
    margin = 1.96 * math.sqrt(rate * (1 - rate) / n)
    limits = max(low - margin, 0.0), min(rate + margin, 1.0)
    return LabelErrors(quality.float(), posterior, rate, limits, transition, joint)


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
    log_p, labels = _subsample(log_p, labels)
    power = _likeliest(
        {one: _random_noise_likelihood((one * log_p).softmax(-1), labels) for one in POWERS}, len(labels)
    )
    if power >= 1:
        return power
    fits = {one: _run_em((one * log_p).softmax(-1), labels)[1] for one in POWERS if one <= 1}
    return _likeliest(fits, len(labels))


def _likeliest(fits: dict[float, float], rows: int) -> float:
    """Return the power nearest to 1 whose log-likelihood, ``rows`` times its mean, equals the largest to 0.1."""
    best = max(fits.values())
    return min(
        (power for power, fit in fits.items() if rows * (best - fit) <= 0.1), key=lambda power: abs(math.log(power))
    )


def _random_noise_likelihood(q: Tensor, labels: Tensor) -> float:
    """Return the mean log-likelihood of the labels with the best ε."""
    classes = q.shape[1]
    q = q.gather(1, labels[:, None])[:, 0].clamp_min(MIN_PROB)
    other = (1 - q) / (classes - 1)
    low, high = 0.0, 1 - 1 / classes
    for _ in range(BISECTIONS):  # the likelihood is concave in ε
        rate = (low + high) / 2
        slope = float(((other - q) / (q + rate * (other - q))).sum())
        low, high = (rate, high) if slope > 0 else (low, rate)
    return float((q + low * (other - q)).log().mean())


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
    log_p, labels = _subsample(log_p, labels)
    return _run_em((power * log_p).softmax(-1), labels)[0]


def _run_em(q: Tensor, labels: Tensor) -> tuple[Tensor, float]:
    """Return T, and the mean log-likelihood of the labels before its last step."""
    transition, likelihood = initial_transition(q.shape[1]).to(q.device), -torch.inf
    for _ in range(EM_STEPS):
        r = q * transition.T[labels]
        total = r.sum(1, keepdim=True).clamp_min(MIN_PROB)
        likelihood = float(total.log().mean())
        transition = _smoothed(joint_from_label_probs(r / total, labels), len(labels))
    return transition, likelihood


def label_log_odds(
    log_p: Float[Tensor, "samples classes"],
    labels: Int[Tensor, " samples"],
    power: float,
    transition: Float[Tensor, "classes classes"],
) -> Float[Tensor, " samples"]:
    """Return log(r[y] / (1 - r[y])) with b = 0, in float64.

    Examples:
        >>> transition = torch.tensor([[0.9, 0.1], [0.2, 0.8]])
        >>> odds = label_log_odds(torch.tensor([[0.6, 0.4]]).log(), torch.tensor([1]), 1.0, transition)
        >>> torch.allclose(odds.exp(), torch.tensor([0.4 * 0.8 / (0.6 * 0.1)]).double())
        True
    """
    parts = []
    for p, y in zip(log_p.split(CHUNK_ROWS), labels.split(CHUNK_ROWS), strict=True):
        score, index = power * p.double() + transition.T[y].log(), y[:, None]
        parts.append(score.gather(1, index)[:, 0] - score.scatter_(1, index, -torch.inf).logsumexp(1))
    return torch.cat(parts)


def estimate_rate(low: float, disagreement: float, majority: float = 0.0) -> float:
    """Return the fraction of wrong labels, between its limits.

    It is ``low`` + ρ s (``disagreement`` - ``low``). ρ is 1 if T explains at most 40 % of the disagreement, 0 if it
    explains at least 60 %, and linear between them. s is 1 if the classifier predicts at least half of the labels that
    the majority class does not, 0 if none, and linear between them.

    Args:
        low: fraction of wrong labels that T explains.
        disagreement: fraction of labels that differ from the prediction.
        majority: fraction of the most frequent label.

    Examples:
        >>> estimate_rate(0.05, 0.2)      # people's mistakes
        0.2
        >>> estimate_rate(0.2, 0.3)       # noise that does not depend on the sample
        0.2
        >>> round(estimate_rate(0.05, 0.7, majority=0.3), 2)      # no better than the majority class
        0.05
    """
    if low >= disagreement:
        return disagreement
    weight = min(max(3 - 5 * low / disagreement, 0.0), 1.0)
    skill = max(1 - disagreement - majority, 0.0) / max(1 - majority, MIN_PROB)
    return low + weight * min(2 * skill, 1.0) * (disagreement - low)


def shift_for_rate(log_odds: Float[Tensor, " samples"], rate: float) -> float:
    """Return b for which a fraction ``rate`` of the labels has negative log-odds; equal ones are not separated.

    Examples:
        >>> shift_for_rate(torch.tensor([3.0, -1.0, 2.0, 4.0]), 0.25)
        0.5
    """
    values, count = log_odds.double().sort().values, round(rate * len(log_odds))
    if 0 < count < len(values) and values[count - 1] == values[count]:
        first, last = (int(torch.searchsorted(values, values[count], right=right)) for right in (False, True))
        count = last if 2 * count > first + last else first
    if count == 0:
        return min(float(values[0]), 0.0) - 1
    return float(values[count - 1 : count + 1].mean()) if count < len(values) else float(values[-1]) + 1


def label_posterior(
    log_p: Float[Tensor, "samples classes"],
    labels: Int[Tensor, " samples"],
    power: float,
    transition: Float[Tensor, "classes classes"],
    shifts: Float[Tensor, " samples"],
) -> Float[Tensor, "samples classes"]:
    """Return r (N, c), in float32, with a shift b for each sample.

    Examples:
        >>> transition = torch.tensor([[0.9, 0.1], [0.2, 0.8]])
        >>> label_posterior(torch.tensor([[0.6, 0.4]]).log(), torch.tensor([1]), 1.0, transition, torch.zeros(1))
        tensor([[0.1579, 0.8421]])
    """
    posterior = torch.empty(log_p.shape, dtype=torch.float32, device=log_p.device)
    for rows in torch.arange(len(labels)).split(CHUNK_ROWS):
        part = slice(int(rows[0]), int(rows[-1]) + 1)
        score, index = power * log_p[part].double() + transition.T[labels[part]].log(), labels[part, None]
        posterior[part] = score.scatter_add_(1, index, -shifts[part, None].to(score)).softmax(-1)
    return posterior


def _smoothed(joint: Tensor, samples: int) -> Tensor:
    return smoothed_transition(joint, samples, PSEUDO_SAMPLES / len(joint)).clamp_min(MIN_PROB)


def _with_rate(joint: Tensor, rate: float) -> Tensor:
    """Return J with off-diagonal entries that sum to ``rate``, and the same frequencies of labels."""
    diagonal = joint.diagonal().diag()
    wrong = joint - diagonal
    total = float(wrong.sum())
    wrong = wrong * (rate / total) if total > 0 else wrong
    return wrong + (joint.sum(0) - wrong.sum(0)).clamp_min(0).diag()


def _subsample(log_p: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    if len(labels) > MAX_ROWS:
        rows = subsample_rows(len(labels), MAX_ROWS).to(labels.device)
        log_p, labels = log_p[rows], labels[rows]
    return log_p.double(), labels
