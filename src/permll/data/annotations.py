"""``Annotations``: the answers of several annotators to the samples of a data set."""

from dataclasses import dataclass, replace
from functools import cached_property

from torch import Tensor

from permll.functional.multiple_annotators import Answers
from permll.utils.indexing import ranges_by_key


@dataclass(frozen=True, eq=False)
class Annotations:
    """Answers with the names of their annotators.

    Args:
        names: A annotators.
        answers: to N samples, in their order.

    Examples:
        >>> import torch
        >>> table = torch.tensor([[1, -1], [0, 1]])
        >>> annotations = Annotations(("ann", "bob"), Answers.from_table(table, 2))
        >>> annotations.to_sample(1), annotations.take(torch.tensor([0])).to_sample(0)
        ([('ann', 0), ('bob', 1)], [('ann', 1)])
    """

    names: tuple[str, ...]
    answers: Answers

    def take(self, rows: Tensor) -> "Annotations":
        """Return the answers to the samples at positions ``rows``, in that order."""
        return replace(self, answers=self.answers.take(rows))

    def to_sample(self, row: int) -> list[tuple[str, int]]:
        """Return the annotators of a sample and their answers as class numbers."""
        some = self._by_sample[row]
        annotators, labels = self.answers.annotators[some].tolist(), self.answers.labels[some].tolist()
        return [(self.names[a], label) for a, label in zip(annotators, labels, strict=True)]

    @cached_property
    def _by_sample(self) -> tuple[Tensor, ...]:
        """Positions of the answers to each sample."""
        return ranges_by_key(self.answers.samples, self.answers.num_samples)
