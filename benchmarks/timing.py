"""Interleaved timing: candidates alternate in random order, so that other processes affect them equally."""

import csv
import datetime
import random
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import torch

from permll.bench.machine import cpu_name

WARM_UP = 3
RESULTS = Path(__file__).resolve().parent.parent / "results"


class Ratio(NamedTuple):
    """Ratio of the times of two candidates: median over rounds, with its spread and confidence interval."""

    median: float
    quartiles: tuple[float, float]  # of the rounds
    interval: tuple[float, float]  # 95 % confidence interval of the median
    extra_us: float
    rounds: int


def measure(
    candidates: Mapping[str, Callable[[], object]], rounds: int, *, runs: Mapping[str, int] | None = None
) -> dict[str, list[float]]:
    """Return the seconds per run of each candidate in each round; ``runs`` is the number of runs per round."""
    runs = runs or {}
    order = list(candidates.items())
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    generator = random.Random(0)
    for round_ in range(-WARM_UP, rounds):
        generator.shuffle(order)
        for name, run in order:
            count = runs.get(name, 1)
            start = time.perf_counter()
            for _ in range(count):
                run()
            if round_ >= 0:
                seconds[name].append((time.perf_counter() - start) / count)
    return seconds


def ratio(slow: list[float], fast: list[float]) -> Ratio:
    """Return the ratio of paired times: both times of a round are measured under the same load."""
    pairs = sorted(a / b for a, b in zip(slow, fast, strict=True))
    low, median, high = statistics.quantiles(pairs, n=4)
    # The number of pairs below the true median is binomial, so its 95 % range gives order statistics as bounds.
    margin = 0.98 * len(pairs) ** 0.5
    bounds = [round(len(pairs) / 2 + sign * margin) for sign in (-1, 1)]
    interval = pairs[max(bounds[0] - 1, 0)], pairs[min(bounds[1], len(pairs) - 1)]
    extra = statistics.median(a - b for a, b in zip(slow, fast, strict=True))
    return Ratio(median, (low, high), interval, 1e6 * extra, len(pairs))


def spread(result: Ratio, digits: int) -> dict[str, object]:
    """Return the CSV columns of a ratio."""
    low, high = result.interval
    return {
        "ratio_median": round(result.median, digits),
        "median_low95": round(low, digits),
        "median_high95": round(high, digits),
        "rounds": result.rounds,
    }


def machine_columns() -> dict[str, str]:
    """Return the CSV columns that describe this machine."""
    return {
        "cpu": cpu_name(),
        "threads": str(torch.get_num_threads()),
        "torch": torch.__version__,
        "date": datetime.date.today().isoformat(),
    }


def write_csv(name: str, rows: list[dict[str, object]]) -> Path:
    """Write ``results/<name>.csv`` with the columns of this machine; rows that have these columns keep them."""
    path, machine = RESULTS / f"{name}.csv", machine_columns()
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        columns = [key for key in rows[0] if key not in machine]
        writer = csv.DictWriter(file, [*columns, *machine], lineterminator="\n")
        writer.writeheader()
        writer.writerows({**machine, **row} for row in rows)
    return path


def read_csv(name: str) -> list[dict[str, str]]:
    """Return the rows of ``results/<name>.csv``."""
    with (RESULTS / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))
