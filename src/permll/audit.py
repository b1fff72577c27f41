"""``Audit``: near-duplicates, leaks, outliers, rare classes and empty values of the samples of findings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

COLUMNS = ("near_duplicate_group", "outlier_score", "is_outlier")


@dataclass(frozen=True, eq=False)
class Audit:
    """What is remarkable about N samples besides their labels, in the order of the findings.

    Args:
        near_duplicate_group: (N,) int32, the number of the group of near-duplicates from 1; 0 for none.
        outlier_score: (N,) float32 in [0, 1]; NaN if it was not computed.
        facts: JSON values: ``near_duplicates``, ``leaks``, ``outliers``, ``classes``, ``empty``, and ``failed``, the
            parts that failed with the reason.

    Examples:
        >>> audit = Audit(np.array([1, 0, 1]), np.array([0.1, 0.7, 0.2]))
        >>> audit.groups, audit.is_outlier.tolist()
        ([[0, 2]], [False, True, False])
        >>> audit.columns(np.array([2, 1]))
        ([1, None], [0.2, 0.7], [False, True])
    """

    near_duplicate_group: NDArray[np.int32]
    outlier_score: NDArray[np.float32]
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_outlier(self) -> NDArray[np.bool_]:
        """(N,) samples with an outlier score of at least 0.5."""
        return np.asarray(self.outlier_score >= 0.5)

    @property
    def groups(self) -> list[list[int]]:
        """The rows of each group of near-duplicates, in the order of their numbers."""
        groups: list[list[int]] = [[] for _ in range(int(self.near_duplicate_group.max(initial=0)))]
        for row in self.near_duplicate_group.nonzero()[0].tolist():
            groups[self.near_duplicate_group[row] - 1].append(row)
        return groups

    def columns(self, rows: NDArray[np.int64]) -> tuple[list[Any], ...]:
        """Return the values of ``COLUMNS`` for rows (n,); None where there is none."""
        scores = self.outlier_score[rows].tolist()
        return (
            [group or None for group in self.near_duplicate_group[rows].tolist()],
            [None if score != score else round(score, 6) for score in scores],
            [score >= 0.5 for score in scores],
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to save."""
        return {f"audit_{name}": getattr(self, name) for name in COLUMNS[:2]}

    @classmethod
    def from_saved(cls, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any] | None) -> "Audit | None":
        """Return the audit whose arrays and facts were saved; None if there was none."""
        if facts is None:
            return None
        return cls(arrays["audit_near_duplicate_group"], arrays["audit_outlier_score"], facts)
