"""Where the files of a set are: the folders people keep them in, and one sentence if they are in none."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from permll.data.registry import SetInfo
from permll.utils.messages import format_list


class NotThereError(FileNotFoundError):
    """No file of a set was found, anywhere."""


def below(root: Path, *names: str) -> tuple[Path, ...]:
    """Return ``root`` itself, then its sub-folders of those names."""
    return (root, *(root / name for name in names))


def find_files(
    info: SetInfo,
    root: Path,
    folders: Sequence[Path],
    files: Sequence[str],
    *,
    endings: Sequence[str] = ("",),
    there: Callable[[Path], bool] = Path.is_file,
) -> list[Path]:
    """Return the paths of ``files`` in the first of ``folders`` that holds them all, with any of ``endings``.

    A folder that holds some of them is named with what it lacks; otherwise the error says where was looked.
    """
    almost: tuple[Path, list[str]] | None = None
    for folder in folders:
        found = [
            next((folder / f"{name}{end}" for end in endings if there(folder / f"{name}{end}")), None) for name in files
        ]
        paths = [path for path in found if path is not None]
        if len(paths) == len(files):
            return paths
        if paths and almost is None:
            almost = folder, [name for name, path in zip(files, found, strict=True) if path is None]
    if almost:
        folder, lacking = almost
        raise FileNotFoundError(
            f"{info.title} in {folder} is incomplete, {format_list(lacking, 'file')} missing: {info.how_to_get(root)}."
        )
    places = ", ".join(str(folder.relative_to(root) if folder.is_relative_to(root) else folder) for folder in folders)
    raise NotThereError(
        f"{info.title} was not found, looked in {root} for {files[0]} in {places}: {info.how_to_get(root)}."
    )


def row_ids(split: str, count: int) -> tuple[str, ...]:
    """Return ids for samples that have no name but their place in the official order.

    Examples:
        >>> row_ids("train", 50_000)[7]
        'train/00007'
    """
    return tuple(f"{split}/{row:05d}" for row in range(count))


def check_range(labels: NDArray[np.int64], classes: int, path: Path, again: str) -> None:
    """Refuse labels outside 0..classes-1."""
    outside = np.flatnonzero((labels < 0) | (labels >= classes)).tolist()
    if outside:
        raise ValueError(
            f"{path} is damaged: labels lie outside 0..{classes - 1} in {format_list(outside, 'record')}; {again}."
        )
