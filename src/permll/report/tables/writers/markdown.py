"""Tables as Markdown."""

from collections.abc import Sequence

from permll.report.tables.model import Cell, Column, Table
from permll.report.tables.writers.cell_format import format_cell


def write_markdown(tables: Sequence[Table]) -> str:
    """Return tables as Markdown, each with its caption above and its notes below."""
    return "\n".join(map(_table, tables))


def _table(table: Table) -> str:
    headings = (" ".join(filter(None, (column.group, column.title))) for column in table.columns)
    lines = [
        f"**{_escape(table.title)}.** {_escape(table.caption)}",
        "",
        _row(["method", *map(_escape, headings)]),
        "|---" + "|---:" * len(table.columns) + "|",
    ]
    for line in table.lines:
        cells = [_cell(cell, column) for column, cell in zip(table.columns, line.cells, strict=True)]
        lines.append(_row([_escape(line.title), *cells]))
    return "\n".join([*lines, "", *(f"{_escape(note)}  " for note in table.notes)]).rstrip() + "\n"


def _cell(cell: Cell, column: Column) -> str:
    number, note, paper = format_cell(cell, column.quantity)
    return " ".join(filter(None, (f"**{number}**" if cell.bold else number, note, paper)))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape(text: str) -> str:
    return "".join(f"\\{char}" if char in "\\|*_`<[" else char for char in text)
