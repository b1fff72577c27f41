"""CIFAR-10 and CIFAR-100, in the official python layout or the official binary one, whichever is there."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch

from permll.data.dataset import LabeledData
from permll.data.datasets import class_names as names
from permll.data.datasets.cifar_files import Batch, read_binary, read_python
from permll.data.datasets.image_lists import read_lines
from permll.data.datasets.locate import below, find_files, row_ids
from permll.data.inputs import Images
from permll.data.pickles import read_pickle
from permll.data.registry import SetInfo, find

Labels = Literal["fine", "coarse"]


@dataclass(frozen=True)
class _Column:
    """One column of labels: where its values and its names are, and the names if no file has them."""

    key: str
    names_key: str
    names_file: str
    built_in: tuple[str, ...]


@dataclass(frozen=True)
class _Layout:
    """What differs between the two sets. ``columns`` in the order of the binary records."""

    homes: tuple[str, ...]
    python: str
    binary: str
    files: dict[str, tuple[str, ...]]
    meta: str
    columns: tuple[_Column, ...]


_CIFAR10 = _Layout(
    homes=("cifar10", "CIFAR10"),
    python="cifar-10-batches-py",
    binary="cifar-10-batches-bin",
    files={"train": tuple(f"data_batch_{number}" for number in range(1, 6)), "test": ("test_batch",)},
    meta="batches.meta",
    columns=(_Column("labels", "label_names", "batches.meta.txt", names.CIFAR10),),
)
_COARSE = _Column("coarse_labels", "coarse_label_names", "coarse_label_names.txt", names.CIFAR100_COARSE)
_FINE = _Column("fine_labels", "fine_label_names", "fine_label_names.txt", names.CIFAR100_FINE)
_CIFAR100 = _Layout(
    homes=("cifar100", "CIFAR100"),
    python="cifar-100-python",
    binary="cifar-100-binary",
    files={"train": ("train",), "test": ("test",)},
    meta="meta",
    columns=(_COARSE, _FINE),
)


def cifar10(root: Path, split: str) -> LabeledData:
    """Return CIFAR-10 from ``root``, ``root``/cifar10 and the like, in the official order; ids are that order."""
    return _load(find("cifar10"), _CIFAR10, 0, root, split)


def cifar100(root: Path, split: str, *, labels: Labels = "fine") -> LabeledData:
    """Return CIFAR-100 with its 100 fine classes, or with ``labels="coarse"`` its 20 superclasses."""
    if labels not in get_args(Labels):
        raise ValueError(f"labels must be one of {', '.join(get_args(Labels))}; got {labels!r}.")
    return _load(find("cifar100"), _CIFAR100, 1 if labels == "fine" else 0, root, split)


def _load(info: SetInfo, layout: _Layout, place: int, root: Path, split: str) -> LabeledData:
    count, files = info.samples[info.known_split(split)], layout.files[split]
    homes = below(root, *layout.homes)
    folders = [home / name for home in homes for name in (layout.python, layout.binary, ".")]
    paths = find_files(info, root, folders, files, endings=("", ".bin"))
    again = info.how_to_get(root)
    pixels = np.empty((count, 3, 32, 32), np.uint8)
    labels = np.empty(count, np.int64)
    each = count // len(paths)
    for number, path in enumerate(paths):
        rows = slice(number * each, (number + 1) * each)
        pixels[rows], labels[rows] = _read(path, each, layout.columns, place, again)
    folder = paths[0].parent
    metadata = {"name": info.name, "split": split, "source": str(folder), "files": [path.name for path in paths]}
    if len(layout.columns) > 1:
        metadata["labels"] = layout.columns[place].key.removesuffix("_labels")
    classes = _names(folder, layout.meta, layout.columns[place])
    return LabeledData(
        Images(torch.from_numpy(pixels)), torch.from_numpy(labels), classes, row_ids(split, count), metadata
    )


def _read(path: Path, count: int, columns: Sequence[_Column], place: int, again: str) -> Batch:
    if path.suffix == ".bin":
        return read_binary(path, count, [len(column.built_in) for column in columns], place, again)
    return read_python(path, count, columns[place].key, len(columns[place].built_in), again)


def _names(folder: Path, meta: str, column: _Column) -> tuple[str, ...]:
    """Return the class names as the folder's own file has them, or the built-in ones if it has none."""
    if (folder / meta).is_file():
        source, content = folder / meta, read_pickle(folder / meta)
        found = content.get(column.names_key) if isinstance(content, dict) else None
    elif (folder / column.names_file).is_file():
        source, found = folder / column.names_file, read_lines(folder / column.names_file)
    else:
        return column.built_in
    classes = tuple(str(name).strip() for name in found) if isinstance(found, list) else ()
    if len(set(classes)) != len(column.built_in):
        raise ValueError(
            f"{source} must name {len(column.built_in)} classes, it names {len(set(classes))}: get it again, or move "
            "it away and the built-in names are used."
        )
    return classes
