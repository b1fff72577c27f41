"""Sets that come as lists of image files: reading the lists, and making sure that every file is there."""

import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from permll.data.dataset import LabeledData
from permll.data.decoding import OpenFile
from permll.data.inputs import LazyImages
from permll.data.registry import SetInfo
from permll.utils.messages import format_list

Fit = Literal["stretch", "crop"]


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text file that are not empty, without white space around them."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as problem:
        raise ValueError(f"{path} is damaged: byte {problem.start} is no UTF-8 text; get the file again.") from None
    return [stripped for line in text.splitlines() if (stripped := line.strip())]


def split_lines(path: Path, separator: str | None = None) -> list[list[str]]:
    """Return each line's part before the last ``separator`` and the part after it."""
    rows = [line.rsplit(separator, 1) for line in read_lines(path)]
    broken = [row for row, parts in enumerate(rows) if len(parts) != 2]
    if broken:
        raise ValueError(
            f"{path} has no file name and label in {format_list(broken, 'line')}, counted from 0: get it again."
        )
    return rows


def missing_files(folder: Path, names: Sequence[str]) -> list[str]:
    """Return those of ``names`` that are no file below ``folder``.

    Each sub-folder is read once: a million files are found in a second or two, where asking for each takes minutes on
    a file server.
    """
    rows: dict[str, list[int]] = defaultdict(list)
    for row, name in enumerate(names):
        rows[name.rpartition("/")[0]].append(row)
    missing: list[int] = []
    for below, members in rows.items():
        try:
            present = set(os.listdir(folder / below))
        except (FileNotFoundError, NotADirectoryError):
            present = set()
        missing += [row for row in members if names[row].rpartition("/")[2] not in present]
    return [names[row] for row in sorted(missing)]


def image_data(
    info: SetInfo,
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
    """Return the images ``names`` below ``folder`` as ``Data``; ids are the names if none are given.

    Every image must be there and have a label; what is missing is listed before anything is made.
    """
    ids = tuple(names if ids is None else ids)
    if not ids:
        raise ValueError(f"the {split} list of {info.title} in {folder} is empty: get it again.")
    unlabeled = [name for name, label in zip(ids, labels, strict=True) if label is None]
    absent = missing_files(folder, names)
    lacks = [f"labels in 0..{len(classes) - 1} for {format_list(unlabeled, 'image')}"] if unlabeled else []
    lacks += [format_list(absent, "image file")] if absent else []
    if lacks:
        problem = f"{info.title} ({split}) in {folder} lacks {' and '.join(lacks)}: unpack all of it, or copy it again."
        raise FileNotFoundError(problem) if absent else ValueError(problem)
    images = LazyImages(OpenFile(folder, tuple(names)), torch.arange(len(names)), size, fit)
    metadata = {"name": info.name, "split": split, "source": str(folder), **metadata}
    return LabeledData(images, torch.tensor(labels), tuple(classes), ids, metadata)
