"""Labels that several hands gave: crowd workers, or rules that fire or do not. -1 means no answer."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

NO_ANSWER = -1
Ties = Literal["random", "lowest"]


def covered(answers: ArrayLike) -> NDArray[np.bool_]:
    """Return (N,) which samples have any answer at all.

    Examples:
        >>> covered([[-1, 2], [-1, -1]])
        array([ True, False])
    """
    covers: NDArray[np.bool_] = (_read(answers) != NO_ANSWER).any(1)
    return covers


def weak_labels(
    rules: ArrayLike, num_classes: int, seed: int, *, ties: Ties = "random"
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the labels that most rules agree on, and the rows they are for: those that any rule covers.

    Args:
        rules: (N, rules), what each rule says, -1 where it says nothing.
        num_classes: c.
        seed: of broken ties.
        ties: ``"random"``; ``"lowest"`` takes the lowest class number, which favours the first classes.

    Examples:
        >>> labels, rows = weak_labels([[1, -1], [-1, -1], [0, 0]], num_classes=2, seed=0)
        >>> labels, rows
        (array([1, 0]), array([0, 2]))
    """
    rows = np.flatnonzero(covered(rules))
    if len(rows) == 0:
        raise ValueError("no rule says anything about any sample: there are no weak labels.")
    return majority(rules, num_classes, ties=ties, seed=seed)[rows], rows


def one_answer(answers: ArrayLike, seed: int) -> NDArray[np.int64]:
    """Return for each sample one of its answers (N, workers) at random, or -1 if it has none.

    Examples:
        >>> one_answer([[2, -1, -1], [-1, -1, -1]], seed=0).tolist()
        [2, -1]
    """
    table = _read(answers)
    order = np.random.default_rng(seed).random(table.shape)
    order[table == NO_ANSWER] = -1.0
    return np.take_along_axis(table, order.argmax(1)[:, None], 1)[:, 0]


def majority(answers: ArrayLike, num_classes: int, *, ties: Ties = "random", seed: int = 0) -> NDArray[np.int64]:
    """Return for each sample its most frequent answer, or -1 if it has none; ties are broken at random by ``seed``.

    Examples:
        >>> majority([[1, 1, 0], [-1, -1, -1]], num_classes=2).tolist()
        [1, -1]
    """
    table = _read(answers)
    if table.max(initial=-1) >= num_classes:
        raise ValueError(f"an answer is {table.max()}, outside 0..{num_classes - 1}.")
    votes = np.stack([(table == label).sum(1) for label in range(num_classes)], 1).astype(np.float64)
    if ties == "random":
        votes += 0.5 * np.random.default_rng(seed).random(votes.shape)
    return np.where((table == NO_ANSWER).all(1), NO_ANSWER, votes.argmax(1))


def _read(answers: ArrayLike) -> NDArray[np.int64]:
    table = np.asarray(answers)
    if table.ndim != 2 or table.shape[1] == 0 or table.dtype.kind not in "iu" or table.min(initial=0) < NO_ANSWER:
        raise ValueError(
            f"answers must be class numbers, -1 for none, of shape (N, workers); got {table.dtype}, {table.shape}."
        )
    return table.astype(np.int64)
