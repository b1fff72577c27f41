"""Tables as Markdown."""

from collections.abc import Sequence

from permll.report.tables.model import Cell, Column, Table
from permll.report.tables.writers.cell_format import head, shown


def write_markdown(tables: Sequence[Table]) -> str:
    """Return tables as Markdown, each with its caption above and its notes below."""
    return "\n".join(map(_table, tables))


def _table(table: Table) -> str:
    heads = ["method", *(_text(head(column.group, column.title)) for column in table.columns)]
    lines = [
        f"**{_text(table.title)}.** {_text(table.caption)}",
        "",
        _row(heads),
        "|---" + "|---:" * len(table.columns) + "|",
    ]
    for line in table.lines:
        cells = [_cell(cell, column) for column, cell in zip(table.columns, line.cells, strict=True)]
        lines.append(_row([_text(line.title), *cells]))
    return "\n".join([*lines, "", *(f"{_text(note)}  " for note in table.notes)]).rstrip() + "\n"


def _cell(cell: Cell, column: Column) -> str:
    number, note, printed = shown(cell, column.quantity)
    return " ".join(filter(None, (f"**{number}**" if cell.bold else number, note, printed)))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(text: str) -> str:
    """Return text that Markdown takes as it is."""
    return "".join(f"\\{sign}" if sign in "\\|*_`<[" else sign for sign in text)
