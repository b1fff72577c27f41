"""What a correction of labels did, sample by sample: each has one of five fates.

given   corrected to            fate
wrong   the clean class         true positive
wrong   another wrong class     miscorrected
wrong   nothing, left alone     missed
right   another class           false positive
right   nothing, left alone     kept
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from permll.evaluation.validation import Outputs, ratio, read_answers, read_classes, same_length

NAMES = ("corrected labels", "clean labels")
Numbers = dict[str, float | int | list[int] | None]


class CorrectionCounts(NamedTuple):
    """How many samples had each fate."""

    true_positives: int
    miscorrected: int
    missed: int
    false_positives: int
    kept: int

    @property
    def samples(self) -> int:
        """All of them."""
        return sum(self)

    @property
    def wrong(self) -> int:
        """Given labels that are wrong."""
        return self.true_positives + self.miscorrected + self.missed

    @property
    def changed(self) -> int:
        """Labels that were changed, for better or worse."""
        return self.true_positives + self.miscorrected + self.false_positives

    @property
    def right_before(self) -> int:
        """Given labels that are right."""
        return self.false_positives + self.kept

    @property
    def right_after(self) -> int:
        """Corrected labels that are right."""
        return self.true_positives + self.kept

    @property
    def precision(self) -> float | None:
        """The share of changes that gave the clean class; None if nothing was changed."""
        return ratio(self.true_positives, self.changed)

    @property
    def recall(self) -> float | None:
        """The share of wrong labels that got the clean class; None if no label is wrong."""
        return ratio(self.true_positives, self.wrong)


@dataclass(frozen=True)
class Correction:
    """The fates of all samples, and of the samples of each clean class, in order."""

    total: CorrectionCounts
    by_class: tuple[CorrectionCounts, ...]

    def numbers(self) -> Numbers:
        """Return counts, shares and, for each class, a list of counts, as JSON holds them."""
        total = self.total
        return {
            "samples": total.samples,
            "wrong": total.wrong,
            "changed": total.changed,
            "right_before": total.right_before,
            "right_after": total.right_after,
            "accuracy_before": total.right_before / total.samples,
            "accuracy_after": total.right_after / total.samples,
            **total._asdict(),
            "precision": total.precision,
            "recall": total.recall,
            "samples_by_class": [fates.samples for fates in self.by_class],
            "right_before_by_class": [fates.right_before for fates in self.by_class],
            "right_after_by_class": [fates.right_after for fates in self.by_class],
        }


def measure_correction(
    given: Int[Tensor, " samples"], corrected: Outputs, clean: Int[Tensor, " samples"], num_classes: int | None = None
) -> Correction:
    """Return what became of the labels.

    Args:
        given: (N,) labels as they came.
        corrected: (N,) labels after the correction, or (N, c) beliefs, of which the largest is taken.
        clean: (N,) labels as they should be.
        num_classes: c; by default the width of the beliefs, or one more than the highest class there is.

    Examples:
        >>> given, corrected, clean = torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1]), torch.tensor([0, 0, 0])
        >>> found = measure_correction(given, corrected, clean)
        >>> found.total
        CorrectionCounts(true_positives=1, miscorrected=0, missed=1, false_positives=0, kept=1)
        >>> found.total.right_before, found.total.right_after, found.total.precision, found.total.recall
        (1, 2, 1.0, 0.5)
    """
    same_length(given=given, corrected=corrected, clean=clean)
    new, truth, width = read_answers(corrected, clean, num_classes, NAMES)
    (old,) = read_classes({"given labels": given}, num_classes if corrected.ndim == 1 else width)
    c = max(width, 1 + int(old.max()))
    fates = _fate(old != truth, new != old, new == truth)
    counts = (
        (truth * len(CorrectionCounts._fields) + fates)
        .bincount(minlength=c * len(CorrectionCounts._fields))
        .view(c, -1)
    )
    return Correction(
        CorrectionCounts(*counts.sum(0).tolist()), tuple(CorrectionCounts(*row) for row in counts.tolist())
    )


def _fate(wrong: Tensor, changed: Tensor, right_now: Tensor) -> Tensor:
    """Return for each sample the place of its fate among the fields of ``CorrectionCounts``."""
    if_wrong = torch.where(right_now, 0, torch.where(changed, 1, 2))
    return torch.where(wrong, if_wrong, torch.where(changed, 3, 4))
