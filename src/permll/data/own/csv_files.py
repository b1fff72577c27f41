"""CSV and TSV files as they come: any of four separators, byte order marks, Windows line ends, quotes."""

import csv
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from permll.data.problems import listed

if TYPE_CHECKING:
    import polars as pl

_SEPARATORS = (",", ";", "\t", "|")


class Cells(NamedTuple):
    """The cells of a file, all as text without spaces around it, null where empty, and what separates them."""

    frame: "pl.DataFrame"
    separator: str


def read_csv(path: Path) -> Cells:
    """Return the cells of a file; blank lines are no rows."""
    import polars as pl

    with path.open("rb") as file:
        start = file.readline()
    if not start.strip():
        raise ValueError(f"{path} is empty: its first line must name the columns.")
    try:
        separator = guess_separator(start.decode("utf-8-sig"))
        names = _header(path, separator)
    except UnicodeDecodeError:
        raise ValueError(_not_utf8(path)) from None
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"{path} has columns of the same name: {listed(twice, 'name')}; rename them.")
    try:
        frame = pl.read_csv(path, separator=separator, infer_schema_length=0, new_columns=names)  # 0: all is text
    except pl.exceptions.PolarsError as broken:
        raise ValueError(_diagnose(path, separator, len(names), str(broken))) from None
    cells = pl.all().str.strip_chars()
    frame = frame.select(pl.when(cells != "").then(cells).otherwise(None).name.keep())
    return Cells(frame.filter(~pl.all_horizontal(pl.all().is_null())), separator)


def guess_separator(header: str) -> str:
    r"""Return which of , ; tab and | stands most often in the first line, outside quotes.

    Examples:
        >>> guess_separator('"height, cm, by hand";label'), guess_separator("label")
        (';', ',')
    """
    plain = re.sub(r'"[^"]*"', "", header)
    return max(_SEPARATORS, key=plain.count)


def _header(path: Path, separator: str) -> list[str]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return [name.strip() for name in next(csv.reader(file, delimiter=separator))]


def _diagnose(path: Path, separator: str, columns: int, reason: str) -> str:
    """Find the line that polars stumbled over: it does not say."""
    line = 0
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=separator, strict=True)
            for row in reader:
                line = reader.line_num
                if len(row) > columns:
                    return (
                        f"line {line} of {path} has {len(row)} cells, but there are {columns} columns: mend that line."
                    )
    except UnicodeDecodeError:
        return _not_utf8(path)
    except csv.Error:
        return f"{path} has a quote after line {line} that is never closed: mend that line."
    return f"{path} cannot be read as a table: {reason.splitlines()[0]}."


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
