"""Tables as plain text, in as many pieces as the terminal's width asks for."""

import shutil
import textwrap
from collections.abc import Sequence

from permll.report.tables.model import Table, heads, parts
from permll.report.tables.writers.cell_format import shown
from permll.report.text import printable

BOLD = "•"  # a plain text has no bold letters
GAP = 2


def write_terminal(tables: Sequence[Table], width: int | None = None) -> str:
    """Return tables as text no wider than ``width``, by default the terminal's, as far as one column allows."""
    room = width or shutil.get_terminal_size().columns
    return "\n\n".join(_table(table, room) for table in tables) + "\n" * bool(tables)


def _table(table: Table, room: int) -> str:
    first = max((len(printable(line.title)) for line in table.lines), default=0)
    columns = [_column(table, place) for place in range(len(table.columns))]
    widths = [max(map(len, column)) + GAP for column in columns]
    widths = _widened(table, widths)
    lines = textwrap.wrap(f"{table.title}. {table.caption}", room)
    start = 0
    for part in parts(table, room - first, widths):
        end = start + len(part.columns)
        lines += ["", *_part(part, columns[start:end], widths[start:end], first)]
        start = end
    notes = [*table.notes]
    if any(cell.bold for line in table.lines for cell in line.cells):
        notes.insert(0, f"{BOLD} stands for bold.")
    wrapped = [part for note in notes for part in textwrap.wrap(note, room, subsequent_indent="  ")]
    return "\n".join([*lines, *([""] if wrapped else []), *wrapped])


def _column(table: Table, place: int) -> list[str]:
    """Return the head of a column and its cells, number below number and sign below sign."""
    column = table.columns[place]
    cells = [line.cells[place] for line in table.lines]
    parts_of_cells = [shown(cell, column.quantity) for cell in cells]
    marks = [BOLD if cell.bold else " " * any(cell.bold for cell in cells) for cell in cells]
    wide = [max((len(part[kind]) for part in parts_of_cells), default=0) for kind in range(3)]
    texts = []
    for (number, note, printed), mark in zip(parts_of_cells, marks, strict=True):
        text = f"{number:>{wide[0]}}{mark}"
        for part, size in ((note, wide[1]), (printed, wide[2])):
            text += f" {part:<{size}}" if size else ""
        texts.append(text)
    return [column.title, *texts]


def _widened(table: Table, widths: Sequence[int]) -> list[int]:
    """Return widths that the heads of groups fit above, too."""
    found, place = list(widths), 0
    for group, count in heads(table):
        found[place] += max(len(group) + GAP - sum(widths[place : place + count]), 0)
        place += count
    return found


def _part(part: Table, columns: Sequence[Sequence[str]], widths: Sequence[int], first: int) -> list[str]:
    above, place = " " * first, 0
    for group, count in heads(part):
        size = sum(widths[place : place + count])
        above += f"{group[: size - GAP]:>{size}}"
        place += count

    def joined(title: str, row: int) -> str:
        cells = (f"{column[row]:>{size}}" for column, size in zip(columns, widths, strict=True))
        return f"{title:<{first}}{''.join(cells)}"

    heading = joined("", 0)
    body = [joined(printable(line.title), row) for row, line in enumerate(part.lines, 1)]
    rule = "─" * (first + sum(widths))
    return [line.rstrip() for line in (*([above] if above.strip() else []), heading, rule, *body)]
