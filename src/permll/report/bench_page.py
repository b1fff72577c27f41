"""A benchmark as one page: tables that sort, curves, ranks, the map of Figure 3, every run and how to repeat it.

The page is a single file. It needs no network and no server: styles, script and drawings are inside.
"""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from permll.report.page.accuracy_curves import curves
from permll.report.page.heat_map import heat_maps
from permll.report.page.html import anchor, escape
from permll.report.page.rank_plot import drawn_ranks
from permll.report.page.run_table import failures_table, runs_table
from permll.report.tables.builder import make_tables
from permll.report.tables.model import Column, Line, Table
from permll.report.tables.rank_table import rank_tables
from permll.report.tables.specs import KINDS_OF_TABLES
from permll.report.tables.titles import Row, method_key, point
from permll.report.tables.writers.html import write_html

NAME = "index.html"


def write_page(rows: Sequence[Row], folder: Path, *, failures: Sequence[Mapping[str, Any]], title: str) -> Path:
    """Write the page of a benchmark into a folder, made if missing, and return its path.

    Args:
        rows: finished cells.
        folder: where ``index.html`` goes; links to runs are relative to it.
        failures: what failed, each with the keys of its cell, a ``sentence``, a ``command`` and maybe a ``traceback``.
        title: of the page.

    Examples:
        >>> from tempfile import mkdtemp
        >>> write_page([], Path(mkdtemp()), failures=[], title="table1 at tier tiny").name
        'index.html'
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / NAME
    path.write_text(page(rows, folder, failures=failures, title=title), encoding="utf-8")
    return path


def page(rows: Sequence[Row], folder: Path, *, failures: Sequence[Mapping[str, Any]], title: str) -> str:
    """Return the page as HTML: only sections that have something to show."""
    sections = {name: content for name, content in _sections(rows, folder, failures).items() if content[1]}
    navigation = "".join(f'<li><a href="#{name}">{escape(head)}</a></li>' for name, (head, _) in sections.items())
    content = "\n".join(
        f'<section class="of-{name}" aria-labelledby="{name}">\n<h2 id="{name}">{escape(head)}</h2>\n{body}\n</section>'
        for name, (head, body) in sections.items()
    )
    return Template(_text("page.html")).substitute(
        title=escape(title),
        summary=escape(_summary(rows, failures)),
        navigation=navigation,
        content=content,
        style=_text("base.css") + _text("style.css"),
        script=_text("base.js") + _text("script.js"),
    )


def _sections(rows: Sequence[Row], folder: Path, failures: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
    """Return the heads and bodies of the sections by their names; a body without anything to show is empty."""
    tables = {
        name: (kind.title, write_html(make_tables(rows, name), _link))
        for name, kind in KINDS_OF_TABLES.items()
        if name != "ranks"
    }
    ranks = drawn_ranks(rows)
    drawn = curves(rows)
    first = {name: tables.pop(name) for name in ("table1", "table2")}
    return {
        "failures": (f"Failed: {len(failures)}", failures_table(failures, folder) if failures else ""),
        **first,
        "ranks": (KINDS_OF_TABLES["ranks"].title, ranks + write_html(rank_tables(rows)) if ranks else ""),
        "curves": ("Accuracy over the epochs", f"<p>{CURVES}</p>\n{drawn}" if drawn else ""),
        **tables,
        "figure3": ("Figure 3: η and m", heat_maps(rows)),
        "runs": ("All runs", f'<p id="runs-caption">{RUNS}</p>\n{runs_table(rows, folder)}' if rows else ""),
    }


CURVES = (
    "Mean over the seeds, with a band from the lowest to the highest; dashed grey: cross-entropy. The circle is the "
    "best epoch, which only an oracle can pick; the dashed step down from it is what was lost by learning wrong labels "
    "by heart. Beside each name: test accuracy of the last epoch in per cent, and in parentheses last minus best."
)
RUNS = "Each finished cell with its folder, where that is to be found from this page, and the command that repeats it."


def _summary(rows: Sequence[Row], failures: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "No cell is finished yet."
    tables = [row for row in rows if point(row) is None]
    methods = len({method_key(row) for row in tables})
    settings = len({(row["tier"], row["data"], row["noise"]) for row in tables})
    said = f"{len(rows)} finished cells" + (f": {methods} methods in {settings} settings" if tables else "")
    if len(tables) < len(rows):
        said += f", and {len(rows) - len(tables)} of Figure 3"
    return said + (f"; {len(failures)} failed." if failures else ".")


def _link(table: Table, line: Line, column: Column) -> str:
    return f"#{anchor(table.tier, (line.method, line.variant), column.data, column.noise)}"


def _text(name: str) -> str:
    return (files("permll.report.page") / name).read_text(encoding="utf-8")
