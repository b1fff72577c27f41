"""Labels in text files: which column holds them, and whether they are numbers or words."""

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
_EXACT = 2**53  # beyond it, a float no longer tells neighbouring whole numbers apart
_NO_COMMA = "\x1f"  # a sign that no label holds: the reader of CSV files wants one
_HOW_TO_SAY = "--key on the command line, key= in Python"


def read_column(path: Path, key: str | None, names: Sequence[str]) -> NDArray[Any]:
    """Return the labels of a text file, as int64 where they are numbers, otherwise as words."""
    rows = _rows(path)
    column, first = _find(rows, key, names, path)
    cells = {number: row[column].strip() if column < len(row) else "" for number, row in enumerate(rows, 1)}
    cells = {number: cell for number, cell in cells.items() if number > first}
    if not cells:
        raise ValueError(f"{path} has a header but no labels below it.")
    numbers = [class_number(cell) for cell in cells.values()]
    if all(number is not None for number in numbers):
        return np.array(numbers, dtype=np.int64)
    _refuse_odd_cells(cells, path)
    return np.array(list(cells.values()), dtype=object)


def class_number(cell: str) -> int | None:
    """Return the whole number that a cell holds, however it is written; None if it holds none.

    Examples:
        >>> [class_number(cell) for cell in ("3", "3.0", "3.000e+00", "3.5", "cat", "")]
        [3, 3, 3, None, None, None]
    """
    digits = cell.removeprefix("-")
    if digits.isdecimal() and len(digits) <= 18:  # as many as 64 bits hold for certain
        return int(cell)
    value = float(cell) if _NUMBER.fullmatch(cell) else 0.5
    return int(value) if value.is_integer() and abs(value) <= _EXACT else None


def choose(present: Iterable[str], key: str | None, names: Sequence[str], path: Path) -> str:
    """Return the array or column to read: ``key``, the first of ``names`` that is there, or the only one."""
    present = list(present)
    folded = {name.casefold(): name for name in reversed(present)}
    if key is not None:
        if key not in present and key.casefold() not in folded:
            hint = did_you_mean(key, present) or "."
            raise ValueError(f"{path} has nothing called {key!r}{hint} It holds {', '.join(present)}.")
        return key if key in present else folded[key.casefold()]
    found = [folded[name] for name in names if name in folded] or (present if len(present) == 1 else [])
    if not found:
        has = ", ".join(present) or "nothing"
        raise ValueError(f"{path} holds {has}: say which of them are the labels ({_HOW_TO_SAY}).")
    return found[0]


def _rows(path: Path) -> list[list[str]]:
    try:
        lines = path.read_text(encoding="utf-8-sig").rstrip().splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no text; label files are .npz, .npy, .csv, .tsv or text.") from None
    if not lines:
        raise ValueError(f"{path} is empty.")
    comma = next((sign for sign in "\t;," if sign in lines[0]), None)
    if comma is None and not _is_table(path):
        return [[line] for line in lines]  # quotes are part of a label here
    return list(csv.reader(lines, delimiter=comma or _NO_COMMA))


def _find(rows: list[list[str]], key: str | None, names: Sequence[str], path: Path) -> tuple[int, int]:
    """Return the column of the labels, and how many rows of header stand above them."""
    head = [cell.strip() for cell in rows[0]]
    if len(head) > 1 and any(map(_NUMBER.fullmatch, head)):
        raise ValueError(f"{path} has {len(head)} columns without names: name them in the first line.")
    if len(head) > 1 or key is not None:
        return head.index(choose(head, key, names, path)), 1
    # A file of labels needs no header, and what looks like one may be a label: of y and n, say.
    again = any(row and row[0].strip() == head[0] for row in rows[1:])
    if head[0].casefold() in names and not again:
        return 0, 1
    if _is_table(path) and not again and not _NUMBER.fullmatch(head[0]) and len(rows) > 1:
        warnings.warn(
            f"{path}: the first line, {head[0]!r}, is taken for a label, though no other is like it: if it is a "
            f"header, name it ({_HOW_TO_SAY}).",
            stacklevel=4,
        )
    return 0, 0


def _is_table(path: Path) -> bool:
    return path.suffix.lower() in (".csv", ".tsv")


def _refuse_odd_cells(cells: dict[int, str], path: Path) -> None:
    """Raise for the first cell that is unlike the others: a gap, a word among numbers, a number among words."""
    numbers = [line for line, cell in cells.items() if _NUMBER.fullmatch(cell)]
    words = [line for line, cell in cells.items() if cell and not _NUMBER.fullmatch(cell)]
    gap = next((line for line, cell in cells.items() if not cell), None)
    if gap is not None:
        raise ValueError(f"{path}, line {gap}: there is no label; fill it in, or leave the sample out.")
    if words and len(numbers) >= len(words):
        hint = "classes are 0, 1, 2, ..."
        if words[0] == 1:
            hint = f"if it is a header, name it ({_HOW_TO_SAY})."
        raise ValueError(f"{path}, line {words[0]}: {cells[words[0]]!r} is no class number; {hint}")
    if words and numbers:
        odd = numbers[0]
        raise ValueError(f"{path}, line {odd}: {cells[odd]!r} is a number among words; write all labels in one way.")
    if numbers:
        bad = next(line for line in numbers if class_number(cells[line]) is None)
        raise ValueError(f"{path}, line {bad}: {cells[bad]!r} is no class number; classes are 0, 1, 2, ...")
