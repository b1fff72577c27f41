"""Tables as LaTeX with booktabs."""

from collections.abc import Sequence

from permll.report.tables.model import Cell, Column, Table, column_groups, split_columns
from permll.report.tables.writers.cell_format import format_cell

MAX_WIDTH = 110  # characters across a page in \small
_ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "±": r"$\pm$",
    "†": r"$\dagger$",
    **{char: f"\\{char}" for char in "&%$#_{}"},
}


def write_latex(tables: Sequence[Table]) -> str:
    """Return tables as LaTeX, each a ``table*`` with caption, label and notes; wide ones are split."""
    return "\n".join([r"% \usepackage{booktabs}", *map(_table, tables)]) + "\n"


def escape(text: str) -> str:
    r"""Return text with the special characters of LaTeX escaped.

    Examples:
        >>> print(escape("95 % of a_b & {c} ± 1"))
        95 \% of a\_b \& \{c\} $\pm$ 1
    """
    return "".join(_ESCAPES.get(char, char) for char in text)


def _table(table: Table) -> str:
    widths = [
        max([len(column.title), *(_width(line.cells[index], column) for line in table.lines)]) + 2
        for index, column in enumerate(table.columns)
    ]
    first = max((len(line.title) for line in table.lines), default=0)
    lines = [r"\begin{table*}[t]", r"\centering\small"]
    lines.append(rf"\caption{{\textbf{{{escape(table.title)}.}} {escape(table.caption)}}}")
    lines.append(rf"\label{{tab:{table.name}-{''.join(char for char in table.tier if char.isalnum() or char == '-')}}}")
    lines.append("\n\\par\\medskip\n".join(map(_tabular, split_columns(table, MAX_WIDTH - first, widths))))
    if table.notes:
        notes = escape(" ".join(table.notes))
        lines.append(rf"\par\smallskip\begin{{minipage}}{{\textwidth}}\footnotesize {notes}\end{{minipage}}")
    return "\n".join([*lines, r"\end{table*}"])


def _tabular(table: Table) -> str:
    lines = [rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}", r"\toprule"]
    if any(column.group for column in table.columns):
        spans, rules, start = [], [], 2
        for group, count in column_groups(table):
            spans.append(rf"\multicolumn{{{count}}}{{c}}{{{escape(group)}}}")
            rules += [rf"\cmidrule(lr){{{start}-{start + count - 1}}}"] if group else []
            start += count
        lines += [f" & {' & '.join(spans)} \\\\", "".join(rules)]
    lines += [f"Method & {' & '.join(escape(column.title) for column in table.columns)} \\\\", r"\midrule"]
    for line in table.lines:
        cells = [_cell(cell, column) for column, cell in zip(table.columns, line.cells, strict=True)]
        lines.append(f"{escape(line.title)} & {' & '.join(cells)} \\\\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _cell(cell: Cell, column: Column) -> str:
    number, note, paper = format_cell(cell, column.quantity)
    text = escape(number)
    if cell.mean is not None and text.startswith("-"):
        text = f"$-${text[1:]}"
    parts = [rf"\textbf{{{text}}}" if cell.bold else text]
    return " ".join(parts + [rf"{{\footnotesize {escape(part)}}}" for part in (note, paper) if part])


def _width(cell: Cell, column: Column) -> int:
    return len(" ".join(filter(None, format_cell(cell, column.quantity))))
