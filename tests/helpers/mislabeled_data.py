"""Samples of three well separated classes, some of them mislabeled."""

from typing import Any, NamedTuple

import numpy as np

CLASSES = ("ant", "bee", "cow")


class Mislabeled(NamedTuple):
    """N rows with true and given labels.

    Args:
        values: (N, 8) float32, one cluster per class.
        true: (N,) classes as numbers.
        given: (N,) labels as numbers.
        wrong: rows with a wrong label.
    """

    values: np.ndarray[Any, Any]
    true: np.ndarray[Any, Any]
    given: np.ndarray[Any, Any]
    wrong: set[int]

    @property
    def labels(self) -> list[str]:
        """The given labels as class names."""
        return [CLASSES[k] for k in self.given.tolist()]


def mislabeled(rows: int = 200, share: float = 0.15, seed: int = 0) -> Mislabeled:
    """Return rows of which a fraction is labeled as the next class."""
    rng = np.random.default_rng(seed)
    true = np.arange(rows) % len(CLASSES)
    wrong = rng.permutation(rows)[: round(share * rows)]
    given = true.copy()
    given[wrong] = (given[wrong] + 1) % len(CLASSES)
    values = rng.normal(size=(rows, 8)) + 6 * np.eye(8)[true]
    return Mislabeled(values.astype(np.float32), true, given, set(wrong.tolist()))
