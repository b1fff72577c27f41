"""A plan of the benchmark and its committed CSV file: what the file has is not trained again.

A row stands for its cell as long as the cell's recipe is the same, by its hash.
"""

import argparse
import os
import sys
from collections.abc import Container, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.timing import RESULTS
from permll import bench
from permll.bench.executor import Failure
from permll.bench.progress import Lines
from permll.bench.results import Row, collect_cells
from permll.report.tables import render_tables

ROOT = RESULTS.parent
OUT = Path("runs")
JOBS = 2
_failures: list[Failure] = []


def arguments(about: str | None, *paths: str) -> argparse.Namespace:
    """Read what the command line says: how much to train, and where data are."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only-render", action="store_true", help="train nothing")
    parser.add_argument("--again", action="store_true", help="train also what the CSV file has")
    for path in paths:
        parser.add_argument(f"--{path}", type=lambda text: Path(text).resolve())
    args = parser.parse_args()
    os.chdir(ROOT)  # so that folders are written down as anybody has them
    return args


def record(plan: bench.Plan, name: str, args: argparse.Namespace) -> list[Row]:
    """Train the cells that ``results/NAME.csv`` does not have, write it, and return its rows in the plan's order."""
    path = RESULTS / f"{name}.csv"
    known = {row["recipe_hash"]: row for row in bench.read_rows(path)} if path.is_file() and not args.again else {}
    if not args.only_render:
        train(plan, known)
    known |= {row["recipe_hash"]: row for row in collect_cells(plan.cells)}
    rows = [known[cell.recipe.hash] for cell in plan.cells if cell.recipe.hash in known]
    bench.write_rows(path, rows)
    print(f"{len(rows)} of {len(plan.cells)} cells in {path.relative_to(ROOT)}")
    return rows


def train(plan: bench.Plan, known: Container[object]) -> None:
    """Train the cells whose recipes' hashes are not known; Ctrl-C ends the script, and so do failures, at its end."""
    missing = replace(plan, cells=tuple(cell for cell in plan.cells if cell.recipe.hash not in known))
    try:
        _failures.extend(bench.run(missing, JOBS, Lines()))
    except KeyboardInterrupt as stopped:
        sys.exit(str(stopped))


def leave() -> None:
    """End the script: with an error if a cell failed, after all else is written."""
    sys.exit(f"{len(_failures)} cells failed: see {OUT / 'failures.json'}." if _failures else 0)


def write_tables(rows: Sequence[Row], name: str, tables: Sequence[str]) -> dict[str, str]:
    """Write each as ``results/NAME.TABLE.md``; return the texts by table."""
    texts = {table: render_tables(rows, table=table, format="markdown") for table in tables}
    for table, text in texts.items():
        (RESULTS / f"{name}.{table}.md").write_text(text)
    return texts
