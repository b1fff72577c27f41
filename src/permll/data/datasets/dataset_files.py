"""Files of the built-in datasets: where people keep them, and lists of images and labels."""

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from permll.data.dataset import LabeledData
from permll.data.decoding import FileOpener
from permll.data.inputs import Fit, LazyImages
from permll.data.registry import DatasetInfo
from permll.utils.messages import format_list


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


def read_lines(path: Path) -> list[str]:
    """Return the non-empty lines of a text file, stripped."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is damaged: byte {error.start} is not UTF-8; get the file again.") from None
    return [stripped for line in text.splitlines() if (stripped := line.strip())]


def split_lines(path: Path) -> list[list[str]]:
    """Return the parts of each line before and after its last white space."""
    rows = [line.rsplit(None, 1) for line in read_lines(path)]
    bad = [row for row, parts in enumerate(rows) if len(parts) != 2]
    if bad:
        raise ValueError(
            f"{path} lacks a file name or label in {format_list(bad, 'line')}, counted from 0: get it again."
        )
    return rows


def check_class_count(path: Path, classes: Sequence[str], expected: int, hint: str = "get it again") -> None:
    """Raise unless a file names ``expected`` different classes."""
    if len(set(classes)) != expected:
        raise ValueError(f"{path} must name {expected} different classes, but it names {len(set(classes))}: {hint}.")


def missing_files(folder: Path, names: Sequence[str]) -> list[str]:
    """Return those of ``names`` that do not exist in ``folder``.

    Each sub-folder is listed once: this takes seconds for a million files, where one lookup per file takes minutes on a
    file server.
    """
    rows: dict[str, list[int]] = defaultdict(list)
    for row, name in enumerate(names):
        rows[name.rpartition("/")[0]].append(row)
    missing: list[int] = []
    for subfolder, members in rows.items():
        try:
            present = set(os.listdir(folder / subfolder))
        except (FileNotFoundError, NotADirectoryError):
            present = set()
        missing += [row for row in members if names[row].rpartition("/")[2] not in present]
    return [names[row] for row in sorted(missing)]


def image_data(
    info: DatasetInfo,
    split: str,
    folder: Path,
    names: Sequence[str],
    labels: Sequence[int | None],
    classes: Sequence[str],
    *,
    size: int,
    fit: Fit,
    ids: Sequence[str] | None = None,
    **metadata: Any,
) -> LabeledData:
    """Return the images ``names`` in ``folder`` as ``LabeledData``; ids are the names by default.

    Every image must exist and have a label; the error names all that do not.
    """
    ids = tuple(names if ids is None else ids)
    if not ids:
        raise ValueError(f"the {split} list of {info.title} in {folder} is empty: get it again.")
    unlabeled = [name for name, label in zip(ids, labels, strict=True) if label is None]
    absent = missing_files(folder, names)
    missing = [f"labels in 0..{len(classes) - 1} for {format_list(unlabeled, 'image')}"] if unlabeled else []
    missing += [format_list(absent, "image file")] if absent else []
    if missing:
        message = f"{info.title} ({split}) in {folder} lacks {' and '.join(missing)}: extract or copy it again."
        raise FileNotFoundError(message) if absent else ValueError(message)
    images = LazyImages(FileOpener(folder, tuple(names)), torch.arange(len(names)), size, fit)
    metadata = {"name": info.name, "split": split, "source": str(folder), **metadata}
    return LabeledData(images, torch.tensor(labels), tuple(classes), ids, metadata)
