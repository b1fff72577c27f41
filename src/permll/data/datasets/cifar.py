"""CIFAR-10 and CIFAR-100, in the official python layout (pickles) or binary layout."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from permll.data.dataset import LabeledData
from permll.data.datasets import class_names
from permll.data.datasets.dataset_files import candidate_folders, check_class_count, find_files, read_lines, row_ids
from permll.data.inputs import Images
from permll.data.pickles import UnsafePickleError, read_pickle
from permll.data.registry import find_dataset
from permll.utils.validation import check_class_labels

Labels = Literal["fine", "coarse"]
ImagesAndLabels = tuple[NDArray[np.uint8], NDArray[np.int64]]
_NUM_PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class _Layout:
    """Folders and files of a dataset.

    ``classes`` are the names of each label column, in the order of the binary records, by the prefix of its keys.
    """

    homes: tuple[str, ...]
    folders: tuple[str, ...]
    files: dict[str, tuple[str, ...]]
    meta: str
    names_file: str
    classes: dict[str, tuple[str, ...]]


_CIFAR10 = _Layout(
    homes=("cifar10", "CIFAR10"),
    folders=("cifar-10-batches-py", "cifar-10-batches-bin", "."),
    files={"train": tuple(f"data_batch_{number}" for number in range(1, 6)), "test": ("test_batch",)},
    meta="batches.meta",
    names_file="batches.meta.txt",
    classes={"": class_names.CIFAR10},
)
_CIFAR100 = _Layout(
    homes=("cifar100", "CIFAR100"),
    folders=("cifar-100-python", "cifar-100-binary", "."),
    files={"train": ("train",), "test": ("test",)},
    meta="meta",
    names_file="{prefix}label_names.txt",
    classes={"coarse_": class_names.CIFAR100_COARSE, "fine_": class_names.CIFAR100_FINE},
)


def cifar10(root: Path, split: str) -> LabeledData:
    """Return CIFAR-10 from ``root``, ``root``/cifar10 and the like; ids are positions in the official order."""
    return _load("cifar10", _CIFAR10, "", root, split)


def cifar100(root: Path, split: str, *, labels: Labels = "fine") -> LabeledData:
    """Return CIFAR-100 with its 100 fine classes, or with ``labels="coarse"`` its 20 superclasses."""
    if labels not in get_args(Labels):
        raise ValueError(f"labels must be one of {', '.join(get_args(Labels))}; got {labels!r}.")
    data = _load("cifar100", _CIFAR100, f"{labels}_", root, split)
    return data.with_metadata(labels=labels)


def _load(name: str, layout: _Layout, prefix: str, root: Path, split: str) -> LabeledData:
    info = find_dataset(name)
    count, files = info.samples[info.check_split(split)], layout.files[split]
    folders = [home / folder for home in candidate_folders(root, *layout.homes) for folder in layout.folders]
    paths = find_files(info, root, folders, files, suffixes=("", ".bin"))
    pixels, labels = np.empty((count, 3, 32, 32), np.uint8), np.empty(count, np.int64)
    size = count // len(paths)
    for number, path in enumerate(paths):
        rows = slice(number * size, (number + 1) * size)
        read = _read_binary if path.suffix == ".bin" else _read_python
        pixels[rows], labels[rows] = read(path, size, layout, prefix, info.how_to_get(root))
    folder = paths[0].parent
    metadata = {"name": name, "split": split, "source": str(folder), "files": [path.name for path in paths]}
    classes, ids = _read_class_names(folder, layout, prefix), row_ids(split, count)
    return LabeledData(Images(torch.from_numpy(pixels)), torch.from_numpy(labels), classes, ids, metadata)


def _read_binary(path: Path, count: int, layout: _Layout, prefix: str, hint: str) -> ImagesAndLabels:
    """Return pixels (count, 3, 32, 32) and labels (count,) of a .bin file.

    A record is one byte per label column, all of which are checked, then 3,072 bytes of pixels.
    """
    num_columns = len(layout.classes)
    width, size = num_columns + _NUM_PIXELS, path.stat().st_size
    if size != count * width:
        raise ValueError(
            f"{path} is truncated or damaged: expected {count * width:,} bytes ({count:,} records of {width:,}), "
            f"got {size:,}; {hint}."
        )
    records = np.fromfile(path, np.uint8).reshape(count, width)
    labels = dict(zip(layout.classes, records[:, :num_columns].T.astype(np.int64), strict=True))
    for column, classes in layout.classes.items():
        _check_labels(labels[column], classes, path, hint)
    return records[:, num_columns:].reshape(count, 3, 32, 32), labels[prefix]


def _read_python(path: Path, count: int, layout: _Layout, prefix: str, hint: str) -> ImagesAndLabels:
    """Return pixels (count, 3, 32, 32) and labels (count,) of a pickled batch."""
    try:
        batch = read_pickle(path)
    except UnsafePickleError as error:
        size, expected = path.stat().st_size, count * _NUM_PIXELS
        truncated = f"it has {size:,} bytes, a complete one more than {expected:,}; " if size < expected else ""
        raise UnsafePickleError(f"{str(error).rstrip('.')}; {truncated}{hint}.") from None
    key = f"{prefix}labels"
    data, labels = (batch.get(name) if isinstance(batch, dict) else None for name in ("data", key))
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape != (count, _NUM_PIXELS):
        actual = f"{data.dtype} {data.shape}" if isinstance(data, np.ndarray) else type(data).__name__
        raise ValueError(
            f"{path} is not a CIFAR batch: data must be uint8 {(count, _NUM_PIXELS)}, got {actual}; {hint}."
        )
    try:
        numbers: NDArray[Any] = np.asarray(labels)
    except ValueError:  # nested lists
        numbers = np.empty(0)
    if numbers.dtype.kind not in "iu" or numbers.shape != (count,):
        actual = f"{len(labels):,} values" if isinstance(labels, list) else type(labels).__name__
        raise ValueError(f"{path} is not a CIFAR batch: {key} must be {count:,} integers, got {actual}; {hint}.")
    _check_labels(numbers, layout.classes[prefix], path, hint)
    return data.reshape(count, 3, 32, 32), numbers.astype(np.int64)


def _check_labels(labels: NDArray[Any], classes: tuple[str, ...], path: Path, hint: str) -> None:
    check_class_labels(labels, len(classes), name=f"{path} is damaged: labels", noun="record", hint=hint)


def _read_class_names(folder: Path, layout: _Layout, prefix: str) -> tuple[str, ...]:
    """Return the class names in the folder's file, or the default ones without a file."""
    meta, text, default = folder / layout.meta, folder / layout.names_file.format(prefix=prefix), layout.classes[prefix]
    if meta.is_file():
        path, content = meta, read_pickle(meta)
        names = content.get(f"{prefix}label_names") if isinstance(content, dict) else None
    elif text.is_file():
        path, names = text, read_lines(text)
    else:
        return default
    classes = tuple(str(name).strip() for name in names) if isinstance(names, list) else ()
    check_class_count(path, classes, len(default), "get it again, or remove it to use the default names")
    return classes
