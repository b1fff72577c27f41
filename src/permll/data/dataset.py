"""``LabeledData``: samples with given labels, class names and ids."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from permll.data.annotations import Annotations
from permll.data.inputs import Inputs
from permll.utils.messages import format_list
from permll.utils.validation import check_class_labels


class Sample(NamedTuple):
    """One sample with its id and class name."""

    id: str
    label: str
    input: Any


@dataclass(frozen=True, eq=False, repr=False)
class LabeledData:
    """Samples with given labels.

    Args:
        inputs: ``Images``, ``LazyImages``, ``Vectors``, ``Table``, ``Texts`` or ``Items``.
        labels: (N,) int64 in 0..c-1, as given, possibly wrong.
        classes: c class names; ``classes[labels[i]]`` is the class of sample i.
        ids: N unique names (relative path, id column, or row number), preserved by every split and filter.
        metadata: origin of the data as JSON values: name, split, source, and what was left out and why.
        trusted: (N,) bool, samples whose labels are known to be correct, since a person reviewed them; None for none.
        annotations: answers of several annotators, if the labels are their consensus.
        groups: N names of groups, such as patients or videos, of which a split keeps each on one side; None for none.

    Examples:
        >>> from permll.data.inputs import Vectors
        >>> data = LabeledData(Vectors(torch.zeros(3, 2)), torch.tensor([0, 1, 0]), ("cat", "dog"), ("a", "b", "c"))
        >>> data
        LabeledData(3 samples, 2 classes, Vectors of 2)
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
    trusted: Tensor | None = None
    annotations: Annotations | None = None
    groups: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not len(self.inputs) == len(self.labels) == len(self.ids):
            raise ValueError(
                f"every sample needs one label and one id: got {len(self.inputs)} samples, {len(self.labels)} labels "
                f"and {len(self.ids)} ids."
            )
        if len(set(self.classes)) < len(self.classes):
            raise ValueError(f"class names must be unique, got {', '.join(self.classes)}.")
        if self.labels.dtype != torch.int64:
            raise ValueError(f"labels must be int64 of shape (N,), got {self.labels.dtype} {tuple(self.labels.shape)}.")
        check_class_labels(self.labels, self.num_classes, rows=self.ids, noun="sample", allow_empty=True)
        if self.trusted is not None and (self.trusted.dtype, len(self.trusted)) != (torch.bool, len(self.ids)):
            raise ValueError(f"trusted must be a mask ({len(self.ids)},), got {tuple(self.trusted.shape)}.")
        if self.groups is not None and len(self.groups) != len(self.ids):
            raise ValueError(f"every sample needs one group: got {len(self.groups)} for {len(self.ids)} samples.")
        if len(set(self.ids)) < len(self.ids):
            repeated = [name for name, count in Counter(self.ids).items() if count > 1]
            raise ValueError(f"ids must be unique; repeated: {format_list(repeated, 'id')}.")

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, row: int) -> Sample:
        """Return the sample at position ``row``; ``take`` returns several as ``LabeledData``."""
        row = range(len(self))[row]  # supports negative positions, raises IndexError outside
        return Sample(self.ids[row], self.classes[int(self.labels[row])], self.inputs.get_sample(row))

    def __repr__(self) -> str:
        name = " ".join(str(self.metadata[key]) for key in ("name", "split") if self.metadata.get(key))
        size = f"{len(self):,} sample{'s' if len(self) != 1 else ''}, {self.num_classes} classes, {self.inputs}"
        return f"LabeledData({name}: {size})" if name else f"LabeledData({size})"

    @property
    def num_classes(self) -> int:
        """Number of classes, c."""
        return len(self.classes)

    @property
    def class_counts(self) -> Tensor:
        """(c,) number of samples of each class."""
        return torch.bincount(self.labels, minlength=self.num_classes)

    def take(self, rows: Tensor | Sequence[int]) -> "LabeledData":
        """Return the samples at positions ``rows``, in that order, or where a mask (N,) is true."""
        rows = to_indices(rows, len(self))
        ids = tuple(self.ids[i] for i in rows.tolist())
        trusted = None if self.trusted is None else self.trusted[rows]
        annotations = None if self.annotations is None else self.annotations.take(rows)
        groups = None if self.groups is None else tuple(self.groups[i] for i in rows.tolist())
        return replace(
            self,
            inputs=self.inputs.take(rows),
            labels=self.labels[rows],
            ids=ids,
            trusted=trusted,
            annotations=annotations,
            groups=groups,
        )

    def relabel(self, labels: Tensor | Sequence[int]) -> "LabeledData":
        """Return the same samples with other labels (N,)."""
        return replace(self, labels=torch.as_tensor(labels).to(torch.int64, copy=True))

    def with_metadata(self, **metadata: Any) -> "LabeledData":
        """Return the same data with ``metadata`` added or replaced."""
        return replace(self, metadata={**self.metadata, **metadata})

    def with_inputs(self, inputs: Inputs) -> "LabeledData":
        """Return the same samples, labels and ids with other inputs, for example encoded or resized."""
        return replace(self, inputs=inputs)


def to_indices(rows: Tensor | Sequence[int], num_rows: int) -> Tensor:
    """Return positions in 0..num_rows-1, or a boolean mask (num_rows,), as int64 positions (n,).

    Examples:
        >>> to_indices([True, False, True], 3)
        tensor([0, 2])
    """
    rows = torch.as_tensor(rows).cpu()
    if rows.numel() == 0:
        return torch.empty(0, dtype=torch.int64)
    if rows.dtype == torch.bool:
        if rows.shape != (num_rows,):
            raise ValueError(f"a mask must have shape ({num_rows},), got shape {tuple(rows.shape)}.")
        return rows.nonzero()[:, 0]
    if rows.ndim != 1 or rows.is_floating_point() or rows.is_complex():
        raise ValueError(f"rows must be integer positions of shape (n,), got {rows.dtype} {tuple(rows.shape)}.")
    outside = rows[(rows < 0) | (rows >= num_rows)]
    if len(outside):
        raise ValueError(f"rows must be in 0..{num_rows - 1}, got {format_list(outside.tolist(), 'other position')}.")
    return rows.to(torch.int64)
