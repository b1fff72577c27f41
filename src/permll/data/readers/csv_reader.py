"""CSV and TSV files as they come: any of four separators, byte order marks, Windows line ends, quotes."""

import csv
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from permll.data.readers.types import pluralize
from permll.utils.messages import format_list

if TYPE_CHECKING:
    import polars as pl

_SEPARATORS = (",", ";", "\t", "|")
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")


class Cells(NamedTuple):
    """The cells of a file, all as text without spaces around it, null where empty, and where they come from.

    Args:
        frame: rows by column.
        separator: what separates cells.
        lines: where each row begins in the file; the first line is 1.
    """

    frame: "pl.DataFrame"
    separator: str
    lines: list[int]


def read_csv(path: Path) -> Cells:
    """Return the cells of a file; blank lines are no rows."""
    import polars as pl

    with path.open("rb") as file:
        start = file.readline()
    if not start.strip():
        raise ValueError(f"{path} is empty: its first line must hold the column names.")
    if b"\n" not in start and b"\r" in start:
        raise ValueError(f"{path} has line ends of old (CR alone): save it anew as CSV UTF-8.")
    try:
        separator = guess_separator(start.decode("utf-8-sig"))
        names, lines = _scan(path, separator)
    except UnicodeDecodeError:
        raise ValueError(_not_utf8(path)) from None
    try:
        frame = pl.read_csv(path, separator=separator, infer_schema_length=0, new_columns=names)  # 0: all is text
    except pl.exceptions.PolarsError as broken:
        raise ValueError(f"{path} cannot be read as a table: {_reason(path, str(broken))}.") from None
    cells = pl.all().str.strip_chars()
    frame = frame.select(pl.when(cells != "").then(cells).otherwise(None).name.keep())
    frame = frame.filter(~pl.all_horizontal(pl.all().is_null()))
    if len(frame) != len(lines):
        raise ValueError(f"{path} has signs that cannot be printed where a cell should be: save it anew as CSV UTF-8.")
    return Cells(frame, separator, lines)


def guess_separator(header: str) -> str:
    r"""Return which of , ; tab and | stands most often in the first line, outside quotes.

    Examples:
        >>> guess_separator('"height, cm, by hand";label'), guess_separator("label")
        (';', ',')
    """
    plain = re.sub(r'"[^"]*"', "", header)
    return max(_SEPARATORS, key=plain.count)


def header_hint(names: Sequence[str]) -> str:
    """Return a sentence for when a column was not found: perhaps the first line is no line of names.

    Examples:
        >>> header_hint(["5.1", "setosa"])
        ' The first line must hold the column names, but it seems to hold values (5.1): put a line of names above it.'
        >>> header_hint(["good film", "yes"])
        ' The first line must hold the column names.'
    """
    values = [name for name in names if _NUMBER.fullmatch(name)]
    but = f", but it seems to hold values ({', '.join(values[:3])}): put a line of names above it" if values else ""
    return f" The first line must hold the column names{but}."


def _scan(path: Path, separator: str) -> tuple[list[str], list[int]]:
    """Return the names of the columns and the lines that rows begin in; polars would fill up short rows unasked."""
    lines: list[int] = []
    fewer: list[int] = []
    more: list[int] = []
    with _long_cells(), path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=separator, strict=True)
        line = 1
        try:
            names = [name.strip() for name in next(reader)]
            _refuse_twice(path, names)
            line = reader.line_num + 1
            for row in reader:
                if any(map(str.strip, row)):
                    lines.append(line)
                    if len(row) < len(names):
                        fewer.append(line)
                if len(row) > len(names):
                    more.append(line)
                line = reader.line_num + 1
        except csv.Error as broken:
            raise ValueError(_quotes(path, line, str(broken))) from None
    if fewer or more:
        wrong = [
            f"{word} cells in {format_list(own, 'line')}" for word, own in (("fewer", fewer), ("more", more)) if own
        ]
        raise ValueError(f"{path} has {pluralize(len(names), 'column')}, but {' and '.join(wrong)}: mend those lines.")
    return names, lines


def _refuse_twice(path: Path, names: Sequence[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        hint = header_hint(twice) if any(_NUMBER.fullmatch(name) for name in twice) else ""
        raise ValueError(f"{path} has columns of the same name: {format_list(twice, 'name')}; rename them.{hint}")


@contextmanager
def _long_cells() -> Iterator[None]:
    """Allow cells of any length: a text can be a book."""
    before = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # what C holds everywhere
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _quotes(path: Path, line: int, problem: str) -> str:
    if "expected after" in problem:
        return f"line {line} of {path} has something between the end of a quote and that of its cell: mend that line."
    return f"{path} has a quote in line {line} that is never closed: mend that line."


def _reason(path: Path, problem: str) -> str:
    """Find the quote that polars stumbles over, which stands inside a cell that does not begin with one."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        odd = [number for number, line in enumerate(file, 1) if line.count('"') % 2]
    return f"single quotes in {format_list(odd, 'line')}, double or remove them" if odd else problem.splitlines()[0]


def _not_utf8(path: Path) -> str:
    with path.open("rb") as file:
        number = next((number for number, line in enumerate(file, 1) if not _is_utf8(line)), 1)
    return f"{path} is not UTF-8 text (line {number}): save it as CSV UTF-8."


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
