"""Quality of the annotators of a data set, from the posterior of its samples."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from permll.data.annotations import Annotations
from permll.functional.multiple_annotators import Answers
from permll.utils.indexing import ranges_by_key

NETWORK = "the network"
Z = 1.96  # of a 95 % interval


def annotator_quality(
    annotations: Annotations, posterior: Tensor, labels: Tensor, classes: Sequence[str], log_p: Tensor
) -> list[dict[str, Any]]:
    """Return the quality of each annotator as JSON values, least accurate first, then that of the network.

    ``accuracy`` is the mean posterior of the answers, with a 95 % interval (``low``, ``high``); ``agreement`` the
    fraction that equals the label; ``confusion`` the most frequent wrong answer: its class, the answer and the expected
    count.

    Args:
        annotations: of N samples.
        posterior: (N, c).
        labels: (N,) consensus.
        classes: c names.
        log_p: (N, c) predictions of the network; rows that it was not trained on are finite, the others NaN.

    Examples:
        >>> table = torch.tensor([[0, 0], [1, 0]])
        >>> annotations = Annotations(("ann", "bob"), Answers.from_table(table, 2))
        >>> posterior = torch.tensor([[0.9, 0.1], [0.25, 0.75]])
        >>> bob, ann, _ = annotator_quality(annotations, posterior, table[:, 0], ["cat", "dog"], posterior.log())
        >>> bob["annotator"], round(bob["accuracy"], 2), bob["confusion"]
        ('bob', 0.55, {'class': 'dog', 'answer': 'cat', 'count': 0.8})
        >>> ann["agreement"], ann["answers"]
        (1.0, 2)
    """
    answers = annotations.answers
    predicted = (~log_p[:, 0].isnan()).nonzero()[:, 0]
    network = Answers(
        predicted, torch.zeros_like(predicted), log_p[predicted].argmax(1), len(labels), 1, answers.num_classes
    )
    people = _quality(answers, annotations.names, posterior, labels, classes)
    people.sort(key=lambda one: (one["accuracy"], one["annotator"]))
    return people + _quality(network, (NETWORK,), posterior, labels, classes)


def _quality(
    answers: Answers, names: Sequence[str], posterior: Tensor, labels: Tensor, classes: Sequence[str]
) -> list[dict[str, Any]]:
    r, result = posterior.double(), []
    for a, rows in enumerate(ranges_by_key(answers.annotators, len(names))):
        if not len(rows):
            continue
        samples, given = answers.samples[rows], answers.labels[rows]
        accuracy = float(r[samples, given].mean())
        low, high = wilson_interval(accuracy, len(rows))
        result.append(
            {
                "annotator": names[a],
                "answers": len(rows),
                "accuracy": round(accuracy, 4),
                "low": round(low, 4),
                "high": round(high, 4),
                "agreement": round(float((labels[samples] == given).double().mean()), 4),
                "confusion": _confusion(r[samples], given, classes),
            }
        )
    return result


def _confusion(r: Tensor, given: Tensor, classes: Sequence[str]) -> dict[str, Any] | None:
    """Return the pair of a class and another answer with the largest expected count; None below one half."""
    counts = torch.zeros(len(classes), len(classes), dtype=r.dtype).index_add_(0, given, r).fill_diagonal_(0)
    answer, true = divmod(int(counts.argmax()), len(classes))
    count = float(counts[answer, true])
    return {"class": classes[true], "answer": classes[answer], "count": round(count, 1)} if count >= 0.5 else None


def wilson_interval(fraction: float, count: int) -> tuple[float, float]:
    """Return the 95 % interval (Wilson) of a fraction of a number of trials.

    Examples:
        >>> [round(limit, 3) for limit in wilson_interval(0.5, 100)]
        [0.404, 0.596]
    """
    center = (fraction + Z**2 / (2 * count)) / (1 + Z**2 / count)
    half = Z / (1 + Z**2 / count) * math.sqrt(fraction * (1 - fraction) / count + Z**2 / (4 * count**2))
    return max(center - half, 0.0), min(center + half, 1.0)


def is_disputed(annotations: Annotations, labels: Tensor) -> Tensor:
    """Return (N,) which samples have an answer that differs from the label.

    Examples:
        >>> annotations = Annotations(("ann", "bob"), Answers.from_table(torch.tensor([[0, 0], [1, 0]]), 2))
        >>> is_disputed(annotations, torch.tensor([0, 1]))
        tensor([False,  True])
    """
    answers = annotations.answers
    disputed = torch.zeros(len(labels), dtype=torch.bool)
    disputed[answers.samples[answers.labels != labels[answers.samples]]] = True
    return disputed


def named_answers(annotations: Annotations | None, row: int, classes: Sequence[str]) -> list[tuple[str, str]]:
    """Return the annotators of a sample with their answers as class names; [] without annotators."""
    return [] if annotations is None else [(name, classes[k]) for name, k in annotations.to_sample(row)]
