"""Formatting of cells, the same in every format."""

from typing import NamedTuple

from permll.report.tables.model import Cell, Quantity

EMPTY = "-"


class FormattedCell(NamedTuple):
    """Parts of a cell as text; empty strings for missing parts."""

    number: str
    note: str
    paper: str


def format_cell(cell: Cell, quantity: Quantity) -> FormattedCell:
    """Return a cell's number in the unit of its column, its note, and the paper's number.

    Examples:
        >>> from permll.report.paper_numbers import PaperResult
        >>> format_cell(Cell(0.8272, 0.0021, 2, PaperResult(87.94, 0.21), True, "n=2"), Quantity("last", "", digits=2))
        FormattedCell(number='82.72 ± 0.21', note='n=2', paper='(87.94)')
        >>> format_cell(Cell(), Quantity("last", "last"))
        FormattedCell(number='-', note='', paper='')
    """
    paper = "" if cell.paper is None else f"({cell.paper.mean:.2f})"
    if cell.mean is None:
        return FormattedCell(cell.note or EMPTY, "", paper)
    numbers = [_format_number(number, quantity) for number in (cell.mean, cell.sd) if number is not None]
    return FormattedCell(" ± ".join(numbers), cell.note, paper)


def _format_number(number: float, quantity: Quantity) -> str:
    # Adding zero turns -0.0, a small negative number rounded, into 0.0.
    return f"{round(quantity.scale * number, quantity.digits) + 0.0:.{quantity.digits}f}"
