"""CSV files of results that are extended: cases in the file are skipped, new rows are written one by one."""

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from benchmarks.timing import RESULTS, read_csv, write_csv

Case = tuple[str, int]  # name of a data set, and seed
Row = dict[str, Any]


def update_csv(
    name: str, args: argparse.Namespace, cases: Sequence[Case], measure: Callable[[list[Case]], Iterable[Row]]
) -> list[Row]:
    """Measure the cases that ``results/NAME.csv`` lacks, write it, and return its rows in the order of the cases.

    Args:
        name: name of the file.
        args: result of ``benchmarks.cached_plan.parse_args``; ``again`` measures all cases, ``only_render`` none.
        cases: all cases.
        measure: function that yields the rows of cases, with the columns ``set`` and ``seed``.
    """
    rows: list[Row] = []
    if (RESULTS / f"{name}.csv").is_file() and not args.again:
        rows = list(read_csv(name))
    measured = {(row["set"], int(row["seed"])) for row in rows}
    missing = [] if args.only_render else [case for case in cases if case not in measured]
    for row in measure(missing) if missing else ():
        print(*row.values(), flush=True)
        rows.append(row)
        write_csv(name, rows)
    order = {data: position for position, data in enumerate(dict.fromkeys(data for data, _ in cases))}
    rows.sort(key=lambda row: (order.get(row["set"], len(order)), int(row["seed"])))
    write_csv(name, rows)
    return rows


def run_parallel(measure: Callable[[str, int], Row], cases: Sequence[Case], num_workers: int = 2) -> Iterator[Row]:
    """Yield the rows of cases, measured in parallel processes."""
    with ProcessPoolExecutor(num_workers, get_context("spawn")) as pool:
        yield from pool.map(measure, *zip(*cases, strict=True))
