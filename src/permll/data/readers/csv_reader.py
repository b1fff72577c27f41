"""Reader of CSV and TSV files with any of four separators; all cells are read as text.

polars parses the cells. A pass of the csv module finds the line of each row for error messages, and rejects rows that
are too short, which polars would fill.
"""

import csv
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import polars as pl

from permll.data.readers.raw_data import pluralize
from permll.utils.messages import format_list

_SEPARATORS = (",", ";", "\t", "|")
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")


class Cells(NamedTuple):
    """Cells of a CSV file, as stripped text."""

    frame: pl.DataFrame  # empty cells are null
    separator: str
    lines: list[int]  # line number of each row; the first line of the file is 1


def read_csv(path: Path) -> Cells:
    """Return the cells of a file; blank lines are ignored."""
    with path.open("rb") as file:
        start = file.readline()
    if not start.strip():
        raise ValueError(f"{path} is empty: its first line must hold the column names.")
    if b"\n" not in start and b"\r" in start:
        raise ValueError(f"{path} uses CR-only line endings; save it again as UTF-8 CSV.")
    try:
        separator = guess_separator(start.decode("utf-8-sig"))
        names, lines = _scan(path, separator)
    except UnicodeDecodeError:
        with path.open("rb") as file:
            invalid = (n for n, line in enumerate(file, 1) if line.decode(errors="ignore").encode() != line)
            number = next(invalid, 1)
        raise ValueError(f"{path} is not UTF-8 text (line {number}); save it again as UTF-8 CSV.") from None
    try:
        # No schema inference: types depend on the use of a column (a label or id "01" must stay text).
        frame = pl.read_csv(path, separator=separator, infer_schema_length=0, new_columns=names)
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"{path} cannot be read as a table: {_parse_reason(path, str(error))}.") from None
    cells = pl.all().str.strip_chars()
    frame = frame.select(pl.when(cells != "").then(cells).otherwise(None).name.keep())
    frame = frame.filter(~pl.all_horizontal(pl.all().is_null()))
    if len(frame) != len(lines):
        raise ValueError(f"{path} contains unprintable characters between cells; save it again as UTF-8 CSV.")
    return Cells(frame, separator, lines)


def guess_separator(header: str) -> str:
    r"""Return the most frequent of , ; tab and | in the first line, outside quotes.

    Not ``csv.Sniffer``, which also guesses letters.

    Examples:
        >>> guess_separator('"height, cm, by hand";label'), guess_separator("label")
        (';', ',')
    """
    unquoted = re.sub(r'"[^"]*"', "", header)
    return max(_SEPARATORS, key=unquoted.count)


def header_hint(names: Sequence[str]) -> str:
    """Return a hint for a column that does not exist: the first line may not hold the column names.

    Examples:
        >>> header_hint(["5.1", "setosa"])
        ' The first line must hold the column names, but seems to hold values (5.1): insert a line of names.'
        >>> header_hint(["good film", "yes"])
        ' The first line must hold the column names.'
    """
    values = [name for name in names if _NUMBER.fullmatch(name)]
    but = f", but seems to hold values ({', '.join(values[:3])}): insert a line of names" if values else ""
    return f" The first line must hold the column names{but}."


def _scan(path: Path, separator: str) -> tuple[list[str], list[int]]:
    """Return the column names and the line number of each row; raise if a row has too few or too many cells."""
    lines: list[int] = []
    short: list[int] = []
    long: list[int] = []
    with _unlimited_cells(), path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=separator, strict=True)
        line = 1
        try:
            names = [name.strip() for name in next(reader)]
            _check_unique(path, names)
            line = reader.line_num + 1
            for row in reader:
                if any(map(str.strip, row)):
                    lines.append(line)
                    if len(row) < len(names):
                        short.append(line)
                if len(row) > len(names):
                    long.append(line)
                line = reader.line_num + 1
        except csv.Error as error:
            problem = f"a quote in line {line} that is never closed"
            if "expected after" in str(error):
                problem = f"text after a closing quote in line {line}"
            raise ValueError(f"{path} has {problem}: correct that line.") from None
    if short or long:
        problems = [
            f"{word} cells in {format_list(numbers, 'line')}"
            for word, numbers in (("fewer", short), ("more", long))
            if numbers
        ]
        columns = pluralize(len(names), "column")
        raise ValueError(f"{path} has {columns}, but {' and '.join(problems)}: correct those lines.")
    return names, lines


def _check_unique(path: Path, names: Sequence[str]) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        hint = header_hint(repeated) if any(_NUMBER.fullmatch(name) for name in repeated) else ""
        raise ValueError(f"column names of {path} must be unique; repeated: {format_list(repeated, 'name')}.{hint}")


@contextmanager
def _unlimited_cells() -> Iterator[None]:
    """Lift the csv module's limit on the length of a cell."""
    before = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # the largest C long on all platforms
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _parse_reason(path: Path, error: str) -> str:
    """Return why polars failed: mostly a single quote inside an unquoted cell."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        odd = [number for number, line in enumerate(file, 1) if line.count('"') % 2]
    return f"single quotes in {format_list(odd, 'line')}, double or remove them" if odd else error.splitlines()[0]
