"""``GivenData``: labeled samples, matched with values about them that were computed elsewhere."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from permll.cleaning.source_rows import sample_rows
from permll.data.dataset import LabeledData
from permll.data.labels import encode_labels
from permll.data.loading import is_dataset_name, load
from permll.data.readers.raw_data import pluralize
from permll.training.run_folder import absolute_source, data_name, samples_name
from permll.utils.messages import format_list


@dataclass(frozen=True, eq=False)
class GivenData:
    """N labeled samples and where they come from.

    Args:
        samples: the samples.
        data: what they were read from.
        options: reader options.
        root: folder of the built-in data sets.
        where: noun for ``data`` in messages.
        is_part: whether the data have more samples.
    """

    samples: LabeledData
    data: Any
    options: Mapping[str, Any]
    root: str | None = None
    where: str = "the data"
    is_part: bool = False

    @property
    def source(self) -> str:
        """Absolute path or name of the data; "" if they are in memory and cannot be read again."""
        return absolute_source(self.data) if isinstance(self.data, str | Path) and "labels" not in self.options else ""

    @property
    def name(self) -> str:
        """Name of the data for a folder."""
        return data_name(self.source) if self.source else samples_name(self.samples)

    @property
    def has_own_order(self) -> bool:
        """Whether ordered categories of a frame or a Parquet file may determine the order of the classes."""
        is_frame = type(self.data).__name__ == "DataFrame" or str(self.data).endswith(".parquet")
        return is_frame and "classes" not in self.options

    @cached_property
    def rows(self) -> tuple[Tensor, int]:
        """(N,) rows of the samples in the data, and the number of rows, including those that were left out."""
        is_read = isinstance(self.data, LabeledData) or (isinstance(self.data, str) and is_dataset_name(self.data))
        if is_read or "split" in self.options:
            return torch.arange(len(self.samples)), len(self.samples)
        by_id, count = sample_rows(self.data, self.options)
        return torch.tensor([by_id[name] for name in self.samples.ids]), count

    def match(
        self,
        count: int,
        name: str,
        ids: Sequence[str] | None = None,
        index: Sequence[str] | None = None,
        *,
        prefer_rows: bool = False,
    ) -> Tensor:
        """Return (N,) the position of each sample among values; -1 for a sample without one.

        Without ids and index, there is one value for each sample, or for each row of the data.

        Args:
            count: number of values.
            name: of the values in messages.
            ids: sample ids of the values.
            index: row numbers or sample ids of the values.
            prefer_rows: whether an index that can be both holds row numbers.
        """
        if ids is None and index is None:
            return self._match_in_order(count, name)
        keys = list(ids if ids is not None else index or ())
        repeated = [key for key, number in Counter(keys).items() if number > 1]
        if repeated:
            raise ValueError(f"{name} has several rows of {format_list(repeated, 'sample')}: leave one of each.")
        wanted: Sequence[str] = self.samples.ids
        if ids is None and (prefer_rows or not set(keys) <= set(wanted)):
            rows, total = self.rows
            if all(key.isdecimal() and int(key) < total for key in keys):
                wanted = [str(row) for row in rows.tolist()]
        position = {key: number for number, key in enumerate(keys)}
        matched = torch.tensor([position.get(key, -1) for key in wanted])
        if bool((matched < 0).all()):
            first = keys[0] if keys else "none"
            raise ValueError(
                f"{name} has no row of {self.where}: its first id is {first}, that of the data {wanted[0]}."
            )
        return matched

    def _match_in_order(self, count: int, name: str) -> Tensor:
        samples = len(self.samples)
        if count == samples:
            return torch.arange(samples)
        rows, total = self.rows
        if count == total:
            return rows
        read = pluralize(samples, "labeled sample") + (f" in {total:,} rows" if total > samples else "")
        raise ValueError(
            f"{name} has {pluralize(count, 'row')}, but {self.where} has {read}: give one row per sample, in the same "
            "order."
        )

    def check_labels(self, labels: Any, name: str = "labels") -> None:
        """Refuse other labels than those of the samples, given as names or class numbers."""
        rows = self._match_in_order(len(labels), name)
        given, _ = encode_labels(labels, self.samples.classes)
        different = (given[rows] != self.samples.labels).nonzero()[:, 0].tolist()
        if different:
            ids = format_list([self.samples.ids[row] for row in different], "sample")
            raise ValueError(f"{name} differ from those of {self.where} for {ids}: leave {name} out, or correct them.")


def read_given(data: Any, labels: Any, options: Mapping[str, Any], root: str | None = None) -> GivenData:
    """Return the samples of data.

    Args:
        data: whatever ``permll.data.load`` takes, or ``LabeledData``.
        labels: their labels; None for those in ``data``. Those of a table or a folder must agree with it.
        options: reader options.
        root: folder of the built-in data sets.
    """
    for name in ("annotators", "annotations"):
        if name in options:
            raise ValueError(f"{name}= needs a training: clean the data without predictions, or leave it out.")
    if isinstance(data, LabeledData):
        given = GivenData(data, data, options, root)
    elif isinstance(data, str | Path):
        is_array = Path(data).suffix.lower() == ".npy"  # has no labels
        options = {**options, "labels": labels} if is_array and labels is not None else options
        given = GivenData(load(data, root=root, **options), data, options, root, str(data))
    else:
        options = options if labels is None else {**options, "labels": labels}
        return GivenData(load(data, root=root, **options), data, options, root)
    if labels is not None and "labels" not in options:
        given.check_labels(labels)
    return given
