"""Samples of three classes that are easy to tell apart, some of them under a wrong label."""

from typing import Any, NamedTuple

import numpy as np

CLASSES = ("ant", "bee", "cow")


class Mislabeled(NamedTuple):
    """What is known about N rows.

    Args:
        values: (N, 8) float32, one cloud for each class.
        true: (N,) classes as numbers.
        given: (N,) labels as numbers.
        wrong: the rows whose label is wrong.
    """

    values: np.ndarray[Any, Any]
    true: np.ndarray[Any, Any]
    given: np.ndarray[Any, Any]
    wrong: set[int]

    @property
    def labels(self) -> list[str]:
        """The given labels in words."""
        return [CLASSES[k] for k in self.given.tolist()]


def mislabeled(rows: int = 200, share: float = 0.15, seed: int = 0) -> Mislabeled:
    """Return rows of which a share are labelled as the class after theirs."""
    rng = np.random.default_rng(seed)
    true = np.arange(rows) % len(CLASSES)
    wrong = rng.permutation(rows)[: round(share * rows)]
    given = true.copy()
    given[wrong] = (given[wrong] + 1) % len(CLASSES)
    values = rng.normal(size=(rows, 8)) + 6 * np.eye(8)[true]
    return Mislabeled(values.astype(np.float32), true, given, set(wrong.tolist()))
