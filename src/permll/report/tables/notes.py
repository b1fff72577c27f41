"""Captions and notes of tables."""

from collections.abc import Iterator

from permll.report.tables.model import Cell, Column, Table
from permll.report.tables.significance import RULE
from permll.report.tables.specs import ORACLE_MARK, TableSpec
from permll.report.tables.titles import TRUSTED_MARK, data_title, uses_trusted_rows

TRUSTED_NOTE = (
    f"{TRUSTED_MARK} uses some rows with trusted labels, which other methods do not have: never bold, and not ranked."
)
ORACLE_NOTE = f"{ORACLE_MARK} oracle: the best epoch is selected by the test labels."


def make_caption(table: Table, spec: TableSpec) -> str:
    """Return a sentence on the quantity, the number of seeds, the tier and the paper's numbers."""
    counts = {cell.n for line in table.lines for cell in line.cells if cell.n}
    seeds = f"{min(counts)} to {max(counts)} seeds" if len(counts) > 1 else _seeds(next(iter(counts), 0))
    data = dict.fromkeys(column.data for column, cells in _columns(table) if any(cell.n for cell in cells))
    caption = f"{spec.description}: mean ± standard deviation over {seeds}. Tier {table.tier}"
    caption += f": {', '.join(map(data_title, data))}." if data else "."
    return caption + _paper_sentence(table)


def make_notes(table: Table, *, has_baseline: bool) -> tuple[str, ...]:
    """Return the notes below a table."""
    cells = [cell for line in table.lines for cell in line.cells]
    notes = {
        RULE: any(cell.bold for cell in cells),
        "n= marks a mean over fewer seeds than others in this table.": any(
            cell.note.startswith("n=") for cell in cells
        ),
        "-: not run, or not measured by the method.": any(cell.mean is None for cell in cells),
        ORACLE_NOTE: any(ORACLE_MARK in column.title + column.quantity.title for column in table.columns),
        TRUSTED_NOTE: any(uses_trusted_rows((line.method, line.variant)) for line in table.lines),
        "No run of ce to compare with.": table.name == "time" and not has_baseline,
    }
    return tuple(note for note, applies in notes.items() if applies)


def _columns(table: Table) -> Iterator[tuple[Column, list[Cell]]]:
    """Yield the columns of a table with their cells."""
    for index, column in enumerate(table.columns):
        yield column, [line.cells[index] for line in table.lines]


def _seeds(n: int) -> str:
    return "one seed" if n == 1 else f"{n} seeds"


def _paper_sentence(table: Table) -> str:
    """Return what the numbers in parentheses are, and how far they can be compared with ours."""
    data = {column.data for column, cells in _columns(table) if any(cell.paper for cell in cells)}
    if not data:
        return ""
    sentence = " In parentheses: the paper's numbers"
    if data & {"digits", "fashion_mnist"}:
        return (
            f"{sentence} for CIFAR-10 with the same noise; data and network differ, so compare the order of the "
            "methods, not the values."
        )
    if table.tier != "paper":
        return f"{sentence}, with a larger network and longer training than tier {table.tier}."
    return f"{sentence}."
