"""How often a prediction is right: in all, among the best k, and class by class.

``outputs`` are (N, c) probabilities or logits, of which the largest is the prediction (the lowest class among equals),
or (N,) predicted classes. ``labels`` are (N,) in 0..c-1. Below, ŷ is the predicted class and y the label.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from permll.evaluation.validation import Outputs, ratio, read_answers, read_scores


class ClassScore(NamedTuple):
    """How well one class is predicted."""

    label: int
    support: int  # samples with this label
    predicted: int  # samples predicted to be of this class
    right: int  # samples that are both
    recall: float | None  # right / support; None for a class without samples
    precision: float | None  # right / predicted; None for a class that is never predicted
    f1: float | None  # 2 right / (support + predicted), the harmonic mean of the two; None if both are 0


def accuracy(outputs: Outputs, labels: Int[Tensor, " samples"]) -> float:
    """Return (1/N) Σ 1[ŷ = y], the share of right predictions.

    Examples:
        >>> accuracy(torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]), torch.tensor([0, 1, 1]))
        0.6666666666666666
        >>> accuracy(torch.tensor([0, 1]), torch.tensor([0, 1]))
        1.0
    """
    answers = read_answers(outputs, labels)
    return int((answers.predicted == answers.labels).sum()) / len(answers.labels)


def top_k(scores: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"], k: int = 5) -> float:
    """Return the share of samples with fewer than k classes ahead of their label.

    A class is ahead of the label if its score is larger, or equal and its number lower: ``k=1`` is the accuracy.

    Examples:
        >>> top_k(torch.tensor([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]]), torch.tensor([1, 2]), k=2)
        0.5
    """
    scores, labels = read_scores(scores, labels)
    if not 1 <= k <= scores.shape[1]:
        raise ValueError(f"k is {k}, but there are {scores.shape[1]} classes: take k from 1 to {scores.shape[1]}.")
    y = labels[:, None].to(scores.device)
    own = scores.gather(1, y)
    lower = torch.arange(scores.shape[1], device=scores.device) < y
    ahead = ((scores > own) | ((scores == own) & lower)).sum(1)
    return int((ahead < k).sum()) / len(labels)


def by_class(outputs: Outputs, labels: Int[Tensor, " samples"], num_classes: int | None = None) -> list[ClassScore]:
    """Return recall, precision and F1 of each class, in order.

    Args:
        outputs: see above.
        labels: see above.
        num_classes: c, for predicted classes; by default one more than the highest class there is.

    Examples:
        >>> by_class(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]))[1]
        ClassScore(label=1, support=2, predicted=1, right=1, recall=0.5, precision=1.0, f1=0.6666666666666666)
    """
    answers = read_answers(outputs, labels, num_classes)
    hits = answers.labels[answers.predicted == answers.labels]
    support, predicted, right = (
        classes.bincount(minlength=answers.num_classes).tolist()
        for classes in (answers.labels, answers.predicted, hits)
    )
    return [
        ClassScore(label, s, p, r, ratio(r, s), ratio(r, p), ratio(2 * r, s + p))
        for label, (s, p, r) in enumerate(zip(support, predicted, right, strict=True))
    ]


def balanced_accuracy(outputs: Outputs, labels: Int[Tensor, " samples"]) -> float:
    """Return the mean recall of the classes that have samples: each class counts the same, however rare.

    Examples:
        >>> balanced_accuracy(torch.tensor([0, 0, 0, 0]), torch.tensor([0, 0, 0, 1]))
        0.5
    """
    recalls = [score.recall for score in by_class(outputs, labels) if score.recall is not None]
    return sum(recalls) / len(recalls)


def confusion_matrix(
    outputs: Outputs, labels: Int[Tensor, " samples"], num_classes: int | None = None
) -> Int[Tensor, "classes classes"]:
    """Return (c, c) counts, row by label, column by prediction.

    Args:
        outputs: see above.
        labels: see above.
        num_classes: c, for predicted classes; by default one more than the highest class there is.

    Examples:
        >>> confusion_matrix(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]))
        tensor([[1, 0],
                [1, 1]])
    """
    answers = read_answers(outputs, labels, num_classes)
    c = answers.num_classes
    return (answers.labels * c + answers.predicted).bincount(minlength=c * c).view(c, c)
