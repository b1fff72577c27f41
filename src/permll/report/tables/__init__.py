"""The tables of a benchmark: rows of finished cells, a table as data, and one writer for each format."""

from collections.abc import Callable, Iterable

from permll.report.tables.builder import make_tables as make_tables
from permll.report.tables.model import Cell as Cell
from permll.report.tables.model import Column as Column
from permll.report.tables.model import Line as Line
from permll.report.tables.model import Quantity as Quantity
from permll.report.tables.model import Table as Table
from permll.report.tables.rank_table import rank_tables as rank_tables
from permll.report.tables.specs import KINDS_OF_TABLES as KINDS_OF_TABLES
from permll.report.tables.titles import Row as Row
from permll.report.tables.writers.csv import write_csv
from permll.report.tables.writers.html import write_html
from permll.report.tables.writers.latex import write_latex
from permll.report.tables.writers.markdown import write_markdown
from permll.report.tables.writers.terminal import write_terminal

WRITERS: dict[str, Callable[[list[Table]], str]] = {
    "terminal": write_terminal,
    "markdown": write_markdown,
    "latex": write_latex,
    "html": write_html,
    "csv": write_csv,
}


def render_tables(rows: Iterable[Row], *, table: str, format: str) -> str:
    """Return a table of finished cells as text: one for each tier, with its caption and notes; "" without any.

    Args:
        rows: finished cells of a benchmark, in any order.
        table: ``"table1"``, ``"table2"``, ``"detection"``, ``"correction"``, ``"calibration"``, ``"memorisation"``,
            ``"time"`` or ``"ranks"``.
        format: ``"terminal"``, ``"markdown"``, ``"latex"``, ``"html"`` or ``"csv"``; the last has all digits.

    Examples:
        >>> row = {"tier": "mini", "data": "fashion_mnist", "noise": "sym-60", "method": "sop", "seed": 1}
        >>> row["last"] = 0.8125
        >>> print(render_tables([row], table="table1", format="csv").splitlines()[1])
        table1,mini,sop,,SOP,fashion_mnist,sym-60,last,0.8125,,1,True,,,
    """
    for name, known in ((table, list(KINDS_OF_TABLES)), (format, list(WRITERS))):
        if name not in known:
            raise ValueError(f"there is no {name!r} here: choose one of {', '.join(known)}.")
    rows = list(rows)
    made = rank_tables(rows) if table == "ranks" else make_tables(rows, table)
    return WRITERS[format](made) if made else ""
