"""Tables of a benchmark, built from its rows and written in several formats."""

from collections.abc import Iterable

from permll.report.tables.builder import build_tables as build_tables
from permll.report.tables.rank_table import rank_tables as rank_tables
from permll.report.tables.specs import TABLE_SPECS as TABLE_SPECS
from permll.report.tables.titles import Row as Row
from permll.report.tables.writers import WRITERS as WRITERS


def render_tables(rows: Iterable[Row], *, table: str, format: str) -> str:
    """Return a table as text, once per tier, with caption and notes; "" without rows.

    Args:
        rows: finished jobs of a benchmark, in any order.
        table: ``"table1"``, ``"table2"``, ``"detection"``, ``"correction"``, ``"calibration"``, ``"memorization"``,
            ``"time"`` or ``"ranks"``.
        format: ``"terminal"``, ``"markdown"``, ``"latex"``, ``"html"`` or ``"csv"``, which has all digits.

    Examples:
        >>> row = {"tier": "mini", "data": "fashion_mnist", "noise": "sym-60", "method": "sop", "seed": 1}
        >>> row["last"] = 0.8125
        >>> print(render_tables([row], table="table1", format="csv").splitlines()[1])
        table1,mini,sop,,SOP,fashion_mnist,sym-60,last,0.8125,,1,True,,,
    """
    for what, name, names in (("table", table, TABLE_SPECS), ("format", format, WRITERS)):
        if name not in names:
            raise ValueError(f"unknown {what} {name!r}: choose one of {', '.join(names)}.")
    rows = list(rows)
    tables = rank_tables(rows) if table == "ranks" else build_tables(rows, table)
    return WRITERS[format](tables) if tables else ""
