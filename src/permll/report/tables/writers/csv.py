"""Tables as CSV, one line per cell, with all digits."""

import csv
import io
from collections.abc import Sequence

from permll.report.tables.model import Table

FIELDS = ("table", "tier", "method", "variant", "title", "data", "noise", "quantity", "mean", "sd", "n", "bold",
          "printed_mean", "printed_sd", "note")  # fmt: skip


def write_csv(tables: Sequence[Table]) -> str:
    """Return tables as CSV. Our numbers are as measured (fractions in [0, 1]), the paper's in percent."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(FIELDS)
    for table in tables:
        for line in table.lines:
            for column, cell in zip(table.columns, line.cells, strict=True):
                names = (table.name, table.tier, line.method, line.variant, line.title, column.data, column.noise)
                numbers = (cell.mean, cell.sd, cell.n, cell.bold, *(cell.paper or (None, None)))
                writer.writerow([*names, column.quantity.name, *numbers, cell.note])
    return out.getvalue()
