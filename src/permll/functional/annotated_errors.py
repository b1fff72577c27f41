"""Which consensus labels are wrong, from the answers of several annotators and the predictions of a network.

The network is one more annotator, whose answer is a probability. With its predictions p, the answers y_a of annotators
a to sample n, their confusion matrices C_a and the class frequencies π,

    r[k] ∝ q[k] d[k] / π[k],    q ∝ p^β,    d ∝ (π[k] Π_a C_a[k, y_a])^α.

Annotators err on the same hard samples, so their answers count less than independent ones would: α < 1. α and β
maximize the mean of log Σ_k q[k] d[k] / π[k] over held-out samples: how much likelier prediction and answers are
together than each by itself, if they are independent given the class. They are not: the network has learned from the
consensus and repeats some of its mistakes, so α is 0.7 at most.

C starts from the consensus of the annotators (``dawid_skene``) and is then estimated from r, three times, each time for
sample n without its own answers: most annotators answer few samples and would confirm themselves. It is smoothed as
in ``dawid_skene``. The network is biased toward labels that it was trained on: on these, the log-odds of the labels
are lowered until as many are wrong as of the others.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from permll.functional.conservative import conservative_confidence, shift_to_mean
from permll.functional.label_errors import LabelErrors, RateInterval, with_trusted
from permll.functional.multiple_annotators import PSEUDO_ANSWERS, Answers, dawid_skene
from permll.functional.noise_rate import joint_from_label_probs
from permll.functional.transition_fit import MIN_PROB, smoothed
from permll.utils.indexing import subsample_rows

ROUNDS = 3
ANSWER_POWERS = (0.1, 0.15, 0.2, 0.25, 0.35, 0.5, 0.7)  # α
PREDICTION_POWERS = tuple(2 ** (step / 4) for step in range(-4, 7))  # β, 0.5 to 2.8
MAX_FIT_ROWS = 10_000
_MAX_SHIFT = 10.0  # nats


class Powers(NamedTuple):
    """The weights of the answers, α, and of the predictions, β."""

    answers: float
    predictions: float


def find_annotated_errors(
    log_p: Float[Tensor, "samples classes"],
    answers: Answers,
    labels: Int[Tensor, " samples"],
    num_trained: int = 0,
    trusted: Bool[Tensor, " samples"] | None = None,
    known: RateInterval | None = None,
) -> LabelErrors:
    """Return quality, proposals and the fraction of wrong labels; see the module.

    Args:
        log_p: logarithms of predicted probabilities, or logits.
        answers: of the annotators.
        labels: consensus labels, or others.
        num_trained: number of first rows that the classifier was trained on; the others are out of sample.
        trusted: samples whose labels a person reviewed: their quality is 1, and they do not count as evidence.
        known: fraction of wrong labels among the others, if reviewed labels tell it.

    Examples:
        >>> table = torch.tensor([[0, 0, 1], [1, 1, 0], [0, 0, 0], [1, 1, 1]]).repeat(25, 1)
        >>> classes = torch.tensor([0, 1]).repeat(50)
        >>> log_p = (0.98 * torch.nn.functional.one_hot(classes, 2) + 0.01).log()
        >>> errors = find_annotated_errors(log_p, Answers.from_table(table, 2), table[:, 2])
        >>> (errors.quality[:4] > 0.5).tolist()        # of the labels of the third annotator
        [False, False, True, True]
    """
    if trusted is not None and bool(trusted.any()):
        rest = ~trusted
        kept = rest.nonzero()[:, 0]
        errors = find_annotated_errors(
            log_p[rest], answers.take(kept), labels[rest], int(rest[:num_trained].sum()), known=known
        )
        return with_trusted(errors, labels, trusted)
    num_trained = num_trained if num_trained < len(labels) else 0
    posterior, powers, people = combined_posterior(log_p, answers, labels, num_trained)
    log_odds, outside = _log_odds(posterior, labels), slice(num_trained, None)
    rate = float(torch.sigmoid(-log_odds[outside]).mean())
    lowest = min(rate, float(1 - people[outside].gather(1, labels[outside, None]).mean()))
    shifts = torch.zeros_like(log_odds)
    if num_trained:
        shifts[:num_trained] = shift_to_mean(log_odds[:num_trained], rate)
    margin = 1.96 * math.sqrt(rate * (1 - rate) / len(labels[outside]))
    limits = max(lowest - margin, 0.0), min(rate + margin, 1.0)
    if known is not None:  # a shift in [-10, 10], on all rows
        shifts += shift_to_mean(log_odds - shifts + _MAX_SHIFT, known.rate) - _MAX_SHIFT
        rate, limits = known.rate, (known.low, known.high)
    posterior = posterior.clamp_min(MIN_PROB).log().scatter_add(1, labels[:, None], -shifts[:, None]).softmax(1)
    proposals = posterior.argmax(1)
    confidence = conservative_confidence(log_p, labels, proposals, powers.predictions, num_trained)
    joint = joint_from_label_probs(posterior, labels)
    return LabelErrors(
        (log_odds - shifts).sigmoid().float(),
        posterior.float(),
        torch.minimum(confidence, posterior.amax(1).float()),
        rate,
        limits,
        smoothed(joint, len(labels)),
        joint,
    )


def combined_posterior(
    log_p: Float[Tensor, "samples classes"],
    answers: Answers,
    labels: Int[Tensor, " samples"],
    num_trained: int = 0,
) -> tuple[Float[Tensor, "samples classes"], Powers, Float[Tensor, "samples classes"]]:
    """Return r (N, c) in float64 without a correction of trained rows, α and β, and d, the posterior of the people.

    A classifier that is not better than the majority class says nothing: q = π, and β is 0.

    Examples:
        >>> table = torch.tensor([[0, 0], [1, 1], [0, 1]]).repeat(20, 1)
        >>> log_p = torch.tensor([[0.9, 0.1], [0.1, 0.9], [0.1, 0.9]]).log().repeat(20, 1)
        >>> combined_posterior(log_p, Answers.from_table(table, 2), table[:, 1])[0].argmax(1)[:3]
        tensor([0, 1, 1])
    """
    outside = slice(num_trained, None)
    some = subsample_rows(len(labels[outside]), MAX_FIT_ROWS) + num_trained
    is_useful = beats_majority(log_p[outside].argmax(1), labels[outside])
    log_p, r = log_p.double(), dawid_skene(answers).posterior
    for _ in range(ROUNDS):
        prior = r.mean(0).clamp_min(MIN_PROB)
        log_d = prior.log() + answer_log_likelihood(answers, r)
        powers = fit_powers(log_p[some], log_d[some], prior) if is_useful else Powers(1.0, 0.0)
        people = (powers.answers * log_d).softmax(1)
        r = (powers.predictions * log_p + powers.answers * log_d - prior.log()).softmax(1) if is_useful else people
    return r, powers, people


def fit_powers(
    log_p: Float[Tensor, "samples classes"], log_d: Float[Tensor, "samples classes"], prior: Float[Tensor, " classes"]
) -> Powers:
    """Return α and β that maximize the mean of log Σ_k q[k] d[k] / π[k].

    Examples:
        >>> log_p = torch.tensor([[0.9, 0.1], [0.1, 0.9], [0.1, 0.9]]).log()
        >>> log_d = torch.tensor([[0.999, 0.001], [0.999, 0.001], [0.001, 0.999]]).log()
        >>> fit_powers(log_p, log_d, torch.tensor([0.5, 0.5])).answers
        0.1
    """
    of_answers = {power: (power * log_d).softmax(1) / prior for power in ANSWER_POWERS}
    best, powers = -math.inf, Powers(1.0, 1.0)
    for beta in PREDICTION_POWERS:
        q = (beta * log_p).softmax(1)
        for alpha, d in of_answers.items():
            fit = float((q * d).sum(1).clamp_min(MIN_PROB).log().mean())
            if fit > best:
                best, powers = fit, Powers(alpha, beta)
    return powers


def answer_log_likelihood(answers: Answers, r: Float[Tensor, "samples classes"]) -> Float[Tensor, "samples classes"]:
    """Return Σ_a log C_a[k, y_a] (N, c), with C of each sample estimated without its own answers.

    C_a[k, y] = (s_a[k, y] + m P[k, y]) / (Σ_y s_a[k, y] + m), where s_a[k, y] sums r[k] over the other samples that a
    answered with y, P is the confusion matrix of all annotators, and m the number of pseudo answers.

    Examples:
        >>> answers = Answers.from_table(torch.tensor([[0, 0], [0, 0], [1, 1]]), 2)
        >>> answer_log_likelihood(answers, torch.eye(2).double()[[0, 0, 1]]).argmax(1)
        tensor([0, 0, 1])
    """
    samples, annotators, labels, n, num_annotators, classes = answers
    counts = torch.zeros(num_annotators, classes, classes, dtype=torch.float64)  # annotator, answer, class
    own = r[samples]
    counts.index_put_((annotators, labels), own, accumulate=True)
    pooled = counts.sum(0) + 1 / classes  # answer, class
    pooled = PSEUDO_ANSWERS * pooled / pooled.sum(0)
    same = (counts[annotators, labels] - own).clamp_min(0) + pooled[labels]
    total = (counts.sum(1)[annotators] - own).clamp_min(0) + PSEUDO_ANSWERS
    return torch.zeros(n, classes, dtype=torch.float64).index_add_(0, samples, (same / total).log())


def beats_majority(predicted: Int[Tensor, " samples"], labels: Int[Tensor, " samples"]) -> bool:
    """Return whether predictions agree with labels significantly more often than the majority class does.

    Examples:
        >>> labels = torch.tensor([0, 1]).repeat(20)
        >>> beats_majority(labels, labels), beats_majority(torch.zeros_like(labels), labels)
        (True, False)
    """
    majority = float(labels.bincount().max()) / len(labels)
    right = float((predicted == labels).double().mean())
    return right > majority + 2 * math.sqrt(majority * (1 - majority) / len(labels))


def _log_odds(posterior: Tensor, labels: Tensor) -> Tensor:
    """Return log(r[y] / (1 - r[y])) (N,)."""
    index, scores = labels[:, None], posterior.clamp_min(MIN_PROB).log()
    own = scores.gather(1, index)[:, 0]
    return own - scores.scatter(1, index, -torch.inf).logsumexp(1)
