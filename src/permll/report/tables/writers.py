"""Tables in several formats: plain text for a terminal, Markdown, LaTeX, HTML and CSV."""

import csv
import io
import shutil
import textwrap
from collections.abc import Callable, Sequence

from permll.report.jinja import render
from permll.report.tables.model import Cell, Column, Table, column_groups, split_columns
from permll.report.text import printable

BOLD = "•"  # in a terminal
GAP = 2  # between columns in a terminal
MAX_LATEX_WIDTH = 110  # characters across a page in \small
CSV_FIELDS = ("table", "tier", "method", "variant", "title", "data", "noise", "quantity", "mean", "sd", "n", "bold",
              "printed_mean", "printed_sd", "note")  # fmt: skip
_LATEX_ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "±": r"$\pm$",
    "†": r"$\dagger$",
    **{char: f"\\{char}" for char in "&%$#_{}"},
}


def write_terminal(tables: Sequence[Table], width: int | None = None) -> str:
    """Return tables as text at most ``width`` wide, by default the terminal's; a single column may be wider."""
    width = width or shutil.get_terminal_size().columns
    return "\n\n".join(_terminal_table(table, width) for table in tables) + "\n" * bool(tables)


def _terminal_table(table: Table, width: int) -> str:
    titles = ["", *(printable(line.title) for line in table.lines)]
    first = max(map(len, titles))
    texts = [
        _terminal_column(column, [line.cells[index] for line in table.lines])
        for index, column in enumerate(table.columns)
    ]
    widths = [max(map(len, column)) + GAP for column in texts]
    start = 0
    for group, count in column_groups(table.columns):  # widen columns until their group heading fits
        widths[start] += max(len(group) + GAP - sum(widths[start : start + count]), 0)
        start += count
    lines = textwrap.wrap(f"{table.title}. {table.caption}", width)
    for part in split_columns(table.columns, widths, width - first):
        heading, start = " " * first, part[0]
        for group, count in column_groups([table.columns[index] for index in part]):
            span = sum(widths[start : start + count])
            heading += f"{group[: span - GAP]:>{span}}"
            start += count
        head, *body = (
            f"{title:<{first}}" + "".join(f"{texts[index][row]:>{widths[index]}}" for index in part)
            for row, title in enumerate(titles)
        )
        rule = "─" * (first + sum(widths[index] for index in part))
        lines += ["", *(line.rstrip() for line in (heading, head, rule, *body) if line is not heading or line.strip())]
    notes = [f"{BOLD} marks bold."] * any(cell.bold for cell in table.cells) + [*table.notes]
    wrapped = [line for note in notes for line in textwrap.wrap(note, width, subsequent_indent="  ")]
    return "\n".join([*lines, *[""] * bool(wrapped), *wrapped])


def _terminal_column(column: Column, cells: Sequence[Cell]) -> list[str]:
    """Return the heading of a column and its cells, with numbers, marks and notes aligned."""
    texts = [cell.text for cell in cells]
    number_width, *other_widths = (max((len(text[part]) for text in texts), default=0) for part in range(3))
    no_mark = " " * any(cell.bold for cell in cells)
    lines = [column.title]
    for cell, (number, *others) in zip(cells, texts, strict=True):
        padded = [f" {text:<{width}}" for text, width in zip(others, other_widths, strict=True) if width]
        lines.append(f"{number:>{number_width}}{BOLD if cell.bold else no_mark}{''.join(padded)}")
    return lines


def write_markdown(tables: Sequence[Table]) -> str:
    """Return tables as Markdown, each with its caption above and its notes below."""
    return "\n".join(map(_markdown_table, tables))


def _markdown_table(table: Table) -> str:
    def escape(text: str) -> str:
        return "".join(f"\\{char}" if char in "\\|*_`<[" else char for char in text)

    def cell_text(cell: Cell) -> str:
        number, note, paper = cell.text
        return " ".join(filter(None, (f"**{number}**" if cell.bold else number, note, paper)))

    headings = [escape(" ".join(filter(None, (column.group, column.title)))) for column in table.columns]
    rows = [["method", *headings], *([escape(line.title), *map(cell_text, line.cells)] for line in table.lines)]
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    rule = "|---" + "|---:" * len(table.columns) + "|"
    caption = f"**{escape(table.title)}.** {escape(table.caption)}"
    notes = [f"{escape(note)}  " for note in table.notes]
    return "\n".join([caption, "", head, rule, *body, "", *notes]).rstrip() + "\n"


