"""How certain a proposed label is under assumptions that favor the given one; for changes that are not reviewed.

Labels alone cannot tell noise between two similar classes from a classifier that confuses them. So the classifier is
assumed to be wrong more often than it says. With p' ∝ p^(1.25 β), n out-of-sample rows, and C[k, j] the mean of p'[j]
over rows with the predicted class k,

    q = (1 - ε) (p' (1 - Σ e) + e) + ε / c,    e[j] = C[k, j] / 2,    ε = 1 / (2 n + 2).

The classifier is confidently wrong half as often as it expects to be wrong, in favor of the classes that it confuses,
and n rows cannot bound its error rate below ε. These errors replace the small probabilities of p, which most
classifiers overestimate: hence the power 1.25. T is fitted again with q, so that noise which the errors explain is not
counted, and is scaled to the lower end of the 95 % interval of its noise rate.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from permll.functional.posterior import CHUNK_ROWS, label_log_odds, label_posterior
from permll.functional.transition_fit import MIN_PROB, run_em, subsample

CONFIDENT_ERRORS = 0.5  # of the errors that the probabilities of a classifier imply
SHARPENING = 1.25  # of the power β
_MAX_SHIFT = 20.0  # nats
_BISECTIONS = 50


def conservative_confidence(
    log_p: Float[Tensor, "samples classes"],
    labels: Int[Tensor, " samples"],
    proposals: Int[Tensor, " samples"],
    power: float,
    num_trained: int = 0,
) -> Float[Tensor, " samples"]:
    """Return the probability of each proposed class, in float32; of a proposal that is the given label, 1.

    Args:
        log_p: logarithms of predicted probabilities, or logits.
        labels: given labels.
        proposals: proposed classes.
        power: β of ``fit_power``.
        num_trained: number of first rows that the classifier was trained on. It is biased toward their labels: the
            log-odds of these are lowered until as many of them are wrong as of the others.

    Examples:
        >>> classes = torch.tensor([0, 1]).repeat(500)
        >>> log_p = (0.98 * torch.nn.functional.one_hot(classes, 2) + 0.01).log()
        >>> labels = classes.clone()
        >>> labels[::10] = 1 - labels[::10]
        >>> conservative_confidence(log_p, labels, classes, 1.0)[:2]        # the first label is wrong
        tensor([0.9670, 1.0000])
    """
    changed = (proposals != labels).nonzero()[:, 0]
    confidence = torch.ones(len(labels), dtype=torch.float32, device=labels.device)
    if len(changed) == 0:
        return confidence
    power, num_trained = SHARPENING * power, num_trained if num_trained < len(labels) else 0
    rows = len(labels) - num_trained
    outside, given = subsample(log_p[num_trained:], labels[num_trained:])
    confusion = class_confusion(outside, power)
    q, fitted = subsample(log_p, labels)
    transition, _ = run_em(add_confident_errors(q, power, confusion, rows), fitted)
    q = add_confident_errors(outside, power, confusion, rows).log()
    transition = _with_lowest_rate(transition, _rate(q, given, transition), rows)
    rate = _rate(q, given, transition)
    shift = 0.0
    if num_trained:
        trained, given = subsample(log_p[:num_trained], labels[:num_trained])
        q = add_confident_errors(trained, power, confusion, rows).log()
        shift = shift_to_mean(label_log_odds(q, given, 1.0, transition), rate)
    for part in changed.split(CHUNK_ROWS):
        q, given = add_confident_errors(log_p[part], power, confusion, rows).log(), labels[part]
        r = label_posterior(q, given, 1.0, transition, torch.where(part < num_trained, shift, 0.0))
        confidence[part] = r.gather(1, proposals[part, None])[:, 0]
    return confidence


def class_confusion(log_p: Float[Tensor, "samples classes"], power: float) -> Float[Tensor, "classes classes"]:
    """Return C[k, j], the mean of p[j]^β, normalized, over rows with the predicted class k; 0 for j = k.

    Examples:
        >>> class_confusion(torch.tensor([[0.9, 0.1, 0.0], [0.7, 0.1, 0.2]]).log(), 1.0)[0]
        tensor([0.0000, 0.1000, 0.1000], dtype=torch.float64)
    """
    p = (power * log_p).softmax(-1)
    predicted, classes = p.argmax(1), p.shape[1]
    confusion = torch.zeros(classes, classes, dtype=torch.float64, device=p.device).index_add_(0, predicted, p.double())
    confusion /= predicted.bincount(minlength=classes)[:, None].clamp_min(1)
    return confusion.fill_diagonal_(0)


def add_confident_errors(
    log_p: Float[Tensor, "samples classes"], power: float, confusion: Float[Tensor, "classes classes"], rows: int
) -> Float[Tensor, "samples classes"]:
    """Return q (N, c) of the module, from C and the number of out-of-sample rows.

    Examples:
        >>> add_confident_errors(torch.tensor([[0.8, 0.2]]).log(), 1.0, torch.tensor([[0.0, 0.2], [0.2, 0.0]]), 24)
        tensor([[0.7156, 0.2844]])
    """
    p = (power * log_p).softmax(-1)
    errors = (CONFIDENT_ERRORS * confusion).to(p.dtype)[p.argmax(1)]
    floor = 1 / (2 * rows + 2)
    return (1 - floor) * (p * (1 - errors.sum(1, keepdim=True)) + errors) + floor / p.shape[1]


def shift_to_mean(log_odds: Float[Tensor, " samples"], rate: float) -> float:
    """Return the shift b in [0, 20] for which the mean probability that a label is wrong is a rate.

    Examples:
        >>> round(shift_to_mean(torch.tensor([2.0, 2.0]), 0.5), 3)
        2.0
    """
    low, high = 0.0, _MAX_SHIFT
    for _ in range(_BISECTIONS):
        shift = (low + high) / 2
        low, high = (shift, high) if float(torch.sigmoid(shift - log_odds).mean()) < rate else (low, shift)
    return low


def _rate(q: Tensor, labels: Tensor, transition: Tensor) -> float:
    return float(torch.sigmoid(-label_log_odds(q, labels, 1.0, transition)).mean())


def _with_lowest_rate(transition: Tensor, rate: float, rows: int) -> Tensor:
    """Return T with its noise scaled to the lower end of the 95 % interval of the rate."""
    lowest = max(rate - 1.96 * math.sqrt(rate * (1 - rate) / rows), 0.0)
    noise = transition * (lowest / max(rate, MIN_PROB))
    noise.fill_diagonal_(0)
    return (noise + torch.diag(1 - noise.sum(1))).clamp_min(MIN_PROB)
