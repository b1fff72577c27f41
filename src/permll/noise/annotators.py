"""Labels from several annotators or labeling functions per sample; -1 marks a missing answer."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

NO_ANSWER = -1
TieBreak = Literal["random", "lowest"]


def has_answer(answers: ArrayLike) -> NDArray[np.bool_]:
    """Return a mask (N,) of the samples with at least one answer.

    Examples:
        >>> has_answer([[-1, 2], [-1, -1]])
        array([ True, False])
    """
    mask: NDArray[np.bool_] = (_check_answers(answers) != NO_ANSWER).any(1)
    return mask


def weak_labels(
    rules: ArrayLike, num_classes: int, seed: int, *, ties: TieBreak = "random"
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the majority vote of the labeling functions, and the indices of the samples that have a vote.

    Args:
        rules: (N, rules) class numbers, -1 where a rule abstains.
        num_classes: c.
        seed: random seed of the tie break.
        ties: ``"random"``, or ``"lowest"`` for the lowest class number, which is biased toward the first classes.

    Examples:
        >>> labels, index = weak_labels([[1, -1], [-1, -1], [0, 0]], num_classes=2, seed=0)
        >>> labels, index
        (array([1, 0]), array([0, 2]))
    """
    index = np.flatnonzero(has_answer(rules))
    if len(index) == 0:
        raise ValueError("every rule abstains on every sample, so there are no weak labels.")
    return majority_vote(rules, num_classes, ties=ties, seed=seed)[index], index


def sample_answer(answers: ArrayLike, seed: int) -> NDArray[np.int64]:
    """Return one random answer per sample (N,) out of (N, annotators), or -1 for a sample without answers.

    Examples:
        >>> sample_answer([[2, -1, -1], [-1, -1, -1]], seed=0).tolist()
        [2, -1]
    """
    table = _check_answers(answers)
    priority = np.random.default_rng(seed).random(table.shape)
    priority[table == NO_ANSWER] = -1.0
    return np.take_along_axis(table, priority.argmax(1)[:, None], 1)[:, 0]


def majority_vote(
    answers: ArrayLike, num_classes: int, *, ties: TieBreak = "random", seed: int = 0
) -> NDArray[np.int64]:
    """Return the most frequent answer of each sample (N,), or -1 for a sample without answers.

    Examples:
        >>> majority_vote([[1, 1, 0], [-1, -1, -1]], num_classes=2).tolist()
        [1, -1]
    """
    table = _check_answers(answers)
    if table.max(initial=-1) >= num_classes:
        raise ValueError(f"answer {table.max()} is outside 0..{num_classes - 1}.")
    votes = np.stack([(table == label).sum(1) for label in range(num_classes)], 1).astype(np.float64)
    if ties == "random":
        votes += 0.5 * np.random.default_rng(seed).random(votes.shape)
    return np.where((table == NO_ANSWER).all(1), NO_ANSWER, votes.argmax(1))


def _check_answers(answers: ArrayLike) -> NDArray[np.int64]:
    table = np.asarray(answers)
    if table.ndim != 2 or table.shape[1] == 0 or table.dtype.kind not in "iu" or table.min(initial=0) < NO_ANSWER:
        raise ValueError(
            "answers must be class numbers, or -1 for none, of shape (N, annotators); "
            f"got {table.dtype}, {table.shape}."
        )
    return table.astype(np.int64)
