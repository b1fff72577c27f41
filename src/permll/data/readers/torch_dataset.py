"""Any map-style PyTorch dataset: items by position, each with its input and its label."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, Subset, TensorDataset

from permll.data.inputs import Inputs, Items, LazyImages, Texts
from permll.data.readers.arrays import to_inputs
from permll.data.readers.assemble import plain_values
from permll.data.readers.image_files import OpenItem, is_image
from permll.data.readers.pixels import looks_like_images
from permll.data.readers.types import RawData, ReadOptions, leave_out
from permll.utils.messages import format_list
from permll.utils.progress import progress

Key = int | str | None
_LABEL_KEYS = ("label", "labels", "target", "y")
_INPUT_KEYS = ("image", "pixel_values", "input", "features", "text", "x")


@dataclass(frozen=True)
class Place:
    """Where in an item the input and the label are."""

    input: Key
    label: Key


def find_torch(dataset: Any, asked: ReadOptions) -> RawData:
    """Return what a dataset holds; a ``Subset`` is read as rows of the set below it, whose positions are the ids."""
    if isinstance(dataset, IterableDataset):
        raise ValueError("an IterableDataset has no rows to name: permll needs a dataset with a length and items.")
    asked.refuse("id", what="a PyTorch dataset, whose ids are the positions or what ids= says")
    asked.choose_one("label", "labels")
    base, rows = underlying(dataset)
    if not rows:
        raise ValueError(f"the {type(dataset).__name__} is empty.")
    first = base[rows[0]]
    place = find_place(first, asked)
    values: list[Any] | None = None
    notes: list[dict[str, Any]] = []
    how = "given with labels="
    if asked.labels is None:
        values, how = _declared_labels(base, rows, first, place), "the dataset's own list"
        if values is None:
            rows, values, notes = _read_labels(base, rows, place.label, asked)
            how = "each item's"
    inputs, understood = _inputs(base, rows, place.input, first)
    names = getattr(base, "classes", None)
    names = [str(name) for name in names] if isinstance(names, list | tuple) and names else None
    source = f"{type(dataset).__module__}.{type(dataset).__name__}"
    metadata = {"name": type(base).__name__, **understood, "source": source, "label": how, "left_out": notes}
    return RawData(inputs, values, [str(row) for row in rows], metadata, names, noun="item")


def underlying(dataset: Any) -> tuple[Any, list[int]]:
    """Return the set below all ``Subset``s, and the rows of it that are meant.

    Examples:
        >>> underlying(Subset(Subset([5, 6, 7, 8], [3, 1, 0]), [2, 0]))
        ([5, 6, 7, 8], [0, 3])
    """
    rows: Sequence[int] = range(len(dataset))
    while isinstance(dataset, Subset):
        rows = [int(dataset.indices[row]) for row in rows]
        dataset = dataset.dataset
    return dataset, list(rows)


def find_place(item: Any, asked: ReadOptions) -> Place:
    """Return where input and label are in an item: the first and second of a tuple, or keys of a dict.

    Examples:
        >>> find_place(("an input", 3), ReadOptions())
        Place(input=0, label=1)
        >>> find_place({"image": "an input", "target": 3}, ReadOptions())
        Place(input='image', label='target')
    """
    chosen = [*(asked.features or ()), *(name for name in (asked.image, asked.text) if name is not None)]
    if isinstance(item, Mapping):
        label = asked.label or _key(item, _LABEL_KEYS)
        found = chosen[0] if chosen else _key(item, _INPUT_KEYS)
        lacking = [key for key in (found, asked.label) if key is not None and key not in item]
        if found is None or lacking:
            raise ValueError(
                f"the items are dicts with {format_list(list(item), 'key')}: say which is the input and which the label, "
                "with features=, image= or text=, and label=."
            )
        return Place(found, label)
    if chosen or asked.label is not None:
        raise ValueError("the items of this dataset have no names: leave out label=, features=, image= and text=.")
    if isinstance(item, tuple | list) and len(item) >= 2:
        return Place(0, 1)
    return Place(0 if isinstance(item, tuple | list) and len(item) == 1 else None, None)


def _declared_labels(base: Any, rows: Sequence[int], first: Any, place: Place) -> list[Any] | None:
    """Return the labels a dataset keeps in a list, if they are the ones its items carry."""
    if getattr(base, "target_transform", None) is not None:
        return None
    kept: Any = base.tensors[1] if isinstance(base, TensorDataset) and len(base.tensors) > 1 else None
    for name in ("targets", "labels"):
        kept = getattr(base, name, None) if kept is None else kept
    if kept is None or not hasattr(kept, "__len__") or isinstance(kept, str) or len(kept) != len(base):
        return None
    values = plain_values(kept)
    chosen = [values[row] for row in rows]
    return chosen if place.label is None or _single(first[place.label], rows[0]) == chosen[0] else None


def _read_labels(
    base: Any, rows: Sequence[int], key: Key, asked: ReadOptions
) -> tuple[list[int], list[Any], list[dict[str, Any]]]:
    """Read every item once; return the rows that could be read, their labels, and a note about the others."""
    if key is None:
        raise ValueError(f"the items of {type(base).__name__} hold no label: give labels=, or items (input, label).")
    values, bad = {}, []
    with progress("reading labels", len(rows)) as advance:
        for row in rows:
            try:
                item = base[row]
            except Exception as broken:  # a dataset's own code can fail in any way
                bad.append((row, broken))
            else:
                values[row] = _single(item[key], row)
            advance()
    names = [f"{row}: {broken}" for row, broken in bad]
    if bad and not asked.skip_unreadable:
        raise ValueError(
            f"{format_list(names, 'item')} cannot be read: mend the dataset, or pass skip_unreadable=True to go on without."
        )
    kept = [row for row in rows if row in values]
    notes = [leave_out("item", "cannot be read", names)] if bad else []
    return kept, [values[row] for row in kept], notes


def _inputs(base: Any, rows: Sequence[int], key: Key, first: Any) -> tuple[Inputs, dict[str, Any]]:
    """Return inputs of the kind of the first one; arrays that lie in memory whole become vectors or images."""
    positions = torch.tensor(rows, dtype=torch.int64)
    if isinstance(base, TensorDataset) and (base.tensors[0].ndim == 2 or looks_like_images(base.tensors[0])):
        return to_inputs(base.tensors[0][positions], "the first tensor")
    value = first if key is None else first[key]
    if is_image(value):
        return LazyImages(OpenItem(base, key), positions), {"kind": "images"}
    if isinstance(value, str):
        return Texts(tuple(base[row] if key is None else base[row][key] for row in rows)), {"kind": "texts"}
    if isinstance(value, Tensor | np.ndarray):
        return Items(base, positions, key), {"kind": "items"}
    raise ValueError(f"the inputs must be PIL images, tensors, arrays or texts, got {type(value).__name__}.")


def _single(value: Any, row: int) -> Any:
    """Return a label as a plain value."""
    if isinstance(value, Tensor | np.ndarray | np.generic):
        if value.ndim:
            raise ValueError(f"the label of item {row} is not one value but of shape {tuple(value.shape)}.")
        return value.item()
    return value


def _key(item: Mapping[str, Any], usual: Sequence[str]) -> str | None:
    there = [key for key in usual if key in item]
    return there[0] if there else None
