"""A CSV file of results that grows: what it has is not measured again, and what is measured is written at once."""

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from benchmarks.timing import RESULTS, read_csv, write_csv

Cell = tuple[str, int]  # the name of a data set, and a seed
Row = dict[str, Any]


def grow(
    name: str, args: argparse.Namespace, cells: Sequence[Cell], measure: Callable[[list[Cell]], Iterable[Row]]
) -> list[Row]:
    """Measure the cells that ``results/NAME.csv`` does not have, write it, and return its rows in the cells' order.

    Args:
        name: of the file.
        args: of ``benchmarks.cached_plan.arguments``: ``again`` measures all, ``only_render`` nothing.
        cells: all there should be.
        measure: makes the rows of cells, each with its ``set`` and ``seed``.
    """
    known: list[Row] = []
    if (RESULTS / f"{name}.csv").is_file() and not args.again:
        known = list(read_csv(name))
    have = {_cell(row) for row in known}
    missing = [] if args.only_render else [cell for cell in cells if cell not in have]
    for row in measure(missing) if missing else ():
        print(*row.values(), flush=True)
        known.append(row)
        write_csv(name, known)
    place = {data: number for number, data in enumerate(dict.fromkeys(data for data, _ in cells))}
    known.sort(key=lambda row: (place.get(row["set"], len(place)), int(row["seed"])))
    write_csv(name, known)
    return known


def in_processes(measure: Callable[[str, int], Row], cells: Sequence[Cell], jobs: int = 2) -> Iterator[Row]:
    """Yield the rows of cells, several processes at work."""
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        yield from pool.map(measure, *zip(*cells, strict=True))


def _cell(row: Row) -> Cell:
    return row["set"], int(row["seed"])
