"""CIFAR-10 and CIFAR-100, in the official python or binary layout."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch

from permll.data.dataset import LabeledData
from permll.data.datasets import class_names
from permll.data.datasets.cifar_files import read_binary, read_python
from permll.data.datasets.image_lists import check_class_count, read_lines
from permll.data.datasets.locate import candidate_folders, find_files, row_ids
from permll.data.inputs import Images
from permll.data.pickles import read_pickle
from permll.data.registry import DatasetInfo, find_dataset

Labels = Literal["fine", "coarse"]


@dataclass(frozen=True)
class _Column:
    """A label column: keys of its values and class names, the file of its names, and the names if no file has them."""

    key: str
    names_key: str
    names_file: str
    default_names: tuple[str, ...]


@dataclass(frozen=True)
class _Layout:
    """Folders and files of a dataset; ``columns`` in the order of the binary records."""

    folders: tuple[str, ...]
    python: str
    binary: str
    files: dict[str, tuple[str, ...]]
    meta: str
    columns: tuple[_Column, ...]


_CIFAR10 = _Layout(
    folders=("cifar10", "CIFAR10"),
    python="cifar-10-batches-py",
    binary="cifar-10-batches-bin",
    files={"train": tuple(f"data_batch_{number}" for number in range(1, 6)), "test": ("test_batch",)},
    meta="batches.meta",
    columns=(_Column("labels", "label_names", "batches.meta.txt", class_names.CIFAR10),),
)
_COARSE = _Column("coarse_labels", "coarse_label_names", "coarse_label_names.txt", class_names.CIFAR100_COARSE)
_FINE = _Column("fine_labels", "fine_label_names", "fine_label_names.txt", class_names.CIFAR100_FINE)
_CIFAR100 = _Layout(
    folders=("cifar100", "CIFAR100"),
    python="cifar-100-python",
    binary="cifar-100-binary",
    files={"train": ("train",), "test": ("test",)},
    meta="meta",
    columns=(_COARSE, _FINE),
)


def cifar10(root: Path, split: str) -> LabeledData:
    """Return CIFAR-10 from ``root``, ``root``/cifar10 and the like; ids are positions in the official order."""
    return _load(find_dataset("cifar10"), _CIFAR10, 0, root, split)


def cifar100(root: Path, split: str, *, labels: Labels = "fine") -> LabeledData:
    """Return CIFAR-100 with its 100 fine classes, or with ``labels="coarse"`` its 20 superclasses."""
    if labels not in get_args(Labels):
        raise ValueError(f"labels must be one of {', '.join(get_args(Labels))}; got {labels!r}.")
    return _load(find_dataset("cifar100"), _CIFAR100, 1 if labels == "fine" else 0, root, split)


def _load(info: DatasetInfo, layout: _Layout, column: int, root: Path, split: str) -> LabeledData:
    count, files = info.samples[info.check_split(split)], layout.files[split]
    homes = candidate_folders(root, *layout.folders)
    folders = [home / name for home in homes for name in (layout.python, layout.binary, ".")]
    paths = find_files(info, root, folders, files, suffixes=("", ".bin"))
    hint, chosen = info.how_to_get(root), layout.columns[column]
    pixels = np.empty((count, 3, 32, 32), np.uint8)
    labels = np.empty(count, np.int64)
    size = count // len(paths)
    for number, path in enumerate(paths):
        rows = slice(number * size, (number + 1) * size)
        if path.suffix == ".bin":
            num_classes = [len(each.default_names) for each in layout.columns]
            pixels[rows], labels[rows] = read_binary(path, size, num_classes, column, hint)
        else:
            pixels[rows], labels[rows] = read_python(path, size, chosen.key, len(chosen.default_names), hint)
    folder = paths[0].parent
    metadata = {"name": info.name, "split": split, "source": str(folder), "files": [path.name for path in paths]}
    if len(layout.columns) > 1:
        metadata["labels"] = chosen.key.removesuffix("_labels")
    classes = _read_class_names(folder, layout.meta, chosen)
    return LabeledData(
        Images(torch.from_numpy(pixels)), torch.from_numpy(labels), classes, row_ids(split, count), metadata
    )


def _read_class_names(folder: Path, meta: str, column: _Column) -> tuple[str, ...]:
    """Return the class names in the folder's file, or the default ones without a file."""
    if (folder / meta).is_file():
        path, content = folder / meta, read_pickle(folder / meta)
        names = content.get(column.names_key) if isinstance(content, dict) else None
    elif (folder / column.names_file).is_file():
        path, names = folder / column.names_file, read_lines(folder / column.names_file)
    else:
        return column.default_names
    classes = tuple(str(name).strip() for name in names) if isinstance(names, list) else ()
    check_class_count(path, classes, len(column.default_names), "get it again, or remove it to use the default names")
    return classes
