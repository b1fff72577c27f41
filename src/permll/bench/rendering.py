"""Rendering of a benchmark: CSV file, tables, figures and HTML report of the finished jobs."""

from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, get_args

from permll.bench.executor import read_failures
from permll.bench.grid import Plan
from permll.bench.jobs import PreparedData
from permll.bench.results import collect_jobs, write_rows
from permll.report.tables import TABLE_SPECS, render_tables
from permll.utils.files import atomic_write_text

EXTENSIONS = {"terminal": "txt", "markdown": "md", "latex": "tex", "html": "html", "csv": "csv"}  # by format
CSV_FILE = "bench.csv"
REPORT_FOLDER = "report"


class Rendered(NamedTuple):
    """Result of ``render``.

    Args:
        page: path of the HTML report.
        csv: path of the CSV file.
        num_rows: number of finished jobs.
        texts: tables as text for a terminal, by name.
    """

    page: Path
    csv: Path
    num_rows: int
    texts: dict[str, str]


def render(plan: Plan) -> Rendered:
    """Write ``bench.csv`` and the folder ``report`` from the finished jobs of a plan; nothing is trained.

    Figures are skipped if matplotlib is not installed.
    """
    folder = plan.out / REPORT_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    by_experiment = {
        experiment: collect_jobs(job for job in plan.jobs if job.experiment == experiment)
        for experiment in get_args(PreparedData)
    }
    rows = [row for group in by_experiment.values() for row in group]
    table_rows = by_experiment["table1"] + by_experiment["table2"]
    csv = write_rows(plan.out / CSV_FILE, rows)
    texts = {}
    for table in TABLE_SPECS:
        for format_, extension in EXTENSIONS.items():
            selected = by_experiment.get(table, table_rows)
            text = render_tables(selected, table=table, format=format_) if selected else ""
            path = folder / f"{table}.{extension}"
            if text:
                atomic_write_text(path, text.rstrip("\n") + "\n")
            else:
                path.unlink(missing_ok=True)  # of an earlier plan
            if text and format_ == "terminal":
                texts[table] = text
    if find_spec("matplotlib") is not None:
        from permll.bench.plots import draw_figure3, draw_table1_figures, read_figure3_runs

        draw_figure3(read_figure3_runs(plan.jobs), folder)
        draw_table1_figures(plan.jobs, folder)
    from permll.report.bench_page import write_page

    page = write_page(rows, folder, failures=read_failures(plan), title=f"{plan.experiment} at tier {plan.tier}")
    return Rendered(page, csv, len(rows), texts)
