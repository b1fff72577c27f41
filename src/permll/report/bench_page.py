"""HTML page of a benchmark: sortable tables, curves, ranks, the heat map of Figure 3, and the commands of all runs.

The page is a single file with its styles, scripts and drawings inside; it needs no network and no server.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from permll.report.bench_plots import accuracy_curves, heat_maps, rank_plot
from permll.report.jinja import asset, render
from permll.report.tables.builder import build_tables
from permll.report.tables.model import Column, Line, Table
from permll.report.tables.rank_table import rank_tables, rankings
from permll.report.tables.specs import TABLE_SPECS
from permll.report.tables.titles import (
    Key,
    Row,
    data_title,
    figure3_point,
    method_key,
    method_order,
    method_title,
    method_words,
    noise_titles,
    setting_order,
    tier_order,
)

FILE_NAME = "index.html"
SECTIONS = tuple(dict.fromkeys(("failures", "table1", "table2", "ranks", "curves", *TABLE_SPECS, "figure3", "runs")))
HEADINGS = {name: spec.title for name, spec in TABLE_SPECS.items()} | {
    "curves": "Accuracy over the epochs",
    "figure3": "Figure 3: η and m",
    "runs": "All runs",
}
Failures = Sequence[Mapping[str, Any]]


def write_page(rows: Sequence[Row], folder: Path, *, failures: Failures, title: str) -> Path:
    """Write the page of a benchmark, without the sections that would be empty, and return its path.

    Args:
        rows: finished jobs.
        folder: parent of ``index.html``, created if missing; links to runs are relative to it.
        failures: failed jobs, each with the keys of its job, a ``sentence``, a ``command`` and maybe a ``traceback``.
        title: title of the page.

    Examples:
        >>> from tempfile import mkdtemp
        >>> write_page([], Path(mkdtemp()), failures=[], title="table1 at tier tiny").name
        'index.html'
    """
    tables = {name: rank_tables(rows) if name == "ranks" else build_tables(rows, name) for name in TABLE_SPECS}
    contents = tables | {
        "failures": [_failure(failure, folder) for failure in failures],
        "curves": accuracy_curves(rows),
        "figure3": heat_maps(rows),
        "runs": _runs(rows, folder),
    }
    headings = HEADINGS | {"failures": f"Failed: {len(failures)}"}
    text = render(
        "bench.html.j2",
        title=title,
        summary=_summary(rows, failures),
        sections={name: headings[name] for name in SECTIONS if contents[name]},
        contents=contents,
        tables=tables,
        cell_link=_link,
        rank_plots=[rank_plot(tier, ranking) for tier, ranking in rankings(rows).items()],
        style=asset("base.css", "bench.css"),
        script=asset("base.js", "bench.js"),
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE_NAME
    path.write_text(text, encoding="utf-8")
    return path


def _summary(rows: Sequence[Row], failures: Failures) -> str:
    if not rows:
        return "No job is finished yet."
    table_rows = [row for row in rows if figure3_point(row) is None]
    methods = len({method_key(row) for row in table_rows})
    settings = len({(row["tier"], row["data"], row["noise"]) for row in table_rows})
    text = f"{len(rows)} finished jobs" + (f": {methods} methods in {settings} settings" if table_rows else "")
    if len(table_rows) < len(rows):
        text += f", and {len(rows) - len(table_rows)} of Figure 3"
    return text + (f"; {len(failures)} failed." if failures else ".")


def _link(table: Table, line: Line, column: Column) -> str:
    return f"#{_anchor(table.tier, (line.method, line.variant), column.data, column.noise)}"


def _anchor(tier: str, key: Key, data: str, noise: str) -> str:
    """Return the id of the first run of a cell.

    Examples:
        >>> _anchor("mini", ("permll", ""), "fashion_mnist", "sym-60")
        'runs-mini-permll--fashion_mnist-sym-60'
    """
    return re.sub(r"[^\w.-]", "_", "-".join(("runs", tier, *key, data, noise)))


def _runs(rows: Sequence[Row], folder: Path) -> list[dict[str, Any]]:
    """Return all runs; the first of each cell has an id to link to."""
    runs, anchors = [], set()
    for row in sorted(rows, key=_run_order):
        key = method_key(row)
        anchor = _anchor(row["tier"], key, row["data"], row["noise"])
        runs.append(
            dict.fromkeys(("last", "best_test", "epochs", "seconds", "command"))
            | dict(row)
            | {
                "id": "" if anchor in anchors else anchor,
                "filter": method_words((key[0], "") if figure3_point(row) else key),
                "method": method_title(key),
                "data": data_title(row["data"]),
                "noise": " ".join(noise_titles(row["noise"])),
                "folder": _target(row["folder"], folder, Path(row["folder"]).name) if row.get("folder") else None,
            }
        )
        anchors.add(anchor)
    return runs


def _run_order(row: Row) -> tuple[Any, ...]:
    key, setting = method_key(row), (row["data"], row["noise"])
    return tier_order(row["tier"]), method_order(key), setting_order(setting), row["seed"]


def _failure(failure: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    key = (str(failure.get("method") or "?"), str(failure.get("variant") or ""))
    return {
        "filter": method_words(key),
        "method": method_title(key),
        "setting": " ".join(str(failure[name]) for name in ("tier", "data", "noise") if failure.get(name)),
        "seed": failure.get("seed", ""),
        "message": failure.get("sentence") or "",
        "command": failure.get("command"),
        "traceback": _target(failure["traceback"], folder, "traceback") if failure.get("traceback") else None,
    }


def _target(path: str, folder: Path, text: str) -> dict[str, str]:
    """Return a link relative to the page's folder; without ``href`` if the target is missing."""
    if not Path(path).exists():
        return {"path": path, "text": text, "href": ""}
    relative = Path(os.path.relpath(Path(path).resolve(), folder.resolve())).as_posix()
    return {"path": path, "text": text, "href": quote(relative)}
