"""Which labels are wrong, from out-of-sample predictions: quality, proposals and the fraction of wrong labels.

Assumption: every sample has one correct class, the one that most careful annotators would give. With p the predicted
probabilities, and T[k, y] the probability that a sample of class k has the label y, the posterior of class k is

    r[k] ∝ p[k]^β T[k, y] exp(-b [k = y]).

β and T are fitted to the labels (``fit_power``, ``fit_transition``). They determine which labels are more suspect than
others. How many are wrong is not identified: a classifier that predicts noisy labels perfectly explains them without
any error, so labels cannot tell mistakes from ambiguous samples. The fraction is known up to an interval:

- At least the fraction that T explains is wrong, ``low``: the mean of 1 - r[y] with b = 0.
- At most as many labels are issues as differ from the prediction, if the classifier is right about them.

If T explains most of the disagreement, the noise depends on the class but not on the sample, and the rest is attributed
to the classifier. Otherwise the mistakes are where samples are hard, as people make them, and the disagreement is
attributed to the labels. So the fraction of issues is between these limits (``disagreement_weight``), and b is chosen
for it. The noise rate has the same weight between ``low`` and the mean of 1 - r[y] with this b. A label is proposed if
it is the most probable class at the middle between ``low`` and the fraction of issues.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from permll.functional.conservative import conservative_confidence
from permll.functional.noise_rate import joint_from_label_probs
from permll.functional.posterior import label_log_odds, label_posterior, shift_for_rate
from permll.functional.transition_fit import MIN_PROB, fit_power, fit_transition, smoothed


class RateInterval(NamedTuple):
    """A fraction of wrong labels with a 95 % interval."""

    rate: float
    low: float
    high: float


class LabelErrors(NamedTuple):
    """Result of ``find_errors``."""

    quality: Float[Tensor, " samples"]  # probability that the label is correct; at most 1/2 for issues
    posterior: Float[Tensor, "samples classes"]  # for proposals
    confidence: Float[Tensor, " samples"]  # of the proposals, under assumptions that favor the given labels
    rate: float  # estimated fraction of wrong labels
    limits: tuple[float, float]  # of the rate: ``low`` and the rate, beyond their sampling error of 95 %
    transition: Float[Tensor, "classes classes"]  # T
    joint: Float[Tensor, "classes classes"]  # J[k, y] = P(class k, label y), with this rate


def find_errors(
    log_p: Float[Tensor, "samples classes"],
    labels: Int[Tensor, " samples"],
    num_trained: int = 0,
    trusted: Bool[Tensor, " samples"] | None = None,
    known: RateInterval | None = None,
) -> LabelErrors:
    """Return quality, proposals and the fraction of wrong labels; see the module.

    Args:
        log_p: logarithms of predicted probabilities, or logits.
        labels: given labels.
        num_trained: number of first rows that the classifier was trained on; the others are out of sample. Trained rows
            are biased toward their labels, so they have a shift of their own, for the same rate.
        trusted: samples whose labels a person reviewed: their quality is 1. They do not count as evidence about the
            others, since a reviewer chooses the most suspect labels.
        known: fraction of wrong labels among the others, if reviewed labels tell it (``review_calibration``).

    Examples:
        >>> labels = torch.tensor([0, 1]).repeat(50)
        >>> log_p = (0.98 * torch.nn.functional.one_hot(labels, 2) + 0.01).log()
        >>> labels[::10] = 1 - labels[::10]
        >>> errors = find_errors(log_p, labels)
        >>> round(errors.rate, 2), int((errors.quality <= 0.5).sum())
        (0.09, 10)
    """
    if trusted is not None and bool(trusted.any()):
        rest = ~trusted
        errors = find_errors(log_p[rest], labels[rest], int(rest[:num_trained].sum()), known=known)
        return with_trusted(errors, labels, trusted)
    num_trained = num_trained if num_trained < len(labels) else 0
    groups = [slice(0, num_trained), slice(num_trained, None)] if num_trained else [slice(None)]
    outside = groups[-1]

    def shifts(value: float) -> Tensor:
        return torch.cat([torch.full_like(part := log_odds[group], shift_for_rate(part, value)) for group in groups])

    power = fit_power(log_p[outside], labels[outside])
    transition = fit_transition(log_p, labels, power)
    log_odds = label_log_odds(log_p, labels, power, transition)
    low = float(torch.sigmoid(-log_odds[outside]).mean())
    disagreement = float((log_p[outside].argmax(1) != labels[outside]).double().mean())
    n = len(labels[outside])
    majority = float(labels[outside].bincount().max()) / n
    low = min(low, disagreement)
    weight = disagreement_weight(low, disagreement, majority)
    issues = low + weight * (disagreement - low)
    if 1 - disagreement <= majority + 2 * math.sqrt(majority * (1 - majority) / n):
        low = issues = 0.0  # predictions that do not depend on the samples say nothing about their labels
    if known is not None:
        low = issues = known.rate
    if num_trained:  # T is too small off the diagonal as long as the bias of these rows is not subtracted
        posterior = label_posterior(log_p, labels, power, transition, shifts((low + issues) / 2))
        transition = smoothed(joint_from_label_probs(posterior, labels), len(labels))
        log_odds = label_log_odds(log_p, labels, power, transition)
    posterior = label_posterior(log_p, labels, power, transition, shifts((low + issues) / 2))
    quality = log_odds.sub_(shifts(issues)).sigmoid_().float()
    rate = low + weight * (float((1 - quality[outside]).double().mean()) - low) if issues else 0.0
    margin = 1.96 * math.sqrt(rate * (1 - rate) / n)
    limits = max(low - margin, 0.0), min(rate + margin, 1.0)
    if known is not None:
        rate, limits = known.rate, (known.low, known.high)
    joint = _with_rate(joint_from_label_probs(posterior[outside], labels[outside]), rate)
    return LabelErrors(
        quality,
        posterior,
        conservative_confidence(log_p, labels, posterior.argmax(1), power, num_trained),
        rate,
        limits,
        transition,
        joint,
    )


def disagreement_weight(low: float, disagreement: float, majority: float = 0.0) -> float:
    """Return ρ s, the weight of the disagreement that T does not explain.

    ρ is 1 if T explains at most 30 % of the disagreement, 0 if it explains at least 60 %, and linear between them. s is
    1 if the classifier predicts at least half of the labels that the majority class does not, 0 if none, and linear
    between them.

    Args:
        low: fraction of wrong labels that T explains.
        disagreement: fraction of labels that differ from the prediction.
        majority: fraction of the most frequent label.

    Examples:
        >>> disagreement_weight(0.05, 0.2)      # people's mistakes
        1.0
        >>> disagreement_weight(0.2, 0.3)       # noise that does not depend on the sample
        0.0
        >>> disagreement_weight(0.05, 0.7, majority=0.4)      # no better than the majority class
        0.0
    """
    if low >= disagreement:
        return 0.0
    unexplained = min(max(2 - low / (0.3 * disagreement), 0.0), 1.0)
    skill = max(1 - disagreement - majority, 0.0) / max(1 - majority, MIN_PROB)
    return unexplained * min(2 * skill, 1.0)


def with_trusted(errors: LabelErrors, labels: Tensor, trusted: Tensor) -> LabelErrors:
    """Return the errors of the other samples, and correct labels of the trusted ones."""
    rest, classes = ~trusted, errors.posterior.shape[1]
    quality = torch.ones(len(labels), dtype=errors.quality.dtype, device=labels.device)
    posterior = torch.nn.functional.one_hot(labels, classes).to(errors.posterior)
    confidence = torch.ones_like(quality)
    quality[rest], posterior[rest], confidence[rest] = errors.quality, errors.posterior, errors.confidence
    part = float(rest.double().mean())
    joint = part * errors.joint + joint_from_label_probs(posterior[trusted], labels[trusted]) * (1 - part)
    limits = errors.limits[0] * part, errors.limits[1] * part
    return LabelErrors(quality, posterior, confidence, errors.rate * part, limits, errors.transition, joint)


def _with_rate(joint: Tensor, rate: float) -> Tensor:
    """Return J with off-diagonal entries that sum to ``rate``, and the same frequencies of labels."""
    diagonal = joint.diagonal().diag()
    wrong = joint - diagonal
    total = float(wrong.sum())
    wrong = wrong * (rate / total) if total > 0 else wrong
    return wrong + (joint.sum(0) - wrong.sum(0)).clamp_min(0).diag()
