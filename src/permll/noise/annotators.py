"""Labels that several hands gave: crowd workers, or rules that fire or do not. -1 means no answer."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

NO_ANSWER = -1


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


def majority(
    answers: ArrayLike, num_classes: int, *, ties: Literal["random", "lowest"] = "random", seed: int = 0
) -> NDArray[np.int64]:
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
