"""Reader of map-style PyTorch datasets."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, Subset, TensorDataset

from permll.data.inputs import Inputs, Items, LazyImages, Texts
from permll.data.labels import to_list
from permll.data.readers.arrays import has_image_shape, to_inputs
from permll.data.readers.image_files import ItemOpener, is_image
from permll.data.readers.options import ReadOptions
from permll.data.readers.raw_data import RawData, left_out_entry
from permll.utils.messages import format_list
from permll.utils.progress_bar import progress

Key = int | str | None
_LABEL_KEYS = ("label", "labels", "target", "y")
_INPUT_KEYS = ("image", "pixel_values", "input", "features", "text", "x")


def read_torch_dataset(dataset: Any, options: ReadOptions) -> RawData:
    """Read a dataset; of a ``Subset``, the positions in the underlying dataset are the ids."""
    if isinstance(dataset, IterableDataset):
        raise ValueError("an IterableDataset has no positions: use a dataset with a length and items.")
    options.reject("id", source="a PyTorch dataset: use ids=")
    options.reject_both()
    base, rows = unwrap_subsets(dataset)
    if not rows:
        raise ValueError(f"the {type(dataset).__name__} is empty.")
    first = base[rows[0]]
    input_key, label_key = find_keys(first, options)
    values: list[Any] | None = None
    left_out: list[dict[str, Any]] = []
    origin = "given with labels="
    if options.labels is None:
        values, origin = _label_attribute(base, rows, first, label_key), "the dataset's list of labels"
        if values is None:
            rows, values, left_out = _read_labels(base, rows, label_key, options)
            origin = "the items"
    inputs, input_metadata = _read_inputs(base, rows, input_key, first)
    names = getattr(base, "classes", None)
    names = [str(name) for name in names] if isinstance(names, list | tuple) and names else None
    source = f"{type(dataset).__module__}.{type(dataset).__name__}"
    metadata = {"name": type(base).__name__, **input_metadata, "source": source, "label": origin, "left_out": left_out}
    return RawData(inputs, values, [str(row) for row in rows], metadata, names, noun="item")


def unwrap_subsets(dataset: Any) -> tuple[Any, list[int]]:
    """Return the dataset inside all ``Subset``s, and the selected positions in it.

    Examples:
        >>> unwrap_subsets(Subset(Subset([5, 6, 7, 8], [3, 1, 0]), [2, 0]))
        ([5, 6, 7, 8], [0, 3])
    """
    rows: Sequence[int] = range(len(dataset))
    while isinstance(dataset, Subset):
        rows = [int(dataset.indices[row]) for row in rows]
        dataset = dataset.dataset
    return dataset, list(rows)


def find_keys(item: Any, options: ReadOptions) -> tuple[Key, Key]:
    """Return the keys of input and label in an item: 0 and 1 of a tuple, or keys of a dict.

    Examples:
        >>> find_keys(("an input", 3), ReadOptions())
        (0, 1)
        >>> find_keys({"image": "an input", "target": 3}, ReadOptions())
        ('image', 'target')
    """
    chosen = [*(options.features or ()), *(name for name in (options.image, options.text) if name is not None)]
    if isinstance(item, Mapping):
        label = options.label or next((key for key in _LABEL_KEYS if key in item), None)
        input_ = chosen[0] if chosen else next((key for key in _INPUT_KEYS if key in item), None)
        missing = [key for key in (input_, options.label) if key is not None and key not in item]
        if input_ is None or missing:
            raise ValueError(
                f"the items are dicts with {format_list(list(item), 'key')}: choose the input with features=, image= "
                "or text=, and the label with label=."
            )
        return input_, label
    if chosen or options.label is not None:
        raise ValueError("label=, features=, image= and text= are only supported for datasets of dicts.")
    if isinstance(item, tuple | list) and len(item) >= 2:
        return 0, 1
    return (0 if isinstance(item, tuple | list) and len(item) == 1 else None), None


def _label_attribute(base: Any, rows: Sequence[int], first: Any, key: Key) -> list[Any] | None:
    """Return the labels in the dataset's ``targets`` or ``labels``, if they agree with its items."""
    if getattr(base, "target_transform", None) is not None:
        return None
    targets: Any = base.tensors[1] if isinstance(base, TensorDataset) and len(base.tensors) > 1 else None
    for name in ("targets", "labels"):
        targets = getattr(base, name, None) if targets is None else targets
    if targets is None or not hasattr(targets, "__len__") or isinstance(targets, str) or len(targets) != len(base):
        return None
    values = to_list(targets)
    selected = [values[row] for row in rows]
    return selected if key is None or _to_scalar(first[key], rows[0]) == selected[0] else None


def _read_labels(
    base: Any, rows: Sequence[int], key: Key, options: ReadOptions
) -> tuple[list[int], list[Any], list[dict[str, Any]]]:
    """Read every item once; return the readable rows, their labels, and entries of ``left_out``."""
    if key is None:
        raise ValueError(f"the items of {type(base).__name__} have no label: give labels=, or items (input, label).")
    values, errors = {}, []
    with progress("reading labels", len(rows)) as advance:
        for row in rows:
            try:
                item = base[row]
            except Exception as error:  # the dataset's code can raise anything
                errors.append(f"{row}: {error}")
            else:
                values[row] = _to_scalar(item[key], row)
            advance()
    if errors and not options.skip_unreadable:
        raise ValueError(
            f"{format_list(errors, 'item')} cannot be read: correct the dataset, or pass skip_unreadable=True to leave "
            "them out."
        )
    readable = [row for row in rows if row in values]
    left_out = [left_out_entry("item", "cannot be read", errors)] if errors else []
    return readable, [values[row] for row in readable], left_out


def _read_inputs(base: Any, rows: Sequence[int], key: Key, first: Any) -> tuple[Inputs, dict[str, Any]]:
    """Return inputs of the kind of the first item; tensors in memory become vectors or images."""
    positions = torch.tensor(rows, dtype=torch.int64)
    if isinstance(base, TensorDataset) and (base.tensors[0].ndim == 2 or has_image_shape(base.tensors[0])):
        return to_inputs(base.tensors[0][positions], "the first tensor")
    value = first if key is None else first[key]
    if is_image(value):
        return LazyImages(ItemOpener(base, key), positions), {"kind": "images"}
    if isinstance(value, str):
        return Texts(tuple(base[row] if key is None else base[row][key] for row in rows)), {"kind": "texts"}
    if isinstance(value, Tensor | np.ndarray):
        return Items(base, positions, key), {"kind": "items"}
    raise ValueError(f"the inputs must be PIL images, tensors, arrays or texts, got {type(value).__name__}.")


def _to_scalar(value: Any, row: int) -> Any:
    """Return a label as a Python value."""
    if isinstance(value, Tensor | np.ndarray | np.generic):
        if value.ndim:
            raise ValueError(f"the label of item {row} must be one value, got shape {tuple(value.shape)}.")
        return value.item()
    return value
