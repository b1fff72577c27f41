"""Tables as HTML: figures with a caption, to be put into any page."""

from collections.abc import Callable, Sequence
from html import escape

from permll.report.tables.model import Cell, Column, Line, Table, heads
from permll.report.tables.titles import method_title
from permll.report.tables.writers.cell_format import shown

Link = Callable[[Table, Line, Column], str]


def write_html(tables: Sequence[Table], link: Link | None = None) -> str:
    """Return tables as HTML figures; each scrolls in a box of its own where it is wider than the page.

    Args:
        tables: as data.
        link: where the number of a table, a line and a column leads to, ``""`` for nowhere.
    """
    return "\n".join(_table(table, link) for table in tables)


def _table(table: Table, link: Link | None) -> str:
    name = escape(f"{table.name}-{table.tier}", quote=True)
    lines = [f'<figure class="table" id="{name}">']
    lines.append(
        f'<figcaption id="{name}-caption"><strong>{escape(table.title)}.</strong> {escape(table.caption)}</figcaption>'
    )
    lines.append(f'<div class="scroll" role="region" aria-labelledby="{name}-caption" tabindex="0">')
    lines.append(f'<table class="sortable" aria-labelledby="{name}-caption">')
    lines += ["<thead>", *_heads(table), "</thead>", "<tbody>"]
    lines += [_line(table, line, link) for line in table.lines]
    lines += ["</tbody>", "</table>", "</div>"]
    if table.notes:
        lines += ['<ul class="notes">', *(f"<li>{escape(note)}</li>" for note in table.notes), "</ul>"]
    return "\n".join([*lines, "</figure>"])


def _heads(table: Table) -> list[str]:
    """Return one or two lines of heads; those that can be sorted by are marked for the page's script."""
    second = "".join(f'<th scope="col" data-sort>{escape(column.title)}</th>' for column in table.columns)
    method = '<th scope="col" data-sort>Method</th>'
    if not any(column.group for column in table.columns):
        return [f"<tr>{method}{second}</tr>"]
    first = "".join(
        f'<th colspan="{count}" scope="colgroup">{escape(group)}</th>' if group else f'<td colspan="{count}"></td>'
        for group, count in heads(table)
    )
    return [f"<tr><td></td>{first}</tr>", f"<tr>{method}{second}</tr>"]


def _line(table: Table, line: Line, link: Link | None) -> str:
    cells = [
        _cell(cell, column, "" if link is None or cell.mean is None else link(table, line, column))
        for column, cell in zip(table.columns, line.cells, strict=True)
    ]
    about = escape(" ".join((line.method, line.variant, method_title((line.method, line.variant)))).lower(), quote=True)
    return f'<tr data-method="{about}"><th scope="row">{escape(line.title)}</th>{"".join(cells)}</tr>'


def _cell(cell: Cell, column: Column, href: str) -> str:
    number, note, printed = (escape(part) for part in shown(cell, column.quantity))
    if cell.mean is None and not printed and not cell.note:
        return f'<td class="empty">{number}</td>'
    text = f'<a href="{escape(href, quote=True)}">{number}</a>' if href else number
    parts = [f"<b>{text}</b>" if cell.bold else text]
    parts += [f'<small class="few">{note}</small>'] if note else []
    parts += [f'<small class="printed">{printed}</small>'] if printed else []
    value = "" if cell.mean is None else f' data-value="{cell.mean!r}"'
    return f"<td{value}>{' '.join(parts)}</td>"
