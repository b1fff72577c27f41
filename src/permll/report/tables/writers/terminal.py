"""Tables as plain text, split to fit the width of the terminal."""

import shutil
import textwrap
from collections.abc import Sequence

from permll.report.tables.model import Table, column_groups, split_columns
from permll.report.tables.writers.cell_format import format_cell
from permll.report.text import printable

BOLD = "•"
GAP = 2


def write_terminal(tables: Sequence[Table], width: int | None = None) -> str:
    """Return tables as text at most ``width`` wide, by default the terminal's; a single column may be wider."""
    width = width or shutil.get_terminal_size().columns
    return "\n\n".join(_table(table, width) for table in tables) + "\n" * bool(tables)


def _table(table: Table, width: int) -> str:
    first = max((len(printable(line.title)) for line in table.lines), default=0)
    columns = [_column(table, index) for index in range(len(table.columns))]
    widths = _fit_groups(table, [max(map(len, column)) + GAP for column in columns])
    lines = textwrap.wrap(f"{table.title}. {table.caption}", width)
    start = 0
    for part in split_columns(table, width - first, widths):
        end = start + len(part.columns)
        lines += ["", *_part(part, columns[start:end], widths[start:end], first)]
        start = end
    notes = [*table.notes]
    if any(cell.bold for line in table.lines for cell in line.cells):
        notes.insert(0, f"{BOLD} marks bold.")
    wrapped = [part for note in notes for part in textwrap.wrap(note, width, subsequent_indent="  ")]
    return "\n".join([*lines, *([""] if wrapped else []), *wrapped])


def _column(table: Table, index: int) -> list[str]:
    """Return the heading of a column and its cells, with numbers, marks and notes aligned."""
    column, cells = table.columns[index], [line.cells[index] for line in table.lines]
    formatted = [format_cell(cell, column.quantity) for cell in cells]
    marks = [BOLD if cell.bold else " " * any(cell.bold for cell in cells) for cell in cells]
    widths = [max((len(parts[kind]) for parts in formatted), default=0) for kind in range(3)]
    texts = []
    for (number, *others), mark in zip(formatted, marks, strict=True):
        others = [f" {text:<{width}}" for text, width in zip(others, widths[1:], strict=True) if width]
        texts.append(f"{number:>{widths[0]}}{mark}{''.join(others)}")
    return [column.title, *texts]


def _fit_groups(table: Table, widths: Sequence[int]) -> list[int]:
    """Return column widths that group headings fit into."""
    fitted, start = list(widths), 0
    for group, count in column_groups(table):
        fitted[start] += max(len(group) + GAP - sum(widths[start : start + count]), 0)
        start += count
    return fitted


def _part(part: Table, columns: Sequence[Sequence[str]], widths: Sequence[int], first: int) -> list[str]:
    groups, start = " " * first, 0
    for group, count in column_groups(part):
        width = sum(widths[start : start + count])
        groups += f"{group[: width - GAP]:>{width}}"
        start += count

    def join(title: str, row: int) -> str:
        cells = (f"{column[row]:>{width}}" for column, width in zip(columns, widths, strict=True))
        return f"{title:<{first}}{''.join(cells)}"

    body = [join(printable(line.title), row) for row, line in enumerate(part.lines, 1)]
    rule = "─" * (first + sum(widths))
    return [line.rstrip() for line in (*([groups] if groups.strip() else []), join("", 0), rule, *body)]
