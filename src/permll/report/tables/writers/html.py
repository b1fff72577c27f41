"""Tables as HTML figures, for any page."""

from collections.abc import Callable, Sequence
from typing import Any

from permll.report.jinja import render
from permll.report.tables.model import Cell, Column, Line, Table, column_groups
from permll.report.tables.titles import method_words
from permll.report.tables.writers.cell_format import format_cell

Link = Callable[[Table, Line, Column], str]


def write_html(tables: Sequence[Table]) -> str:
    """Return tables as HTML figures; each scrolls in its own box if it is wider than the page."""
    return render("tables.html.j2", tables=[table_context(table) for table in tables])


def table_context(table: Table, link: Link | None = None) -> dict[str, Any]:
    """Return a table as the template reads it.

    Args:
        table: the table.
        link: table, line and column -> target of the number's link.
    """
    return {
        "id": f"{table.name}-{table.tier}",
        "title": table.title,
        "caption": table.caption,
        "groups": column_groups(table) if any(column.group for column in table.columns) else [],
        "columns": [column.title for column in table.columns],
        "lines": [
            {
                "method": method_words((line.method, line.variant)),
                "title": line.title,
                "cells": [
                    _cell(cell, column, "" if link is None else link(table, line, column))
                    for column, cell in zip(table.columns, line.cells, strict=True)
                ],
            }
            for line in table.lines
        ],
        "notes": table.notes,
    }


def _cell(cell: Cell, column: Column, href: str) -> dict[str, Any]:
    return {
        **format_cell(cell, column.quantity)._asdict(),
        "value": cell.mean,
        "bold": cell.bold,
        "empty": cell.mean is None and not cell.paper and not cell.note,
        "href": "" if cell.mean is None else href,
    }
