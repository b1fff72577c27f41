"""Label files: one label for each sample, as .npz, .npy, a column of a CSV file, or a line each."""

import csv
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from permll.data.problems import nearest
from permll.noise.corruption import Corruption, read_labels

# What labels are called in files that hold more than labels; the first that is there is taken.
NAMES = ("labels", "label", "y", "y_train", "train_labels", "targets", "clean", "clean_label")
NOISY_NAMES = ("noisy", "noisy_labels", "noisy_label", *NAMES)


def label_file(
    path: Path | str, clean: ArrayLike, *, num_classes: int | None = None, key: str | None = None
) -> Corruption:
    r"""Return the record of noisy labels that somebody else made, one for each of the ``clean`` labels (N,).

    Args:
        path: .npz, .npy, .csv or .tsv with class numbers, or text with one of them in each line.
        clean: the labels of the data set, in the same order.
        num_classes: c; by default one more than the highest clean label.
        key: the array or column that holds the labels, where a name does not tell.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "noisy.txt"
        >>> _ = path.write_text("0\n1\n1\n")
        >>> record = label_file(path, [0, 1, 0])
        >>> record.noisy, record.noise["name"]
        (array([0, 1, 1]), 'file:noisy.txt')
    """
    path = Path(path)
    clean = np.asarray(clean)
    if num_classes is None:
        num_classes = count_classes(clean)
    clean = read_labels(clean, num_classes)
    try:
        noisy = read_labels(read_label_file(path, key=key, names=NOISY_NAMES), num_classes)
    except ValueError as problem:
        raise ValueError(str(problem) if str(path) in str(problem) else f"{path}: {problem}") from None
    if len(noisy) != len(clean):
        raise ValueError(
            f"{path} has {len(noisy):,} labels and the data set {len(clean):,}: it must have one for each sample."
        )
    return Corruption(clean, noisy, num_classes, None, {"name": f"file:{path.name}", "file": path.name})


def count_classes(labels: NDArray[Any]) -> int:
    """Return one more than the highest label, at least two: what c is where nothing else says.

    Examples:
        >>> count_classes(np.array([0, 4, 2]))
        5
    """
    return int(labels.max(initial=1)) + 1 if labels.dtype.kind in "iu" else 2


def read_label_file(path: Path | str, *, key: str | None = None, names: Sequence[str] = NAMES) -> NDArray[Any]:
    """Return the labels in a file, unchecked but for their being there; no code in it can run.

    Args:
        path: see ``label_file``.
        key: the array or column to read.
        names: what it may be called if ``key`` does not say; a single array or column may be called anything.
    """
    path = Path(path)
    labels = (_from_numpy if path.suffix in (".npy", ".npz") else _from_text)(path, key, names)
    return labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels


def _from_numpy(path: Path, key: str | None, names: Sequence[str]) -> NDArray[Any]:
    try:
        with path.open("rb") as file:  # NumPy leaves a broken file open if it opens it itself
            read = np.load(file, allow_pickle=False)
            if isinstance(read, np.ndarray):
                return read
            labels: NDArray[Any] = read[_choose(read.files, key, names, path)]
            return labels
    except (zipfile.BadZipFile, EOFError) as broken:
        raise ValueError(f"{path} is damaged: {broken or 'it ends too early'}.") from None
    except ValueError as problem:
        if "allow_pickle" not in str(problem):
            raise
        raise ValueError(f"{path} holds no plain numbers but Python objects, or is no NumPy file: not read.") from None


def _from_text(path: Path, key: str | None, names: Sequence[str]) -> NDArray[np.int64]:
    try:
        lines = path.read_text(encoding="utf-8-sig").rstrip().splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no text; label files are .npz, .npy, .csv, .tsv or text.") from None
    if not lines:
        raise ValueError(f"{path} is empty.")
    comma = next((sign for sign in "\t;," if sign in lines[0]), None)
    rows = list(csv.reader(lines, delimiter=comma)) if comma else [[line] for line in lines]
    column, first = 0, 0
    if not any(_is_number(cell) for cell in rows[0]):
        header = [cell.strip() for cell in rows[0]]
        column, first = header.index(_choose(header, key, names, path)), 1
    elif len(rows[0]) > 1:
        raise ValueError(f"{path} has {len(rows[0])} columns without names: name them in the first line.")
    cells = [(number, row[column] if column < len(row) else "") for number, row in enumerate(rows, 1)][first:]
    bad = next(((number, cell) for number, cell in cells if not _is_number(cell)), None)
    if bad:
        raise ValueError(f"{path}, line {bad[0]}: {bad[1]!r} is no class number; classes are 0, 1, 2, ...")
    return np.array([int(cell) for _, cell in cells], dtype=np.int64)


def _is_number(cell: str) -> bool:
    digits = cell.strip().removeprefix("-")
    return digits.isdecimal() and len(digits) <= 18  # as many as 64 bits hold for certain


def _choose(present: Iterable[str], key: str | None, names: Sequence[str], path: Path) -> str:
    """Return the array or column to read."""
    present = list(present)
    if key is not None:
        if key not in present:
            hint = nearest(key, present) or "."
            raise ValueError(f"{path} has nothing called {key!r}{hint} It holds {', '.join(present)}.")
        return key
    found = [name for name in names if name in present] or (present if len(present) == 1 else [])
    if not found:
        raise ValueError(f"{path} holds {', '.join(present) or 'nothing'}: say which of them are the labels.")
    return found[0]
