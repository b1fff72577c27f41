"""Estimates of label noise from predictions for held-out samples.

Notation: ``T[k, y]`` is the probability that a sample of class k has the label y; ``A`` the fraction of correct labels.
The estimates assume that a classifier is right more often where it is confident. They need no clean labels.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

CONFIDENT = 0.2  # fraction of the samples of each predicted class that count as confident
ERROR_RATIO = 0.4  # error rate of the confident predictions relative to that of all predictions; see docs/theory.md
MAX_TRUST = 0.6  # largest T[k, k] in training; see docs/theory.md
CLASS_SHRINKAGE = 10.0  # samples with the mean accuracy that are added to every class
TEMPERATURES = torch.logspace(0, 1.3, 27).tolist()
PRIOR_STD = 0.5  # standard deviation of the prior of log τ
IMPOSSIBLE = -1e4  # log-likelihood; finite, so that averages of models are finite
PRIOR_STEPS = 3  # of the EM algorithm for class frequencies
SYMMETRY_EVIDENCE = 2.0  # difference of log-likelihoods that shows symmetric noise
MIN_CHANGES = 2.0  # relative to one of n samples: fewer labels than 2 / n of all are not changed
KEEP_LABELS = 0.49  # weight of the classifier with which no label changes
MIN_PROB = 1e-8
MAX_CLASSES = 2048  # with more classes, wrong labels are not counted by pair of classes


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


def weighted_counts(
    predicted: Int[Tensor, " samples"],
    labels: Int[Tensor, " samples"],
    weights: Float[Tensor, " samples"],
    num_classes: int,
) -> Float[Tensor, "classes classes"]:
    """Return the weight of samples with predicted class k and label y, (c, c).

    Examples:
        >>> weighted_counts(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]), torch.tensor([1.0, 0.5, 1.0]), 2)
        tensor([[1.0000, 0.5000],
                [0.0000, 1.0000]])
    """
    pairs = (predicted * num_classes + labels).bincount(weights.double(), minlength=num_classes**2)
    return pairs.view(num_classes, num_classes).to(weights)


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


def transition_matrix(
    counts: Float[Tensor, "classes classes"],
    diagonal: Float[Tensor, " classes"],
    frequencies: Float[Tensor, " classes"],
) -> Float[Tensor, "classes classes"]:
    """Return T with this diagonal; wrong labels are distributed as among confident samples predicted as k.

    Their counts are smoothed by the label frequencies with the weight s that makes them likeliest: a large one for
    counts that fit to the frequencies, and for few counts; the smallest, c, for flips into one class; see
    ``smoothing_fits``.

    Examples:
        >>> counts = torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
        >>> transition_matrix(counts, torch.tensor([0.5, 0.8, 0.8]), torch.tensor([0.2, 0.4, 0.4]))
        tensor([[0.5000, 0.3500, 0.1500],
                [0.0667, 0.8000, 0.1333],
                [0.0667, 0.1333, 0.8000]])
    """
    counts, frequencies = off_diagonal(counts, frequencies)
    weights, fits = smoothing_fits(counts, frequencies)
    weight = weights[fits >= fits.max() - 1e-6].max()  # few counts have the same likelihood for all weights
    wrong = counts + weight.to(counts) * frequencies
    return (1 - diagonal)[:, None] * wrong / wrong.sum(1, keepdim=True) + diagonal.diag()


def off_diagonal(
    counts: Float[Tensor, "classes classes"], frequencies: Float[Tensor, " classes"]
) -> tuple[Float[Tensor, "classes classes"], Float[Tensor, "classes classes"]]:
    """Return the counts of wrong labels, and for each class the frequencies of the other labels, both 0 at the class.

    Examples:
        >>> off_diagonal(torch.tensor([[3.0, 1.0], [2.0, 4.0]]), torch.tensor([0.6, 0.4]))
        (tensor([[0., 1.],
                [2., 0.]]), tensor([[0., 1.],
                [1., 0.]]))
    """
    mask = 1 - torch.eye(len(frequencies), device=frequencies.device)
    return counts * mask, frequencies * mask / (frequencies * mask).sum(1, keepdim=True)


def smoothing_fits(
    counts: Float[Tensor, "classes classes"], frequencies: Float[Tensor, "classes classes"]
) -> tuple[Float[Tensor, " weights"], Float[Tensor, " weights"]]:
    """Return the weights s = c, 2 c, 4 c, ..., 256 c and the log-likelihood of the counts for each, up to a constant.

    A row of counts has the Dirichlet-multinomial distribution with parameters s f.

    Args:
        counts: wrong labels, see ``off_diagonal``.
        frequencies: f, likewise.

    Examples:
        >>> frequencies = (1 - torch.eye(3)) / 2
        >>> for counts in (50 * frequencies, torch.eye(3).roll(1, 0) * 50):
        ...     weights, fits = smoothing_fits(counts, frequencies)
        ...     print(weights[fits.argmax()])
        tensor(768., dtype=torch.float64)
        tensor(3., dtype=torch.float64)
    """
    weights = len(counts) * 2.0 ** torch.arange(9, dtype=torch.float64, device=counts.device)
    where = counts > 0  # counts of 0 do not contribute
    n, priors = counts[where].double(), weights[:, None] * frequencies[where].double()
    terms = (priors + n).lgamma() - priors.lgamma()
    totals = (weights[:, None] + counts.double().sum(1)).lgamma() - weights.lgamma()[:, None]
    return weights, terms.sum(1) - totals.sum(1)


def has_symmetric_noise(counts: Float[Tensor, "classes classes"], frequencies: Float[Tensor, " classes"]) -> bool:
    """Return whether the counts of wrong labels are shown to follow the label frequencies, whatever the class.

    The log-likelihood for the largest weight in ``smoothing_fits`` exceeds that for the smallest by at least 2.

    Examples:
        >>> frequencies = torch.full((3,), 1 / 3)
        >>> [has_symmetric_noise(n * torch.ones(3, 3), frequencies) for n in (50.0, 1.0)]
        [True, False]
        >>> has_symmetric_noise(torch.eye(3).roll(1, 0) * 50, frequencies)
        False
    """
    fits = smoothing_fits(*off_diagonal(counts, frequencies))[1]
    return bool(fits[-1] - fits[0] >= SYMMETRY_EVIDENCE)


def log_identity(num_classes: int) -> Float[Tensor, "labels classes"]:
    """Return log T for labels that are all correct, as ``label_likelihood`` takes it.

    Examples:
        >>> log_identity(2)
        tensor([[     0., -10000.],
                [-10000.,      0.]])
    """
    rows = num_classes if num_classes <= MAX_CLASSES else 2
    matrix = torch.full((rows, num_classes), IMPOSSIBLE)
    if rows == 2 < num_classes:
        matrix[0] = 0.0
        return matrix
    return matrix.fill_diagonal_(0.0)


def label_likelihood(
    log_likelihood: Float[Tensor, "labels classes"],
    labels: Int[Tensor, " samples"],
    frequencies: Float[Tensor, " classes"],
) -> Float[Tensor, "samples classes"]:
    """Return log T[:, y] for each label y.

    Args:
        log_likelihood: row y is log T[:, y]; for more than 2,048 classes the diagonal D of T in the first row and
            log((1 - D_k) / (1 - f_k)) in the second: a wrong label is then drawn by the frequencies f.
        labels: y.
        frequencies: f.
    """
    if len(log_likelihood) == len(frequencies):
        return log_likelihood.index_select(0, labels)
    diagonal, wrong = log_likelihood
    rows = wrong + frequencies.to(wrong)[labels].log()[:, None]
    return rows.scatter(1, labels[:, None], diagonal[labels][:, None])


def log_transition(
    counts: Float[Tensor, "classes classes"] | None,
    diagonal: Float[Tensor, " classes"],
    frequencies: Float[Tensor, " classes"],
) -> Float[Tensor, "labels classes"]:
    """Return log T as ``label_likelihood`` takes it; without counts, a wrong label is drawn by the frequencies."""
    if counts is None:
        return torch.stack([diagonal, (1 - diagonal) / (1 - frequencies)]).log()
    return transition_matrix(counts, diagonal, frequencies).T.log()


def with_unlearned_classes(
    log_likelihood: Float[Tensor, "labels classes"], learned: Bool[Tensor, " classes"]
) -> Float[Tensor, "labels classes"]:
    """Return log T, as ``label_likelihood`` takes it, without noise from or to classes that are not ``learned``.

    Examples:
        >>> log_likelihood = torch.tensor([[0.6, 0.2, 0.1], [0.3, 0.7, 0.1], [0.1, 0.1, 0.8]]).log()
        >>> with_unlearned_classes(log_likelihood, torch.tensor([True, True, False])).exp()
        tensor([[0.6000, 0.2000, 0.0000],
                [0.3000, 0.7000, 0.0000],
                [0.0000, 0.0000, 1.0000]])
    """
    if len(log_likelihood) == len(learned):
        return torch.where(
            learned[:, None] & learned, log_likelihood, log_identity(len(learned)).to(log_likelihood.device)
        )
    diagonal, wrong = log_likelihood
    # The entry of an unlearned label exceeds all others, which are not known in this form.
    return torch.stack([diagonal.where(learned, -IMPOSSIBLE), wrong.where(learned, IMPOSSIBLE)])


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
    counts = weighted_counts(predicted, labels, weights, classes) if classes <= MAX_CLASSES else None
    log_likelihood, lowered, verdict = (
        log_transition(counts, value, frequencies)
        for value in (diagonal.clamp_max(MAX_TRUST), diagonal, verdict_diagonal)
    )
    temperature = fit_temperature(
        held_out_probs.clamp_min(MIN_PROB).log(), label_likelihood(lowered, held_out_labels, frequencies)
    )
    low = max(overall - math.sqrt(overall * (1 - overall) / held_out), 0.0)
    strength = math.sqrt(min(low / accuracy, 1.0) * float(held_out_probs.amax(1).mean()))
    prior, weight = frequencies, credibility(strength)
    if weight > 0:  # a weak network would follow the prior instead of the samples
        is_symmetric = counts is not None and has_symmetric_noise(counts, frequencies)
        prior = class_prior(lowered, frequencies, is_symmetric=is_symmetric)
        likelihood = label_likelihood(verdict, train_labels, frequencies)
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
