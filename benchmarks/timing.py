"""Interleaved timing: contestants take turns in random order, so that a noisy machine is unfair to all alike."""

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
    """How much longer one contestant takes than another: the median over rounds, with two kinds of spread."""

    median: float
    quartiles: tuple[float, float]  # of the rounds: how noisy the machine was
    interval: tuple[float, float]  # of the median, 95 %: how well it is known all the same
    extra_us: float
    rounds: int


def measure(
    contestants: Mapping[str, Callable[[], object]], rounds: int, *, runs: Mapping[str, int] | None = None
) -> dict[str, list[float]]:
    """Return the seconds a run of each contestant took in each round; ``runs`` says how many make up a turn."""
    runs = runs or {}
    order = list(contestants.items())
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    turns = random.Random(0)
    for round_ in range(-WARM_UP, rounds):
        turns.shuffle(order)
        for name, run in order:
            count = runs.get(name, 1)
            start = time.perf_counter()
            for _ in range(count):
                run()
            if round_ >= 0:
                seconds[name].append((time.perf_counter() - start) / count)
    return seconds


def ratio(slow: list[float], fast: list[float]) -> Ratio:
    """Compare round by round: both halves of a pair met the machine in the same mood."""
    pairs = sorted(a / b for a, b in zip(slow, fast, strict=True))
    low, median, high = statistics.quantiles(pairs, n=4)
    # The number of pairs below the true median is binomial: its 95 % range, as ranks, holds the median.
    reach = 0.98 * len(pairs) ** 0.5
    ranks = [round(len(pairs) / 2 + side * reach) for side in (-1, 1)]
    interval = pairs[max(ranks[0] - 1, 0)], pairs[min(ranks[1], len(pairs) - 1)]
    extra = statistics.median(a - b for a, b in zip(slow, fast, strict=True))
    return Ratio(median, (low, high), interval, 1e6 * extra, len(pairs))


def spread(result: Ratio, digits: int) -> dict[str, object]:
    """Return a ratio as columns: its median, the median's 95 % interval, and the rounds."""
    low, high = result.interval
    return {
        "ratio_median": round(result.median, digits),
        "median_low95": round(low, digits),
        "median_high95": round(high, digits),
        "rounds": result.rounds,
    }


def machine() -> dict[str, str]:
    """Describe what the numbers were measured on."""
    return {
        "cpu": cpu_name(),
        "threads": str(torch.get_num_threads()),
        "torch": torch.__version__,
        "date": datetime.date.today().isoformat(),
    }


def write_csv(name: str, rows: list[dict[str, object]]) -> Path:
    """Write ``results/<name>.csv``, the machine in every row: this one, but in rows that were read from a file."""
    path, here = RESULTS / f"{name}.csv", machine()
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        columns = [key for key in rows[0] if key not in here]
        writer = csv.DictWriter(file, [*columns, *here], lineterminator="\n")
        writer.writeheader()
        writer.writerows({**here, **row} for row in rows)
    return path


def read_csv(name: str) -> list[dict[str, str]]:
    """Read what ``write_csv`` wrote."""
    with (RESULTS / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))
