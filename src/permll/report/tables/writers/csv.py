"""Tables as CSV, a line for each cell, with every number to its last digit: for programs."""

import csv
import io
from collections.abc import Sequence

from permll.report.tables.model import Table

FIELDS = ("table", "tier", "method", "variant", "title", "data", "noise", "quantity", "mean", "sd", "n", "bold",
          "printed_mean", "printed_sd", "note")  # fmt: skip


def write_csv(tables: Sequence[Table]) -> str:
    """Return tables as CSV. Numbers are as measured (shares in [0, 1]), the paper's in per cent, as printed."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(FIELDS)
    for table in tables:
        for line in table.lines:
            for column, cell in zip(table.columns, line.cells, strict=True):
                printed = cell.printed or (None, None)
                about = (table.name, table.tier, line.method, line.variant, line.title, column.data, column.noise)
                numbers = (cell.mean, cell.sd, cell.n, cell.bold, *printed)
                writer.writerow(
                    [*about, column.quantity.name, *("" if one is None else one for one in numbers), cell.note]
                )
    return out.getvalue()
