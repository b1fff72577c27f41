"""``Data``: samples, the labels they were given, and the names of both. What every room of the house passes on."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from permll.data.inputs import Inputs
from permll.utils.messages import format_list


class Sample(NamedTuple):
    """One sample, to look at."""

    id: str
    label: str
    input: Any


@dataclass(frozen=True, eq=False, repr=False)
class LabeledData:
    """Samples with given labels.

    Args:
        inputs: what a network sees: ``Images``, ``LazyImages``, ``Vectors``, ``Table``, ``Texts`` or ``Items``.
        labels: (N,) int64 in 0..c-1, as given: possibly wrong.
        classes: c names; ``classes[labels[i]]`` is the label of sample i in the user's words.
        ids: N different names (relative path, id column, or row number) that stay with their samples through
            every split and filter.
        metadata: where it comes from, as JSON would hold it: name, split, source, what was left out and why.

    Examples:
        >>> from permll.data.inputs import Vectors
        >>> data = LabeledData(Vectors(torch.zeros(3, 2)), torch.tensor([0, 1, 0]), ("cat", "dog"), ("a", "b", "c"))
        >>> data
        Data(3 samples, 2 classes, Vectors of 2)
        >>> data.take([2, 1]).ids
        ('c', 'b')
        >>> data[1]
        Sample(id='b', label='dog', input=tensor([0., 0.]))
    """

    inputs: Inputs
    labels: Tensor
    classes: tuple[str, ...]
    ids: tuple[str, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not len(self.inputs) == len(self.labels) == len(self.ids):
            raise ValueError(
                f"every sample needs one label and one id: {len(self.inputs)} samples, {len(self.labels)} labels, "
                f"{len(self.ids)} ids."
            )
        if len(set(self.classes)) < len(self.classes):
            raise ValueError(f"class names must differ, got {', '.join(self.classes)}.")
        if self.labels.dtype != torch.int64 or self.labels.ndim != 1:
            raise ValueError(f"labels must be int64 of shape (N,), got {self.labels.dtype} {tuple(self.labels.shape)}.")
        outside = (self.labels < 0) | (self.labels >= self.num_classes)
        if outside.any():
            bad = [self.ids[i] for i in outside.nonzero()[:, 0].tolist()]
            raise ValueError(f"labels lie outside 0..{self.num_classes - 1} in {format_list(bad, 'sample')}.")
        if len(set(self.ids)) < len(self.ids):
            twice = [name for name, count in Counter(self.ids).items() if count > 1]
            raise ValueError(f"every id must name one sample; named more than once: {format_list(twice, 'id')}.")

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, row: int) -> Sample:
        """Return the sample at a position, with its label in words; ``take`` returns several as ``Data``."""
        row = range(len(self))[row]  # counts from the end if negative, and says so if there is none
        return Sample(self.ids[row], self.classes[int(self.labels[row])], self.inputs.show(row))

    def __repr__(self) -> str:
        name = " ".join(str(self.metadata[key]) for key in ("name", "split") if self.metadata.get(key))
        what = f"{len(self):,} sample{'s' if len(self) != 1 else ''}, {self.num_classes} classes, {self.inputs}"
        return f"Data({name}: {what})" if name else f"Data({what})"

    @property
    def num_classes(self) -> int:
        """Return c."""
        return len(self.classes)

    @property
    def counts(self) -> Tensor:
        """(c,) how many samples carry each label."""
        return torch.bincount(self.labels, minlength=self.num_classes)

    def take(self, rows: Tensor | Sequence[int]) -> "LabeledData":
        """Return the samples at positions ``rows``, in that order, or where a mask (N,) is true."""
        rows = read_rows(rows, len(self))
        ids = tuple(self.ids[i] for i in rows.tolist())
        return replace(self, inputs=self.inputs.take(rows), labels=self.labels[rows], ids=ids)

    def relabel(self, labels: Tensor | Sequence[int]) -> "LabeledData":
        """Return the same samples with other labels (N,): a corruption's, or corrected ones."""
        return replace(self, labels=torch.as_tensor(labels).to(torch.int64, copy=True))

    def with_metadata(self, **metadata: Any) -> "LabeledData":
        """Return the same data with more said about it."""
        return replace(self, metadata={**self.metadata, **metadata})

    def with_inputs(self, inputs: Inputs) -> "LabeledData":
        """Return the same samples, labels and ids with other inputs: encoded, resized, embedded."""
        return replace(self, inputs=inputs)


def read_rows(rows: Tensor | Sequence[int], count: int) -> Tensor:
    """Return positions as int64 (n,), each in 0..count-1; a mask (count,) of truth values stands for where it is true.

    Examples:
        >>> read_rows([True, False, True], 3)
        tensor([0, 2])
    """
    rows = torch.as_tensor(rows).cpu()
    if rows.numel() == 0:
        return torch.empty(0, dtype=torch.int64)
    if rows.dtype == torch.bool:
        if rows.shape != (count,):
            raise ValueError(f"a mask needs one truth value for each of {count} rows, got shape {tuple(rows.shape)}.")
        return rows.nonzero()[:, 0]
    if rows.ndim != 1 or rows.is_floating_point() or rows.is_complex():
        raise ValueError(f"rows must be positions (n,), whole numbers; got {rows.dtype} {tuple(rows.shape)}.")
    outside = rows[(rows < 0) | (rows >= count)]
    if len(outside):
        raise ValueError(f"rows lie in 0..{count - 1}, but there are {format_list(outside.tolist(), 'other')}.")
    return rows.to(torch.int64)
