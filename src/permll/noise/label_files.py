"""Label files: .npz, .npy, a column of a CSV file, or text with one label per line."""

import csv
import re
import warnings
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from permll.noise.class_names import published_class_names, with_class_names
from permll.noise.corruption import Corruption, infer_num_classes, read_labels, require_file
from permll.utils.messages import did_you_mean

# Names of label arrays or columns, matched without case; the first one in the file is read.
LABEL_NAMES = ("labels", "label", "y", "y_train", "train_labels", "targets", "clean", "clean_label")
NOISY_LABEL_NAMES = ("noisy", "noisy_labels", "noisy_label", *LABEL_NAMES)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_MAX_EXACT_INT = 2**53  # largest integer range that float64 represents exactly
_KEY_OPTION = "--key on the command line, key= in Python"


class CleanLabels(NamedTuple):
    """Clean labels of a data set."""

    labels: NDArray[Any]  # (N,) class numbers
    num_classes: int
    classes: tuple[str, ...] | None = None  # class names, if known


def read_noisy_labels(
    path: Path | str,
    clean: ArrayLike,
    *,
    num_classes: int | None = None,
    key: str | None = None,
    classes: Sequence[str] | None = None,
) -> Corruption:
    r"""Read noisy labels from a file, one for each of the ``clean`` labels (N,).

    Args:
        path: .npz, .npy, .csv or .tsv file with class numbers or names, or text with one label per line.
        clean: labels of the data set in the same order, as class numbers.
        num_classes: c. Default: number of ``classes``, otherwise highest clean label + 1.
        key: array or column with the labels, if its name is not a usual one.
        classes: c class names in the order of their numbers, required for text labels.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "noisy.txt"
        >>> _ = path.write_text("cat\ndog\ndog\n")
        >>> record = read_noisy_labels(path, [0, 1, 0], classes=["cat", "dog"])
        >>> record.noisy, record.noise["name"]
        (array([0, 1, 1]), 'file:noisy.txt')
    """
    path = require_file(path, "label file")
    clean = np.asarray(clean)
    if num_classes is None:
        num_classes = len(classes) if classes is not None else infer_num_classes(clean)
    clean = read_labels(clean, num_classes)
    try:
        values = read_label_file(path, key=key, names=NOISY_LABEL_NAMES)
        if classes is None and _is_text(values):
            raise ValueError(
                "text labels need the class names in order (classes= in Python; on the command line, clean labels "
                "as text)."
            )
        noisy = read_labels(values if classes is None else _encode(values, classes)[0], num_classes)
    except ValueError as error:
        raise ValueError(str(error) if str(path) in str(error) else f"{path}: {error}") from None
    if len(noisy) != len(clean):
        raise ValueError(
            f"{path} has {len(noisy):,} labels, but the data set has {len(clean):,}: give one label per sample."
        )
    record = Corruption(clean, noisy, num_classes, None, {"name": f"file:{path.name}", "file": path.name})
    return with_class_names(record, classes)


def read_clean_labels(
    path: Path | str, *, num_classes: int | None = None, key: str | None = None, data_set: str | None = None
) -> CleanLabels:
    r"""Read clean labels from a file; text labels are numbered in sorted order, or as in a published ``data_set``.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "clean.txt"
        >>> _ = path.write_text("dog\ncat\ndog\n")
        >>> read_clean_labels(path)
        CleanLabels(labels=array([1, 0, 1]), num_classes=2, classes=('cat', 'dog'))
    """
    path = require_file(path, "label file")
    values = read_label_file(path, key=key)
    if not _is_text(values):
        return CleanLabels(values, num_classes or infer_num_classes(values, "--classes "))
    try:
        labels, classes = _encode(values, published_class_names(data_set))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if len(classes) < 2:
        raise ValueError(f"{path} has a single class, {', '.join(classes)}: label noise needs at least two.")
    if num_classes not in (None, len(classes)):
        raise ValueError(
            f"{path} has {len(classes)} classes, not {num_classes}: omit the number of classes for text labels."
        )
    return CleanLabels(labels, len(classes), classes)


def read_label_file(path: Path | str, *, key: str | None = None, names: Sequence[str] = LABEL_NAMES) -> NDArray[Any]:
    """Return the labels in a file, numbers or text, unchecked; nothing is unpickled.

    Args:
        path: see ``read_noisy_labels``.
        key: array or column to read.
        names: accepted names without ``key``; a single array may have any name.
    """
    path = require_file(path, "label file")
    labels = (_read_numpy if path.suffix in (".npy", ".npz") else _read_text)(path, key, names)
    if labels.dtype.kind == "f" and (np.abs(labels) <= _MAX_EXACT_INT).all() and (labels == np.floor(labels)).all():
        labels = labels.astype(np.int64)
    return labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels


def _read_numpy(path: Path, key: str | None, names: Sequence[str]) -> NDArray[Any]:
    try:
        with path.open("rb") as file:  # np.load leaves a broken file open if it opens the file itself
            content = np.load(file, allow_pickle=False)
            if isinstance(content, np.ndarray):
                return content
            labels: NDArray[Any] = content[_select_name(content.files, key, names, path)]
            return labels
    except (zipfile.BadZipFile, EOFError) as error:
        raise ValueError(f"{path} is damaged: {error or 'unexpected end of file'}.") from None
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise ValueError(f"{path} contains Python objects or is not a NumPy file, so it was not read.") from None


