"""Location of dataset files in the folders where people keep them."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from permll.data.registry import DatasetInfo
from permll.utils.messages import format_list
from permll.utils.validation import check_class_labels


class DatasetNotFoundError(FileNotFoundError):
    """None of the files of a dataset exists."""


def candidate_folders(root: Path, *names: str) -> tuple[Path, ...]:
    """Return ``root``, then its sub-folders of those names."""
    return (root, *(root / name for name in names))


def find_files(
    info: DatasetInfo,
    root: Path,
    folders: Sequence[Path],
    files: Sequence[str],
    *,
    suffixes: Sequence[str] = ("",),
    exists: Callable[[Path], bool] = Path.is_file,
) -> list[Path]:
    """Return the paths of ``files`` in the first of ``folders`` that contains all of them, with any of ``suffixes``.

    The error names what is missing from the first folder that contains some of them, otherwise all folders.
    """
    partial: tuple[Path, list[str]] | None = None
    for folder in folders:
        matches = [
            next((folder / f"{name}{end}" for end in suffixes if exists(folder / f"{name}{end}")), None)
            for name in files
        ]
        paths = [path for path in matches if path is not None]
        if len(paths) == len(files):
            return paths
        if paths and partial is None:
            partial = folder, [name for name, path in zip(files, matches, strict=True) if path is None]
    if partial:
        folder, missing = partial
        raise FileNotFoundError(
            f"{info.title} in {folder} is incomplete, {format_list(missing, 'file')} missing: {info.how_to_get(root)}."
        )
    tried = ", ".join(str(folder.relative_to(root) if folder.is_relative_to(root) else folder) for folder in folders)
    raise DatasetNotFoundError(
        f"{info.title} not found: no {files[0]} in these folders of {root}: {tried}; {info.how_to_get(root)}."
    )


def row_ids(split: str, count: int) -> tuple[str, ...]:
    """Return ids for samples that are known only by their position in the official order.

    Examples:
        >>> row_ids("train", 50_000)[7]
        'train/00007'
    """
    return tuple(f"{split}/{row:05d}" for row in range(count))


def check_labels(labels: NDArray[np.int64], num_classes: int, path: Path, hint: str) -> None:
    """Raise unless the labels of a file are in 0..c-1."""
    check_class_labels(labels, num_classes, name=f"{path} is damaged: labels", noun="record", hint=hint)
