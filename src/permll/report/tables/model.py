"""A table as plain data: what is shown in it, before anybody says how it is written."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from permll.report.paper_numbers import Printed


class Quantity(NamedTuple):
    """What a column shows: how it is called, in which unit it is written, and which direction is better."""

    name: str  # in files
    title: str
    scale: float = 100.0  # from the number as it is to the number as it is written: a share to per cent
    digits: int = 1
    better: int = 1  # 1: high, -1: low, 0: neither


@dataclass(frozen=True)
class Column:
    """A column: one quantity on one data set with one noise. ``group`` heads it together with its neighbors."""

    group: str
    title: str
    quantity: Quantity
    data: str = ""
    noise: str = ""


@dataclass(frozen=True)
class Cell:
    """Mean and standard deviation over n seeds; a cell without runs has neither and is never filled otherwise.

    Args:
        mean: as measured, not scaled; None without runs.
        sd: with n - 1 in the denominator; None with fewer than two seeds.
        n: how many seeds there are.
        printed: what the paper prints, in per cent: not run here, and shown as such.
        bold: the best of its column, or not to be told from it.
        note: what must be said with the number, or stands in its place.
    """

    mean: float | None = None
    sd: float | None = None
    n: int = 0
    printed: Printed | None = None
    bold: bool = False
    note: str = ""


@dataclass(frozen=True)
class Line:
    """A method and its cells, one for each column."""

    method: str
    variant: str
    title: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """Lines under columns, with a title above, a caption that says what is seen, and notes below."""

    name: str
    tier: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()


def heads(table: Table) -> list[tuple[str, int]]:
    """Return the heads that span columns, each with how many it spans.

    Examples:
        >>> last = Quantity("last", "last epoch")
        >>> columns = tuple(Column(group, "20 %", last) for group in ("symmetric", "symmetric", "asymmetric"))
        >>> heads(Table("table1", "mini", "", "", columns, ()))
        [('symmetric', 2), ('asymmetric', 1)]
    """
    return [(group, sum(1 for _ in columns)) for group, columns in groupby(table.columns, lambda one: one.group)]


def parts(table: Table, room: int, widths: list[int]) -> Iterator[Table]:
    """Yield the table in pieces whose columns, of these widths, fit into ``room``; a group is torn only if it must be.

    Examples:
        >>> last = Quantity("last", "last epoch")
        >>> columns = tuple(Column(group, "", last) for group in "aabbc")
        >>> whole = Table("table1", "mini", "", "", columns, ())
        >>> [len(part.columns) for part in parts(whole, 40, [10] * 5)]
        [4, 1]
        >>> [len(part.columns) for part in parts(whole, 5, [10] * 5)]
        [1, 1, 1, 1, 1]
    """
    places: list[list[int]] = [[]]
    start = 0
    for _, count in heads(table):
        group = list(range(start, start + count))
        start += count
        pieces = [group] if sum(widths[place] for place in group) <= room else [[place] for place in group]
        for piece in pieces:
            if places[-1] and sum(widths[place] for place in places[-1] + piece) > room:
                places.append([])
            places[-1] += piece
    for chosen in places:
        lines = tuple(replace(line, cells=tuple(line.cells[place] for place in chosen)) for line in table.lines)
        yield replace(table, columns=tuple(table.columns[place] for place in chosen), lines=lines)
