"""Table as plain data, independent of the format it is written in."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from permll.report.paper_numbers import PaperResult


class Quantity(NamedTuple):
    """Measured quantity of a column: name, unit, and which direction is better."""

    name: str  # in files
    title: str
    scale: float = 100.0  # factor from the measured to the written number: fractions become percent
    digits: int = 1
    better: int = 1  # 1: high, -1: low, 0: neither


@dataclass(frozen=True)
class Column:
    """One quantity on one data set with one noise. Neighboring columns of the same ``group`` share a heading."""

    group: str
    title: str
    quantity: Quantity
    data: str = ""
    noise: str = ""


@dataclass(frozen=True)
class Cell:
    """Mean and standard deviation over n seeds; a cell without runs has neither.

    Args:
        mean: mean as measured, not scaled; None without runs.
        sd: standard deviation with n - 1 in the denominator; None with fewer than two seeds.
        n: number of seeds.
        paper: the paper's number in percent, shown beside ours.
        bold: whether this is the best of its column, or not significantly worse.
        note: short text shown with the number, or instead of it.
    """

    mean: float | None = None
    sd: float | None = None
    n: int = 0
    paper: PaperResult | None = None
    bold: bool = False
    note: str = ""


@dataclass(frozen=True)
class Line:
    """A method and its cells, one per column."""

    method: str
    variant: str
    title: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """Columns and lines with a title, a caption and notes."""

    name: str
    tier: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()


def column_groups(table: Table) -> list[tuple[str, int]]:
    """Return the group headings, each with the number of columns it spans.

    Examples:
        >>> last = Quantity("last", "last epoch")
        >>> columns = tuple(Column(group, "20 %", last) for group in ("symmetric", "symmetric", "asymmetric"))
        >>> column_groups(Table("table1", "mini", "", "", columns, ()))
        [('symmetric', 2), ('asymmetric', 1)]
    """
    return [(group, len(list(columns))) for group, columns in groupby(table.columns, lambda column: column.group)]


def split_columns(table: Table, max_width: int, widths: list[int]) -> Iterator[Table]:
    """Yield parts of the table whose columns fit into ``max_width``; groups stay together if possible.

    Examples:
        >>> last = Quantity("last", "last epoch")
        >>> columns = tuple(Column(group, "", last) for group in "aabbc")
        >>> table = Table("table1", "mini", "", "", columns, ())
        >>> [len(part.columns) for part in split_columns(table, 40, [10] * 5)]
        [4, 1]
        >>> [len(part.columns) for part in split_columns(table, 5, [10] * 5)]
        [1, 1, 1, 1, 1]
    """
    parts: list[list[int]] = [[]]
    start = 0
    for _, count in column_groups(table):
        group = list(range(start, start + count))
        start += count
        pieces = [group] if sum(widths[column] for column in group) <= max_width else [[column] for column in group]
        for piece in pieces:
            if parts[-1] and sum(widths[column] for column in parts[-1] + piece) > max_width:
                parts.append([])
            parts[-1] += piece
    for part in parts:
        lines = tuple(replace(line, cells=tuple(line.cells[column] for column in part)) for line in table.lines)
        yield replace(table, columns=tuple(table.columns[column] for column in part), lines=lines)
