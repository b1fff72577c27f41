"""Table as plain data, independent of the format it is written in."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from permll.report.paper_numbers import PaperResult
from permll.report.tables.titles import method_words

EMPTY = "-"


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


class CellText(NamedTuple):
    """Parts of a cell as text; empty strings for missing parts."""

    number: str
    note: str
    paper: str


@dataclass(frozen=True)
class Cell:
    """Mean and standard deviation over n seeds; a cell without runs has neither."""

    quantity: Quantity
    mean: float | None = None  # as measured, not scaled
    sd: float | None = None  # with n - 1 in the denominator; None with fewer than two seeds
    n: int = 0
    paper: PaperResult | None = None  # the paper's number in percent, shown beside ours
    bold: bool = False  # whether this is the best of its column, or not significantly worse
    note: str = ""  # short text shown with the number, or instead of it

    @property
    def text(self) -> CellText:
        """The number in the unit of its column, the note, and the paper's number.

        Examples:
            >>> last = Quantity("last", "last epoch", digits=2)
            >>> Cell(last, 0.8272, 0.0021, 2, PaperResult(87.94, 0.21), True, "n=2").text
            CellText(number='82.72 ± 0.21', note='n=2', paper='(87.94)')
            >>> Cell(last).text
            CellText(number='-', note='', paper='')
        """
        paper = "" if self.paper is None else f"({self.paper.mean:.2f})"
        if self.mean is None:
            return CellText(self.note or EMPTY, "", paper)
        _, _, scale, digits, _ = self.quantity
        # Adding zero turns -0.0, a small negative number rounded, into 0.0.
        numbers = [round(scale * number, digits) + 0.0 for number in (self.mean, self.sd) if number is not None]
        return CellText(" ± ".join(f"{number:.{digits}f}" for number in numbers), self.note, paper)


@dataclass(frozen=True)
class Line:
    """A method and its cells, one per column."""

    method: str
    variant: str
    title: str
    cells: tuple[Cell, ...]

    @property
    def words(self) -> str:
        """Text that the filter of a page searches."""
        return method_words((self.method, self.variant))


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

    @property
    def cells(self) -> list[Cell]:
        """All cells."""
        return [cell for line in self.lines for cell in line.cells]

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Group headings with the number of columns they span; none if no column is in a group."""
        return column_groups(self.columns) if any(column.group for column in self.columns) else []


def column_groups(columns: Sequence[Column]) -> list[tuple[str, int]]:
    """Return the group headings, each with the number of columns it spans.

    Examples:
        >>> last = Quantity("last", "last epoch")
        >>> column_groups([Column(group, "20 %", last) for group in ("symmetric", "symmetric", "asymmetric")])
        [('symmetric', 2), ('asymmetric', 1)]
    """
    return [(group, len(list(members))) for group, members in groupby(columns, lambda column: column.group)]


def split_columns(columns: Sequence[Column], widths: Sequence[int], max_width: int) -> list[list[int]]:
    """Return the indices of columns that fit into ``max_width`` together; groups stay together if possible.

    Examples:
        >>> columns = [Column(group, "", Quantity("last", "last epoch")) for group in "aabbc"]
        >>> split_columns(columns, [10] * 5, 40), split_columns(columns, [10] * 5, 5)
        ([[0, 1, 2, 3], [4]], [[0], [1], [2], [3], [4]])
    """
    parts: list[list[int]] = [[]]
    start = 0
    for _, count in column_groups(columns):
        group = list(range(start, start + count))
        start += count
        pieces = [group] if sum(widths[column] for column in group) <= max_width else [[column] for column in group]
        for piece in pieces:
            if parts[-1] and sum(widths[column] for column in parts[-1] + piece) > max_width:
                parts.append([])
            parts[-1] += piece
    return parts
