"""Benchmark plans with a committed CSV file: jobs whose recipe hash is in the file are not trained again."""

import argparse
import os
import sys
from collections.abc import Container, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.timing import RESULTS
from permll import bench
from permll.bench.executor import Failure
from permll.bench.progress import Progress
from permll.bench.results import Row, collect_jobs
from permll.report.tables import render_tables

ROOT = RESULTS.parent
OUT = Path("runs")
NUM_WORKERS = 2
_failures: list[Failure] = []


def parse_args(description: str | None, *paths: str) -> argparse.Namespace:
    """Parse ``--only-render``, ``--again`` and options that are paths, and change to the repository's root."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only-render", action="store_true", help="train nothing")
    parser.add_argument("--again", action="store_true", help="ignore the rows of the CSV file")
    for path in paths:
        parser.add_argument(f"--{path}", type=lambda text: Path(text).resolve())
    args = parser.parse_args()
    os.chdir(ROOT)  # so that the CSV files contain relative folders
    return args


def train_and_record(plan: bench.Plan, name: str, args: argparse.Namespace) -> list[Row]:
    """Train the jobs that ``results/NAME.csv`` lacks, write it, and return its rows in the order of the plan."""
    path = RESULTS / f"{name}.csv"
    by_hash = {row["recipe_hash"]: row for row in bench.read_rows(path)} if path.is_file() and not args.again else {}
    if not args.only_render:
        train_missing(plan, by_hash)
    by_hash |= {row["recipe_hash"]: row for row in collect_jobs(plan.jobs)}
    rows = [by_hash[job.recipe.hash] for job in plan.jobs if job.recipe.hash in by_hash]
    bench.write_rows(path, rows)
    print(f"{len(rows)} of {len(plan.jobs)} jobs in {path.relative_to(ROOT)}")
    return rows


def train_missing(plan: bench.Plan, known_hashes: Container[object]) -> None:
    """Train the jobs whose recipe hash is unknown; Ctrl-C ends the script."""
    missing = replace(plan, jobs=tuple(job for job in plan.jobs if job.recipe.hash not in known_hashes))
    try:
        _failures.extend(bench.run(missing, NUM_WORKERS, Progress()))
    except KeyboardInterrupt as interrupt:
        sys.exit(str(interrupt))


def exit_with_status() -> None:
    """Exit, with an error if a job failed."""
    sys.exit(f"{len(_failures)} jobs failed: see {OUT / 'failures.json'}." if _failures else 0)


def write_tables(rows: Sequence[Row], name: str, tables: Sequence[str]) -> dict[str, str]:
    """Write ``results/NAME.TABLE.md`` for each table; return the texts by table."""
    texts = {table: render_tables(rows, table=table, format="markdown") for table in tables}
    for table, text in texts.items():
        (RESULTS / f"{name}.{table}.md").write_text(text)
    return texts
