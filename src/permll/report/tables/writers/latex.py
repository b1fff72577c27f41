"""Tables as LaTeX; the document needs nothing but booktabs."""

from collections.abc import Sequence

from permll.report.tables.model import Cell, Column, Table, heads, parts
from permll.report.tables.writers.cell_format import shown

ROOM = 110  # signs that fit side by side across a page in \small
_SIGNS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "±": r"$\pm$",
    "†": r"$\dagger$",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def write_latex(tables: Sequence[Table]) -> str:
    """Return tables as LaTeX, each a ``table*`` with caption, label and notes; wide ones in pieces below each other."""
    return "\n".join([r"% \usepackage{booktabs}", *map(_table, tables)]) + "\n"


def escape(text: str) -> str:
    r"""Return text that LaTeX sets as it is.

    Examples:
        >>> print(escape("95 % of a_b & {c} ± 1"))
        95 \% of a\_b \& \{c\} $\pm$ 1
    """
    return "".join(_SIGNS.get(sign, sign) for sign in text)


def _table(table: Table) -> str:
    widths = [
        max([len(column.title), *(len(_plain(line.cells[place], column)) for line in table.lines)]) + 2
        for place, column in enumerate(table.columns)
    ]
    first = max((len(line.title) for line in table.lines), default=0)
    lines = [r"\begin{table*}[t]", r"\centering\small"]
    lines.append(rf"\caption{{\textbf{{{escape(table.title)}.}} {escape(table.caption)}}}")
    lines.append(rf"\label{{tab:{table.name}-{_word(table.tier)}}}")
    pieces = [_tabular(part) for part in parts(table, ROOM - first, widths)]
    lines.append("\n\\par\\medskip\n".join(pieces))
    if table.notes:
        notes = escape(" ".join(table.notes))
        lines.append(rf"\par\smallskip\begin{{minipage}}{{\textwidth}}\footnotesize {notes}\end{{minipage}}")
    return "\n".join([*lines, r"\end{table*}"])


def _tabular(table: Table) -> str:
    lines = [rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}", r"\toprule"]
    if any(column.group for column in table.columns):
        spans, rules, place = [], [], 2
        for group, count in heads(table):
            spans.append(rf"\multicolumn{{{count}}}{{c}}{{{escape(group)}}}")
            rules += [rf"\cmidrule(lr){{{place}-{place + count - 1}}}"] if group else []
            place += count
        lines += [f" & {' & '.join(spans)} \\\\", "".join(rules)]
    lines += [f"Method & {' & '.join(escape(column.title) for column in table.columns)} \\\\", r"\midrule"]
    for line in table.lines:
        cells = [_cell(cell, column) for column, cell in zip(table.columns, line.cells, strict=True)]
        lines.append(f"{escape(line.title)} & {' & '.join(cells)} \\\\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _cell(cell: Cell, column: Column) -> str:
    number, note, printed = shown(cell, column.quantity)
    text = escape(number)
    if cell.mean is not None and text.startswith("-"):
        text = f"$-${text[1:]}"
    found = [rf"\textbf{{{text}}}" if cell.bold else text]
    found += [rf"{{\footnotesize {escape(part)}}}" for part in (note, printed) if part]
    return " ".join(found)


def _plain(cell: Cell, column: Column) -> str:
    return " ".join(filter(None, shown(cell, column.quantity)))


def _word(text: str) -> str:
    return "".join(sign for sign in text if sign.isalnum() or sign == "-")
