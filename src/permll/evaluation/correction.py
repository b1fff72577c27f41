"""Outcomes of a label correction.

given     corrected to           outcome
wrong     the clean class        fixed
wrong     another wrong class    miscorrected
wrong     unchanged              missed
correct   another class          broken
correct   unchanged              kept_correct
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from permll.evaluation.validation import Outputs, check_labels, check_predictions, check_same_length, safe_divide

INPUT_NAMES = ("corrected labels", "clean labels")
Metrics = dict[str, float | int | list[int] | None]


class CorrectionCounts(NamedTuple):
    """Number of samples with each outcome."""

    fixed: int
    miscorrected: int
    missed: int
    broken: int
    kept_correct: int

    @property
    def samples(self) -> int:
        """Number of samples."""
        return sum(self)

    @property
    def wrong(self) -> int:
        """Number of wrong given labels."""
        return self.fixed + self.miscorrected + self.missed

    @property
    def changed(self) -> int:
        """Number of changed labels."""
        return self.fixed + self.miscorrected + self.broken

    @property
    def right_before(self) -> int:
        """Number of correct given labels."""
        return self.broken + self.kept_correct

    @property
    def right_after(self) -> int:
        """Number of correct labels after the correction."""
        return self.fixed + self.kept_correct

    @property
    def precision(self) -> float | None:
        """Fraction of changed labels that became correct; None if nothing was changed."""
        return safe_divide(self.fixed, self.changed)

    @property
    def recall(self) -> float | None:
        """Fraction of wrong labels that became correct; None if no label is wrong."""
        return safe_divide(self.fixed, self.wrong)


@dataclass(frozen=True)
class Correction:
    """Outcomes of all samples, and of the samples of each clean class in order."""

    total: CorrectionCounts
    by_class: tuple[CorrectionCounts, ...]

    def to_dict(self) -> Metrics:
        """Return the metrics under the names used in metrics.jsonl."""
        total = self.total
        return {
            "samples": total.samples,
            "wrong": total.wrong,
            "changed": total.changed,
            "right_before": total.right_before,
            "right_after": total.right_after,
            "accuracy_before": total.right_before / total.samples,
            "accuracy_after": total.right_after / total.samples,
            "true_positives": total.fixed,
            "miscorrected": total.miscorrected,
            "missed": total.missed,
            "false_positives": total.broken,
            "kept": total.kept_correct,
            "precision": total.precision,
            "recall": total.recall,
            "samples_by_class": [counts.samples for counts in self.by_class],
            "right_before_by_class": [counts.right_before for counts in self.by_class],
            "right_after_by_class": [counts.right_after for counts in self.by_class],
        }


def measure_correction(
    given: Int[Tensor, " samples"], corrected: Outputs, clean: Int[Tensor, " samples"], num_classes: int | None = None
) -> Correction:
    """Compare given and corrected labels with the clean labels.

    Args:
        given: (N,) labels before the correction.
        corrected: (N,) labels after the correction, or (N, c) class probabilities, whose argmax is used.
        clean: (N,) clean labels.
        num_classes: c. Default: the number of columns of ``corrected``, or the highest class + 1.

    Examples:
        >>> given, corrected, clean = torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1]), torch.tensor([0, 0, 0])
        >>> correction = measure_correction(given, corrected, clean)
        >>> correction.total
        CorrectionCounts(fixed=1, miscorrected=0, missed=1, broken=0, kept_correct=1)
        >>> correction.total.right_before, correction.total.right_after
        (1, 2)
        >>> correction.total.precision, correction.total.recall
        (1.0, 0.5)
    """
    check_same_length(given=given, corrected=corrected, clean=clean)
    after, truth, width = check_predictions(corrected, clean, num_classes, INPUT_NAMES)
    before = check_labels(given, num_classes if corrected.ndim == 1 else width, "given labels")
    c, num_outcomes = max(width, 1 + int(before.max())), len(CorrectionCounts._fields)
    changed = after != before
    if_wrong = torch.where(after == truth, 0, torch.where(changed, 1, 2))
    outcome = torch.where(before != truth, if_wrong, torch.where(changed, 3, 4))  # index of a field of the counts
    counts = (truth * num_outcomes + outcome).bincount(minlength=c * num_outcomes).view(c, num_outcomes)
    total = CorrectionCounts(*counts.sum(0).tolist())
    return Correction(total, tuple(CorrectionCounts(*row) for row in counts.tolist()))
