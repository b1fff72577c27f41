"""From the finished cells of a plan to its CSV file, tables, figures and page."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, get_args

from permll.bench.executor import read_failures
from permll.bench.figure3 import draw_traces, traces
from permll.bench.grid import Plan
from permll.bench.jobs import Part
from permll.bench.plots import draw_pictures
from permll.bench.results import Row, collect_cells, write_rows
from permll.report.tables import TABLE_SPECS, render_tables
from permll.utils.files import atomic_write_text

FORMATS = {"terminal": "txt", "markdown": "md", "latex": "tex", "html": "html", "csv": "csv"}
CSV = "bench.csv"
REPORT = "report"


class Rendered(NamedTuple):
    """What was written: the page, the CSV file, and how many rows they are of; and the tables for a terminal."""

    page: Path
    csv: Path
    rows: int
    texts: dict[str, str]


def render(plan: Plan) -> Rendered:
    """Write ``bench.csv`` and the folder ``report`` from the finished cells of a plan.

    Nothing is trained, and a cell that is not finished stays empty. Pictures need matplotlib, and are left out without.
    """
    folder = plan.out / REPORT
    folder.mkdir(parents=True, exist_ok=True)
    by_part = {part: collect_cells(cell for cell in plan.cells if cell.part == part) for part in get_args(Part)}
    rows = [row for part in by_part.values() for row in part]
    of_tables = by_part["table1"] + by_part["table2"]
    csv = write_rows(plan.out / CSV, rows)
    texts = {}
    for table in TABLE_SPECS:
        for format_, ending in FORMATS.items():
            text = _text(by_part.get(table, of_tables), table, format_)
            path = folder / f"{table}.{ending}"
            if text:
                atomic_write_text(path, text.rstrip("\n") + "\n")
            else:
                path.unlink(missing_ok=True)  # of an earlier plan
            if text and format_ == "terminal":
                texts[table] = text
    if _has_matplotlib():
        draw_traces(traces(plan.cells), folder)
        draw_pictures(plan.cells, folder)
    from permll.report.bench_page import write_page

    page = write_page(rows, folder, failures=read_failures(plan), title=f"{plan.what} at tier {plan.tier}")
    return Rendered(page, csv, len(rows), texts)


def _has_matplotlib() -> bool:
    """Return whether pictures can be drawn: the tables do not wait for them."""
    return find_spec("matplotlib") is not None


def _text(rows: Sequence[Row], table: str, format_: str) -> str:
    return render_tables(rows, table=table, format=format_) if rows else ""
