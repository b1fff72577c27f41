"""``IndexedDataset``: a PyTorch dataset whose samples carry their index."""

import operator
from collections import namedtuple
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, SupportsIndex

from torch.utils.data import Dataset, IterableDataset


class IndexedDataset(Dataset[Any]):
    """A map-style dataset that adds the index to every sample, for ``PermutationLayer`` and other per-sample losses.

    A tuple or list gets the index as its last element, a named tuple as its last field ``index``, a mapping (an item of
    a Hugging Face dataset) under the key ``"index"``, any other sample becomes the pair (sample, index). The index of a
    sample is its position in ``dataset``, also in a ``Subset`` or ``ConcatDataset`` of this dataset: wrap the training
    set first, and split it then.

    Args:
        dataset: a map-style dataset.

    Examples:
        >>> import torch
        >>> from torch.utils.data import TensorDataset
        >>> dataset = IndexedDataset(TensorDataset(torch.tensor([1.0, 2.0]), torch.tensor([0, 1])))
        >>> dataset[1]
        (tensor(2.), tensor(1), 1)
        >>> IndexedDataset([{"text": "good", "label": 1}])[0]
        {'text': 'good', 'label': 1, 'index': 0}
    """

    def __init__(self, dataset: Any) -> None:
        is_map_style = hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
        if not is_map_style or isinstance(dataset, IterableDataset):
            raise TypeError(f"IndexedDataset needs a map-style dataset, with a length; got {type(dataset).__name__}.")
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: SupportsIndex) -> Any:
        """Return the sample at a position, with its index."""
        position = self._position(index)
        return with_index(self.dataset[position], position)

    def __getitems__(self, indices: Sequence[SupportsIndex]) -> list[Any]:
        """Return the samples of a batch, in one call if the dataset can; ``DataLoader`` prefers this method."""
        positions = [self._position(index) for index in indices]
        fetch = getattr(self.dataset, "__getitems__", None)
        samples = fetch(positions) if callable(fetch) else [self.dataset[position] for position in positions]
        return [with_index(sample, position) for sample, position in zip(samples, positions, strict=True)]

    def _position(self, index: SupportsIndex) -> int:
        """Return the position from 0; a negative one counts from the end."""
        position, length = operator.index(index), len(self)
        if not -length <= position < length:
            raise IndexError(f"index {position} lies outside the {length} samples of the dataset.")
        return position % length


def with_index(sample: Any, index: int) -> Any:
    """Return a sample with its index.

    Examples:
        >>> with_index(("good", 1), 7)
        ('good', 1, 7)
        >>> with_index({"label": 1, "index": 3}, 7)
        Traceback (most recent call last):
        ValueError: the samples have an "index" already: rename it in the dataset.
    """
    if isinstance(sample, Mapping):
        _check_free(sample)
        return {**sample, "index": index}
    if isinstance(sample, tuple) and hasattr(sample, "_fields"):
        _check_free(sample._fields)
        return _named(type(sample).__name__, sample._fields, (*sample, index))
    return (*sample, index) if isinstance(sample, tuple | list) else (sample, index)


def _check_free(names: Any) -> None:
    if "index" in names:
        raise ValueError('the samples have an "index" already: rename it in the dataset.')


def _named(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return _named_type(name, fields)(*values)


@lru_cache(maxsize=64)
def _named_type(name: str, fields: tuple[str, ...]) -> Any:
    """Return the type of named tuples with the field ``index``."""

    def reduce(sample: Any) -> tuple[Any, ...]:  # a type that is made here cannot be pickled by its name
        return _named, (name, fields, tuple(sample))

    return type(name, (namedtuple(name, [*fields, "index"]),), {"__slots__": (), "__reduce__": reduce})
