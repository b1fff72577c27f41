"""Whether PermLL+'s one default holds from 2 to 1,000 classes, from 500 to a million rows, from 10 to 200 epochs.

python benchmarks/scales.py                   trains what results/scales.csv does not have yet
python benchmarks/scales.py --only-render     trains nothing
python benchmarks/scales.py --again           trains all of it

Noise seeds 100 and 101, with which it was made: this tells where it breaks, not how it compares. Digits are those of
scikit-learn, all others drawn clusters; the frame is that of one's own data. Written are results/scales.csv and
results/scales.md.
"""

import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cached_plan import arguments
from benchmarks.clusters import clusters, first_and_rest
from benchmarks.incremental_csv import grow, in_processes
from benchmarks.timing import RESULTS
from permll.data import LabeledData, load
from permll.methods import METHODS as RECORDS
from permll.training.train import train

METHODS = ("ce", "permll", "permll_plus")
SEEDS = (100, 101)
TEST = 5_000
SHOWN = {  # by table: the title of a column, whose it is, and what it shows
    "accuracy": {"CE, best epoch": ("ce", "best_test"), "CE": ("ce", "last")}
    | {RECORDS[method].title: (method, "last") for method in METHODS[1:]},
    "labels right": {"as given": ("ce", "right_before")}
    | {RECORDS[method].title: (method, "right_after") for method in METHODS[1:]},
}
Frame = dict[str, Any]


def digits(epochs: int, noise: str, _: int) -> Frame:
    """Return the digits, as they are split; they are the same with every seed."""
    return _frame((load("digits"), load("digits", split="test")), epochs, noise)


def drawn(classes: int, rows: int, features: int, apart: float, epochs: int, noise: str, seed: int) -> Frame:
    """Return so many clusters, and rows to train with."""
    return _frame(first_and_rest(clusters(classes, rows + TEST, features, apart, seed), rows), epochs, noise)


def _frame(parts: tuple[LabeledData, LabeledData], epochs: int, noise: str) -> Frame:
    return {"data": parts[0], "test": parts[1], "epochs": epochs, "noise": noise}


SCALES: dict[str, tuple[Callable[[int], Frame], int]] = {  # what to train on, and how often
    "2 classes, 500 rows, 40 epochs, sym-30": (partial(drawn, 2, 500, 10, 0.7, 40, "permll:sym:0.3"), 2),
    "2 classes, 50,000 rows, 10 epochs, sym-30": (partial(drawn, 2, 50_000, 10, 0.7, 10, "permll:sym:0.3"), 2),
    "10 digits, 1,347 rows, 10 epochs, sym-40": (partial(digits, 10, "permll:sym:0.4"), 2),
    "10 digits, 1,347 rows, 40 epochs, sym-40": (partial(digits, 40, "permll:sym:0.4"), 2),
    "10 digits, 1,347 rows, 200 epochs, sym-40": (partial(digits, 200, "permll:sym:0.4"), 2),
    "10 digits, 1,347 rows, 10 epochs, pair-40": (partial(digits, 10, "permll:pair:0.4"), 2),
    "10 digits, 1,347 rows, 200 epochs, pair-40": (partial(digits, 200, "permll:pair:0.4"), 2),
    "10 classes, 1,000,000 rows, 10 epochs, sym-40": (partial(drawn, 10, 10**6, 16, 1.0, 10, "permll:sym:0.4"), 1),
    "100 classes, 2,000 rows, 40 epochs, sym-40": (partial(drawn, 100, 2_000, 64, 1.0, 40, "permll:sym:0.4"), 2),
    "100 classes, 10,000 rows, 40 epochs, pair-40": (partial(drawn, 100, 10_000, 64, 1.0, 40, "permll:pair:0.4"), 2),
    "1,000 classes, 30,000 rows, 15 epochs, sym-40": (partial(drawn, 1000, 30_000, 64, 1.0, 15, "permll:sym:0.4"), 2),
    "1,000 classes, 30,000 rows, 15 epochs, pair-40": (
        partial(drawn, 1000, 30_000, 64, 1.0, 15, "permll:pair:0.4"),
        2,
    ),
}


def cell(name: str, seed: int) -> dict[str, object]:
    """Return what a method comes to at one scale ("ce/2 classes, ...")."""
    torch.set_num_threads(1)
    method, scale = name.split("/")
    with tempfile.TemporaryDirectory() as folder:
        result = train(
            method=method,
            **SCALES[scale][0](seed),
            recipe="auto/default",
            out=folder,
            seed=seed,
            callbacks=[],
            overrides={
                "data.noise_seed": seed,
                "data.split_seed": seed,
                "training.threads": 1,
                "training.evaluate_every": 1 if method == "ce" else 1000,
            },
        ).result
    final = result["final"]
    return {
        "set": name,
        "seed": seed,
        "last": f"{result['last']:.4f}",
        "best_test": f"{result['best_test']:.4f}" if method == "ce" else "",
        "right_before": f"{final['correction_accuracy_before']:.4f}",
        "right_after": f"{final['correction_accuracy_after']:.4f}",
    }


def table(rows: Iterable[dict[str, Any]]) -> str:
    """Return means and spreads over the seeds, as Markdown, a line for each scale."""
    rows, lines = list(rows), []
    for what, columns in SHOWN.items():
        lines += [f"| {what} | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
        for scale in SCALES:
            shown = [_mean(rows, f"{method}/{scale}", key) for method, key in columns.values()]
            lines.append(f"| {scale} | " + " | ".join(shown) + " |")
        lines.append("")
    return "\n".join(lines)


def _mean(rows: Iterable[dict[str, Any]], name: str, key: str) -> str:
    values = [100 * float(row[key]) for row in rows if row["set"] == name]
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}" if values else "-"


def main() -> None:
    """Measure what is missing, and write."""
    args = arguments(__doc__)
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    wanted = [
        (f"{method}/{scale}", seed) for scale, (_, n) in SCALES.items() for method in METHODS for seed in SEEDS[:n]
    ]
    rows = grow("scales", args, wanted, lambda cells: in_processes(cell, cells))
    (RESULTS / "scales.md").write_text(table(rows))
    print(table(rows))


if __name__ == "__main__":
    main()