def _read_text(path: Path, key: str | None, names: Sequence[str]) -> NDArray[Any]:
    """Return the labels of a text file, as int64 if all are integers, otherwise as strings."""
    try:
        lines = path.read_text(encoding="utf-8-sig").rstrip().splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not text; label files are .npz, .npy, .csv, .tsv or text.") from None
    if not lines:
        raise ValueError(f"{path} is empty.")
    is_table = path.suffix.lower() in (".csv", ".tsv")
    delimiter = next((character for character in "\t;," if character in lines[0]), None)
    rows = [[line] for line in lines]  # quotes are part of a label
    if delimiter or is_table:
        rows = list(csv.reader(lines, delimiter=delimiter or "\x1f"))  # csv.reader requires a delimiter
    column, num_header_rows = _locate_column(rows, key, names, path, is_table=is_table)
    labels = [row[column].strip() if column < len(row) else "" for row in rows[num_header_rows:]]
    if not labels:
        raise ValueError(f"{path} has a header but no labels.")
    numbers = [_parse_class_number(label) for label in labels]
    if all(number is not None for number in numbers):
        return np.array(numbers, dtype=np.int64)
    _check_text(dict(enumerate(labels, num_header_rows + 1)), path)
    return np.array(labels, dtype=object)


def _parse_class_number(cell: str) -> int | None:
    """Return the integer in a cell in any notation, or None.

    Examples:
        >>> [_parse_class_number(cell) for cell in ("3", "3.0", "3.000e+00", "3.5", "cat", "")]
        [3, 3, 3, None, None, None]
    """
    digits = cell.removeprefix("-")
    if digits.isdecimal() and len(digits) <= 18:  # fits into 64 bits
        return int(cell)
    value = float(cell) if _NUMBER.fullmatch(cell) else 0.5
    return int(value) if value.is_integer() and abs(value) <= _MAX_EXACT_INT else None


def _select_name(available: Iterable[str], key: str | None, names: Sequence[str], path: Path) -> str:
    """Return the array or column to read: ``key``, the first of ``names`` in the file, or the only one."""
    available = list(available)
    folded = {name.casefold(): name for name in reversed(available)}
    if key is not None:
        if key not in available and key.casefold() not in folded:
            hint = did_you_mean(key, available) or "."
            raise ValueError(f"{path} has no column or array {key!r}{hint} It has {', '.join(available)}.")
        return key if key in available else folded[key.casefold()]
    matches = [folded[name] for name in names if name in folded] or (available if len(available) == 1 else [])
    if not matches:
        raise ValueError(f"{path} has {', '.join(available) or 'no arrays'}: name the labels ({_KEY_OPTION}).")
    return matches[0]


def _locate_column(
    rows: list[list[str]], key: str | None, names: Sequence[str], path: Path, *, is_table: bool
) -> tuple[int, int]:
    """Return the index of the label column and the number of header rows."""
    header = [cell.strip() for cell in rows[0]]
    if len(header) > 1 and any(map(_NUMBER.fullmatch, header)):
        raise ValueError(f"{path} has {len(header)} columns but no header: add column names as the first line.")
    if len(header) > 1 or key is not None:
        return header.index(_select_name(header, key, names, path)), 1
    # A single column needs no header. A first line such as "y" that occurs again is a label.
    recurs = any(row and row[0].strip() == header[0] for row in rows[1:])
    if header[0].casefold() in names and not recurs:
        return 0, 1
    if is_table and not recurs and not _NUMBER.fullmatch(header[0]) and len(rows) > 1:
        warnings.warn(
            f"{path}: the first line, {header[0]!r}, is read as a label although it does not occur again; if it is a "
            f"header, name it ({_KEY_OPTION}).",
            stacklevel=4,
        )
    return 0, 0


def _check_text(labels: dict[int, str], path: Path) -> None:
    """Raise for missing labels, and for numbers that are not classes or stand among text; keys are line numbers."""
    empty = [line for line, label in labels.items() if not label]
    numbers = [line for line, label in labels.items() if _NUMBER.fullmatch(label)]
    texts = [line for line, label in labels.items() if label and not _NUMBER.fullmatch(label)]
    if empty:
        raise ValueError(f"{path}, line {empty[0]}: the label is missing; add it or remove the sample.")
    if texts and len(texts) > len(numbers) > 0:
        what = f"{path}, line {numbers[0]}: {labels[numbers[0]]!r}"
        raise ValueError(f"{what} is a number among text labels; use one kind of label.")
    if numbers:
        line = texts[0] if texts else next(line for line in numbers if _parse_class_number(labels[line]) is None)
        hint = f"if it is a header, name it ({_KEY_OPTION})." if texts and line == 1 else "classes are 0, 1, 2, ..."
        raise ValueError(f"{path}, line {line}: {labels[line]!r} is not a class number; {hint}")


def _is_text(labels: NDArray[Any]) -> bool:
    """Return whether labels are text or booleans, which must be encoded."""
    return labels.dtype.kind in "USOb"


def _encode(values: NDArray[Any], classes: Sequence[str] | None) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    from permll.data.labels import encode_labels  # imports torch, which integer labels do not need

    labels, names = encode_labels(values, classes)
    return labels.numpy(), names
