"""Estimates of label noise from predictions for held-out samples.

Notation: ``T[k, y]`` is the probability that a sample of class k has the label y; ``A`` the fraction of correct labels.
The estimates assume that a classifier is right more often where it is confident. They need no clean labels.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from permll.layer import transition

CONFIDENT = 0.2  # fraction of the samples of each predicted class that count as confident
ERROR_RATIO = 0.4  # error rate of the confident predictions relative to that of all predictions; see docs/theory.md
MAX_TRUST = 0.6  # largest T[k, k] in training; see docs/theory.md
CLASS_SHRINKAGE = 10.0  # samples with the mean accuracy that are added to every class
TEMPERATURES = torch.logspace(0, 1.3, 27).tolist()
PRIOR_STD = 0.5  # standard deviation of the prior of log τ
PRIOR_STEPS = 3  # of the EM algorithm for class frequencies
MIN_CHANGES = 2.0  # relative to one of n samples: fewer labels than 2 / n of all are not changed
KEEP_LABELS = 0.49  # weight of the classifier with which no label changes
MIN_PROB = 1e-8


class NoiseEstimate(NamedTuple):
    """What held-out samples say about the labels and about the classifier."""

    accuracy: float  # A, fraction of correct labels
    strength: float  # estimated accuracy of the classifier, less a standard error
    credibility: float  # weight of the classifier in the verdict on labels; below 1/2 none changes
    log_likelihood: Float[Tensor, "labels classes"]  # for training, T[k, k] <= MAX_TRUST; see ``label_likelihood``
    verdict_log_likelihood: Float[Tensor, "labels classes"]  # for the verdict on labels, T not limited
    temperature: float  # τ
    class_prior: Float[Tensor, " classes"]  # q


def label_probs(probs: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"]) -> Float[Tensor, " samples"]:
    """Return the probability p_y of each label."""
    return probs.gather(1, labels[:, None])[:, 0]


def label_log_odds(
    probs: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"]
) -> Float[Tensor, " samples"]:
    """Return log(p_y / (1 - p_y)) of each label.

    Examples:
        >>> label_log_odds(torch.tensor([[0.5, 0.5], [0.9, 0.1]]), torch.tensor([0, 0]))
        tensor([0.0000, 2.1972])
    """
    return torch.logit(label_probs(probs, labels), eps=1e-6)


def confident_samples(
    probs: Float[Tensor, "samples classes"], weights: Float[Tensor, " samples"], fraction: float = CONFIDENT
) -> Int[Tensor, " confident"]:
    """Return the positions of the most confident samples of each predicted class, at least one of each.

    Args:
        probs: predictions.
        weights: weight of each sample, > 0.
        fraction: of the weight of each predicted class.

    Examples:
        >>> probs = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.8, 0.2], [0.3, 0.7]])
        >>> confident_samples(probs, torch.ones(5), fraction=0.5)
        tensor([0, 3, 4])
    """
    confidence, predicted = probs.max(1)
    order = confidence.argsort(descending=True, stable=True)
    order = order[predicted[order].argsort(stable=True)]  # by predicted class, the most confident first
    totals = torch.zeros(probs.shape[1], dtype=torch.float64, device=probs.device)
    totals.index_add_(0, predicted, weights.double())
    before = weights[order].double().cumsum(0) - weights[order] - (totals.cumsum(0) - totals)[predicted[order]]
    return order[before < fraction * totals[predicted[order]] - 1e-9]


def extrapolated_accuracy(confident: float, overall: float, error_ratio: float = ERROR_RATIO) -> float:
    """Return A from the agreement of labels with confident predictions and with all predictions; it may exceed 1.

    With e the error rate of the classifier, all predictions agree with A (1 - e) of the labels and confident ones with
    A (1 - ``error_ratio`` e). Solved for A.

    Examples:
        >>> round(extrapolated_accuracy(0.6, 0.6), 3)        # confidence does not matter: the classifier is perfect
        0.6
        >>> round(extrapolated_accuracy(0.75, 0.5), 3)       # a weak classifier explains the disagreement
        0.917
    """
    return (confident - error_ratio * overall) / (1 - error_ratio)


def train_sample_weight(train_agreement: float, held_out_agreement: float, trained: float, held_out: float) -> float:
    """Return the weight of a trained sample relative to a held-out one, in [0, 1].

    The agreement of predictions and labels of n trained samples is biased by memorization. Its bias d is the excess
    over that of held-out samples, beyond one standard error. With the variance v = a (1 - a) of an agreement, an
    estimate with variance v / n and bias d has the error of m = 1 / (1 / n + d² / v) unbiased samples: the weight is
    m / n.

    Examples:
        >>> round(train_sample_weight(0.62, 0.60, 1000, 100), 3)    # within the standard error
        1.0
        >>> round(train_sample_weight(0.90, 0.60, 1000, 100), 3)    # memorized
        0.004
    """
    variance = max(held_out_agreement * (1 - held_out_agreement), 1 / (4 * held_out))
    bias = max(train_agreement - held_out_agreement - math.sqrt(variance / held_out), 0.0)
    return 1 / (1 + trained * bias**2 / variance)


def class_accuracy(
    hits: Float[Tensor, " classes"], sizes: Float[Tensor, " classes"], accuracy: float
) -> Float[Tensor, " classes"]:
    """Return T[k, k] for each class k: the agreement of confident predictions, shrunk to its mean, scaled to A.

    Args:
        hits: weight of the confident samples predicted as k with label k.
        sizes: weight of the confident samples predicted as k.
        accuracy: A.

    Examples:
        >>> class_accuracy(torch.tensor([60.0, 100.0]), torch.tensor([100.0, 100.0]), accuracy=0.8)
        tensor([0.6175, 0.9807])
    """
    total = float(sizes.sum())
    mean = (hits.sum() + 1) / (total + 1)
    diagonal = (hits + CLASS_SHRINKAGE * mean) / (sizes + CLASS_SHRINKAGE) * (accuracy / mean)
    # n samples cannot show an error rate below 1 / (2n + 4).
    return diagonal.clamp(1 / len(hits), 1 - 1 / (2 * total + 4))


def is_growing(
    differences: Float[Tensor, " samples"], labels: Int[Tensor, " samples"], num_classes: int
) -> tuple[Bool[Tensor, " classes"], bool]:
    """Return for each label, and for all samples, whether the mean of the differences exceeds its standard error.

    The variance of each label is estimated with one additional sample that has the variance of all. Fewer than two
    samples of a label show nothing; the label counts as growing.

    Examples:
        >>> differences = torch.tensor([0.1, 0.1, 0.2, -0.1, 0.1, 0.1])
        >>> is_growing(differences, torch.tensor([0, 0, 0, 1, 1, 1]), 2)
        (tensor([ True, False]), True)
    """
    zeros = torch.zeros(num_classes, dtype=differences.dtype, device=differences.device)
    samples = zeros.index_add(0, labels, torch.ones_like(differences))
    counts = samples.clamp_min(1)
    means = zeros.index_add(0, labels, differences) / counts
    squares = zeros.index_add(0, labels, (differences - means[labels]).square())
    errors = (squares + differences.var()).sqrt() / counts
    error = differences.std() / math.sqrt(len(differences))
    return (means > errors) | (samples < 2), bool(differences.mean() > error)


def credibility(strength: float) -> float:
    """Return the weight of the classifier against the given labels: 0 up to a strength of 0.6, 1 from 0.75.

    A label can change only if this is above 1/2, for classifiers which are right for more than two thirds of samples.

    Examples:
        >>> [round(credibility(strength), 2) for strength in (0.5, 0.66, 0.72, 0.9)]
        [0.0, 0.4, 0.8, 1.0]
    """
    return min(max((strength - 0.6) / 0.15, 0.0), 1.0)


def verdict_probs(
    probs: Float[Tensor, "samples classes"],
    labels: Int[Tensor, " samples"],
    log_likelihood: Float[Tensor, "samples classes"],
    temperature: float,
    weight: Float[Tensor, "samples 1"] | float,
) -> Float[Tensor, "samples classes"]:
    """Return the class probabilities w softmax(log T[:, y] + log p / τ) + (1 - w) e_y.

    Args:
        probs: p.
        labels: y.
        log_likelihood: log T[:, y] of each label, see ``label_likelihood``.
        temperature: τ.
        weight: w, the credibility of the classifier.

    Examples:
        >>> likelihood = torch.tensor([[0.8, 0.2]]).log()
        >>> verdict_probs(torch.tensor([[0.2, 0.8]]), torch.tensor([0]), likelihood, 1.0, 0.6)
        tensor([[0.7000, 0.3000]])
    """
    given = torch.zeros_like(probs).scatter_(1, labels[:, None], 1.0)
    posterior = (log_likelihood + probs.clamp_min(MIN_PROB).log() / temperature).softmax(-1)
    return given + weight * (posterior - given)


def estimate_noise(
    held_out_probs: Float[Tensor, "held_out classes"],
    held_out_labels: Int[Tensor, " held_out"],
    train_probs: Float[Tensor, "trained classes"],
    train_labels: Int[Tensor, " trained"],
    frequencies: Float[Tensor, " classes"],
) -> NoiseEstimate:
    """Estimate label accuracy, transition matrix and classifier strength.

    A is the larger of two lower bounds: the agreement of predictions and labels of trained samples, which is less than
    A unless wrong labels are memorized; and that of confident held-out samples, less two standard errors. The verdict
    on labels uses the estimate without subtraction, since it has to keep correct labels. The strength of the classifier
    is the geometric mean of two estimates of its accuracy on held-out samples: agreement with labels divided by A, and
    mean confidence. A weak classifier on clean labels has a low confidence, a strong one on noisy labels a high one.
    If fewer than 2 / n of the labels would change, with n held-out samples, none does: errors that are so rare cannot
    be told from those of the classifier.

    Args:
        held_out_probs: predictions for samples that the network was not trained on.
        held_out_labels: their given labels.
        train_probs: predictions for trained samples.
        train_labels: their given labels.
        frequencies: frequency of each label among all samples.
    """
    classes, frequencies = held_out_probs.shape[1], frequencies.to(held_out_probs)
    held_out, trained = len(held_out_labels), len(train_labels)
    held_out_hits, train_hits = held_out_probs.argmax(1) == held_out_labels, train_probs.argmax(1) == train_labels
    overall, agreement = ((float(hits.sum()) + 0.5) / (len(hits) + 1) for hits in (held_out_hits, train_hits))
    confident_hits = held_out_hits[confident_samples(held_out_probs, torch.ones_like(held_out_probs[:, 0]))]
    confident = (float(confident_hits.sum()) + 0.5) / (len(confident_hits) + 1)
    error = math.sqrt(confident * (1 - confident) / len(confident_hits))
    limit = 1 - 1 / (2 * len(confident_hits) + 4)  # n samples cannot show a smaller error rate
    accuracy, verdict_accuracy = (
        max(min(max(agreement, extrapolated_accuracy(value, overall)), limit), 1 / classes)
        for value in (confident - 2 * error, confident)
    )
    share = train_sample_weight(agreement, overall, trained, held_out)
    weights = torch.cat([held_out_probs.new_ones(held_out), held_out_probs.new_full((trained,), share)])
    probs, labels = torch.cat([held_out_probs, train_probs]), torch.cat([held_out_labels, train_labels])
    predicted = probs.argmax(1)
    chosen = confident_samples(probs, weights)
    predicted, labels, weights = predicted[chosen], labels[chosen], weights[chosen]
    zeros = torch.zeros_like(frequencies)
    hits = zeros.index_add(0, labels, weights * (predicted == labels))
    sizes = zeros.index_add(0, predicted, weights)
    diagonal, verdict_diagonal = (class_accuracy(hits, sizes, value) for value in (accuracy, verdict_accuracy))
    shares, is_symmetric = None, False
    if classes <= transition.MAX_CLASSES:
        shares, is_symmetric = transition.wrong_label_shares(
            transition.weighted_counts(predicted, labels, weights, classes), frequencies
        )
    log_likelihood, lowered, verdict = (
        transition.log_transition(shares, value, frequencies)
        for value in (diagonal.clamp_max(MAX_TRUST), diagonal, verdict_diagonal)
    )
    temperature = fit_temperature(
        held_out_probs.clamp_min(MIN_PROB).log(), transition.label_likelihood(lowered, held_out_labels, frequencies)
    )
    low = max(overall - math.sqrt(overall * (1 - overall) / held_out), 0.0)
    strength = math.sqrt(min(low / accuracy, 1.0) * float(held_out_probs.amax(1).mean()))
    prior, weight = frequencies, credibility(strength)
    if weight > 0:  # a weak network would follow the prior instead of the samples
        prior = class_prior(lowered, frequencies, is_symmetric=is_symmetric)
        likelihood = transition.label_likelihood(verdict, train_labels, frequencies)
        after = verdict_probs(train_probs, train_labels, likelihood, temperature, weight).argmax(1)
        if float((after != train_labels).float().mean()) < MIN_CHANGES / held_out:
            weight = min(weight, KEEP_LABELS)
    return NoiseEstimate(accuracy, strength, weight, log_likelihood, verdict, temperature, prior)


def fit_temperature(
    log_probs: Float[Tensor, "samples classes"], log_likelihood: Float[Tensor, "samples classes"]
) -> float:
    """Return τ >= 1 that makes the labels of held-out samples likeliest, Σ log Σ_k T[k, y] softmax(log p / τ)_k.

    log τ has a normal prior.

    Args:
        log_probs: predictions.
        log_likelihood: log T[:, y] for the label y of each sample.

    Examples:
        >>> likelihood = torch.tensor([[0.99, 0.01], [0.01, 0.99]]).log()
        >>> labels = torch.tensor([0] * 80 + [1] * 20)
        >>> overconfident = torch.tensor([[0.0, -9.0]]).expand(100, 2)
        >>> [round(fit_temperature(overconfident[:n], likelihood[labels[-n:]]), 1) for n in (100, 5)]
        [5.0, 5.6]
    """
    likelihood, fits = log_likelihood.exp(), []
    for tau in TEMPERATURES:
        powers = (log_probs / tau).exp()  # of probabilities, so at least one of them is not small
        fit = ((powers * likelihood).sum(-1) / powers.sum(-1)).log().sum()
        fits.append(fit - 0.5 * (math.log(tau) / PRIOR_STD) ** 2)
    return TEMPERATURES[int(torch.stack(fits).argmax())]


def class_prior(
    log_likelihood: Float[Tensor, "labels classes"], frequencies: Float[Tensor, " classes"], *, is_symmetric: bool
) -> Float[Tensor, " classes"]:
    """Return estimated class frequencies q, from the frequencies f of the labels.

    Symmetric noise makes labels more equal than classes. Then q is found by three steps of the EM algorithm from equal
    classes, q_k ← q_k Σ_y f_y T[k, y] / Σ_j q_j T[j, y]; more steps would amplify errors of T. Other noise can make
    labels less equal: while most labels of a class are correct, it can at most halve their frequency. Then ratios of f
    to uniform frequencies within a factor of two become 1, and others move by it.

    Args:
        log_likelihood: log T, see ``label_likelihood``.
        frequencies: f.
        is_symmetric: whether the noise is symmetric.

    Examples:
        >>> T = torch.tensor([[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]])
        >>> class_prior(T.T.log(), torch.tensor([0.5, 0.4, 0.1]), is_symmetric=True)
        tensor([0.4940, 0.3838, 0.1222])
        >>> class_prior(T.T.log(), torch.tensor([0.5, 0.4, 0.1]), is_symmetric=False)
        tensor([0.3846, 0.3846, 0.2308])
    """
    if not is_symmetric:
        log_ratio = (frequencies * len(frequencies)).log()
        return (log_ratio.sign() * (log_ratio.abs() - math.log(2)).clamp_min(0)).softmax(-1)
    likelihood, prior = log_likelihood.exp(), torch.full_like(frequencies, 1 / len(frequencies))
    for _ in range(PRIOR_STEPS):
        joint = likelihood * prior
        prior = frequencies @ (joint / joint.sum(1, keepdim=True))
    return prior