def write_latex(tables: Sequence[Table]) -> str:
    """Return tables as LaTeX with booktabs, each a ``table*`` with caption, label and notes; wide ones are split."""
    return "\n".join([r"% \usepackage{booktabs}", *map(_latex_table, tables)]) + "\n"


def escape_latex(text: str) -> str:
    r"""Return text with the special characters of LaTeX escaped.

    Examples:
        >>> print(escape_latex("95 % of a_b & {c} ± 1"))
        95 \% of a\_b \& \{c\} $\pm$ 1
    """
    return "".join(_LATEX_ESCAPES.get(char, char) for char in text)


def _latex_table(table: Table) -> str:
    widths = [
        max([len(column.title), *(len(" ".join(filter(None, line.cells[index].text))) for line in table.lines)]) + 2
        for index, column in enumerate(table.columns)
    ]
    first = max((len(line.title) for line in table.lines), default=0)
    parts = split_columns(table.columns, widths, MAX_LATEX_WIDTH - first)
    lines = [r"\begin{table*}[t]", r"\centering\small"]
    lines.append(rf"\caption{{\textbf{{{escape_latex(table.title)}.}} {escape_latex(table.caption)}}}")
    lines.append(rf"\label{{tab:{table.name}-{''.join(char for char in table.tier if char.isalnum() or char == '-')}}}")
    lines.append("\n\\par\\medskip\n".join(_latex_tabular(table, part) for part in parts))
    if table.notes:
        notes = escape_latex(" ".join(table.notes))
        lines.append(rf"\par\smallskip\begin{{minipage}}{{\textwidth}}\footnotesize {notes}\end{{minipage}}")
    return "\n".join([*lines, r"\end{table*}"])


def _latex_tabular(table: Table, part: Sequence[int]) -> str:
    columns = [table.columns[index] for index in part]
    lines = [rf"\begin{{tabular}}{{l{'r' * len(columns)}}}", r"\toprule"]
    if any(column.group for column in columns):
        spans, rules, start = [], [], 2
        for group, count in column_groups(columns):
            spans.append(rf"\multicolumn{{{count}}}{{c}}{{{escape_latex(group)}}}")
            rules += [rf"\cmidrule(lr){{{start}-{start + count - 1}}}"] if group else []
            start += count
        lines += [f" & {' & '.join(spans)} \\\\", "".join(rules)]
    lines += [f"Method & {' & '.join(escape_latex(column.title) for column in columns)} \\\\", r"\midrule"]
    for line in table.lines:
        cells = [_latex_cell(line.cells[index]) for index in part]
        lines.append(f"{escape_latex(line.title)} & {' & '.join(cells)} \\\\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _latex_cell(cell: Cell) -> str:
    number, *others = map(escape_latex, cell.text)
    if cell.mean is not None and number.startswith("-"):
        number = f"$-${number[1:]}"
    parts = [rf"\textbf{{{number}}}" if cell.bold else number]
    return " ".join(parts + [rf"{{\footnotesize {other}}}" for other in others if other])


def write_html(tables: Sequence[Table]) -> str:
    """Return tables as HTML figures; each scrolls in its own box if it is wider than the page."""
    return render("tables.html.j2", tables=tables)


def write_csv(tables: Sequence[Table]) -> str:
    """Return tables as CSV, a line per cell with all digits: ours as measured (in [0, 1]), the paper's in percent."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_FIELDS)
    for table in tables:
        for line in table.lines:
            for column, cell in zip(table.columns, line.cells, strict=True):
                names = (table.name, table.tier, line.method, line.variant, line.title, column.data, column.noise)
                numbers = (cell.mean, cell.sd, cell.n, cell.bold, *(cell.paper or (None, None)))
                writer.writerow([*names, column.quantity.name, *numbers, cell.note])
    return out.getvalue()


WRITERS: dict[str, Callable[[Sequence[Table]], str]] = {
    "terminal": write_terminal,
    "markdown": write_markdown,
    "latex": write_latex,
    "html": write_html,
    "csv": write_csv,
}
