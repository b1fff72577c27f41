"""Read the label column of a text file as integers or class names."""

import csv
import re
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from permll.utils.messages import did_you_mean

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_MAX_EXACT_INT = 2**53  # largest integer range that float64 represents exactly
_UNUSED_DELIMITER = "\x1f"  # csv.reader requires a delimiter
_KEY_OPTION = "--key on the command line, key= in Python"


def read_column(path: Path, key: str | None, names: Sequence[str]) -> NDArray[Any]:
    """Return the labels of a text file, as int64 if all are integers, otherwise as strings."""
    rows = _read_rows(path)
    column, num_header_rows = _locate_column(rows, key, names, path)
    cells = {
        line: row[column].strip() if column < len(row) else ""
        for line, row in enumerate(rows, 1)
        if line > num_header_rows
    }
    if not cells:
        raise ValueError(f"{path} has a header but no labels.")
    numbers = [parse_class_number(cell) for cell in cells.values()]
    if all(number is not None for number in numbers):
        return np.array(numbers, dtype=np.int64)
    _check_cells(cells, path)
    return np.array(list(cells.values()), dtype=object)


def parse_class_number(cell: str) -> int | None:
    """Return the integer in a cell in any notation, or None.

    Examples:
        >>> [parse_class_number(cell) for cell in ("3", "3.0", "3.000e+00", "3.5", "cat", "")]
        [3, 3, 3, None, None, None]
    """
    digits = cell.removeprefix("-")
    if digits.isdecimal() and len(digits) <= 18:  # fits into 64 bits
        return int(cell)
    value = float(cell) if _NUMBER.fullmatch(cell) else 0.5
    return int(value) if value.is_integer() and abs(value) <= _MAX_EXACT_INT else None


def select_name(available: Iterable[str], key: str | None, names: Sequence[str], path: Path) -> str:
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


def _read_rows(path: Path) -> list[list[str]]:
    try:
        lines = path.read_text(encoding="utf-8-sig").rstrip().splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not text; label files are .npz, .npy, .csv, .tsv or text.") from None
    if not lines:
        raise ValueError(f"{path} is empty.")
    delimiter = next((character for character in "\t;," if character in lines[0]), None)
    if delimiter is None and not _is_table(path):
        return [[line] for line in lines]  # quotes are part of a label
    return list(csv.reader(lines, delimiter=delimiter or _UNUSED_DELIMITER))


def _locate_column(rows: list[list[str]], key: str | None, names: Sequence[str], path: Path) -> tuple[int, int]:
    """Return the index of the label column and the number of header rows."""
    header = [cell.strip() for cell in rows[0]]
    if len(header) > 1 and any(map(_NUMBER.fullmatch, header)):
        raise ValueError(f"{path} has {len(header)} columns but no header: add column names as the first line.")
    if len(header) > 1 or key is not None:
        return header.index(select_name(header, key, names, path)), 1
    # A single column needs no header. A first line such as "y" that occurs again is a label.
    recurs = any(row and row[0].strip() == header[0] for row in rows[1:])
    if header[0].casefold() in names and not recurs:
        return 0, 1
    if _is_table(path) and not recurs and not _NUMBER.fullmatch(header[0]) and len(rows) > 1:
        warnings.warn(
            f"{path}: the first line, {header[0]!r}, is read as a label although it does not occur again; if it is a "
            f"header, name it ({_KEY_OPTION}).",
            stacklevel=4,
        )
    return 0, 0


def _is_table(path: Path) -> bool:
    return path.suffix.lower() in (".csv", ".tsv")


def _check_cells(cells: dict[int, str], path: Path) -> None:
    """Raise for empty cells, and for mixtures of numbers and text; ``cells`` maps line numbers to cells."""
    numbers = [line for line, cell in cells.items() if _NUMBER.fullmatch(cell)]
    texts = [line for line, cell in cells.items() if cell and not _NUMBER.fullmatch(cell)]
    empty = next((line for line, cell in cells.items() if not cell), None)
    if empty is not None:
        raise ValueError(f"{path}, line {empty}: the label is missing; add it or remove the sample.")
    if texts and len(numbers) >= len(texts):
        hint = f"if it is a header, name it ({_KEY_OPTION})." if texts[0] == 1 else "classes are 0, 1, 2, ..."
        raise ValueError(f"{path}, line {texts[0]}: {cells[texts[0]]!r} is not a class number; {hint}")
    if texts and numbers:
        line = numbers[0]
        raise ValueError(f"{path}, line {line}: {cells[line]!r} is a number among text labels; use one kind of label.")
    if numbers:
        line = next(line for line in numbers if parse_class_number(cells[line]) is None)
        raise ValueError(f"{path}, line {line}: {cells[line]!r} is not a class number; classes are 0, 1, 2, ...")
