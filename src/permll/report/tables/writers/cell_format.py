"""A cell as signs, the same in every format."""

from typing import NamedTuple

from permll.report.tables.model import Cell, Quantity

EMPTY = "-"


class Shown(NamedTuple):
    """The parts of a cell; empty where there is nothing to show."""

    number: str
    note: str
    printed: str


def shown(cell: Cell, quantity: Quantity) -> Shown:
    """Return a cell's number in the unit of its column, what is noted with it, and what the paper prints.

    Examples:
        >>> from permll.report.paper_numbers import Printed
        >>> shown(Cell(0.8272, 0.0021, 2, Printed(87.94, 0.21), True, "n=2"), Quantity("last", "last", digits=2))
        Shown(number='82.72 ± 0.21', note='n=2', printed='(87.94)')
        >>> shown(Cell(), Quantity("last", "last"))
        Shown(number='-', note='', printed='')
    """
    printed = "" if cell.printed is None else f"({cell.printed.mean:.2f})"
    if cell.mean is None:
        return Shown(cell.note or EMPTY, "", printed)
    numbers = [_signs(number, quantity) for number in (cell.mean, cell.sd) if number is not None]
    return Shown(" ± ".join(numbers), cell.note, printed)


def head(group: str, title: str) -> str:
    """Return the head of a column where there is one line for it."""
    return " ".join(filter(None, (group, title)))


def _signs(number: float, quantity: Quantity) -> str:
    # Adding zero turns -0.0, the rounding of a small loss, into 0.0.
    return f"{round(quantity.scale * number, quantity.digits) + 0.0:.{quantity.digits}f}"
