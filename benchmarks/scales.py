"""Default parameters of PermLL+ with 2 to 1,000 classes, 500 to a million samples and 10 to 200 epochs.

python benchmarks/scales.py                   trains what results/scales.csv lacks
python benchmarks/scales.py --only-render     trains nothing
python benchmarks/scales.py --again           trains everything

The noise seeds are 100 and 101, which were used for development: the results show where the defaults fail, not how
PermLL+ compares. The digits are scikit-learn's, the other data synthetic clusters; the recipe is auto/default. Writes
results/scales.csv and results/scales.md.
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

from benchmarks.cached_plan import parse_args
from benchmarks.clusters import make_clusters, split_first
from benchmarks.incremental_csv import run_parallel, update_csv
from benchmarks.timing import RESULTS
from permll.data import LabeledData, load
from permll.methods import METHODS as METHOD_INFO
from permll.training.train import train

METHODS = ("ce", "permll", "permll_plus")
SEEDS = (100, 101)
NUM_TEST_ROWS = 5_000
TABLES = {  # by table: method and CSV column of each column title
    "accuracy": {"CE, best epoch": ("ce", "best_test"), "CE": ("ce", "last")}
    | {METHOD_INFO[method].title: (method, "last") for method in METHODS[1:]},
    "labels right": {"as given": ("ce", "right_before")}
    | {METHOD_INFO[method].title: (method, "right_after") for method in METHODS[1:]},
}
TrainArgs = dict[str, Any]


def digits(epochs: int, noise: str, _: int) -> TrainArgs:
    """Return the digits with their fixed split."""
    return _train_args((load("digits"), load("digits", split="test")), epochs, noise)


def synthetic(
    classes: int, rows: int, features: int, separation: float, epochs: int, noise: str, seed: int
) -> TrainArgs:
    """Return clusters, with ``rows`` samples for training."""
    data = make_clusters(classes, rows + NUM_TEST_ROWS, features, separation, seed)
    return _train_args(split_first(data, rows), epochs, noise)


def _train_args(splits: tuple[LabeledData, LabeledData], epochs: int, noise: str) -> TrainArgs:
    return {"data": splits[0], "test": splits[1], "epochs": epochs, "noise": noise}


SCALES: dict[str, tuple[Callable[[int], TrainArgs], int]] = {  # data and number of seeds
    "2 classes, 500 rows, 40 epochs, sym-30": (partial(synthetic, 2, 500, 10, 0.7, 40, "permll:sym:0.3"), 2),
    "2 classes, 50,000 rows, 10 epochs, sym-30": (partial(synthetic, 2, 50_000, 10, 0.7, 10, "permll:sym:0.3"), 2),
    "10 digits, 1,347 rows, 10 epochs, sym-40": (partial(digits, 10, "permll:sym:0.4"), 2),
    "10 digits, 1,347 rows, 40 epochs, sym-40": (partial(digits, 40, "permll:sym:0.4"), 2),
    "10 digits, 1,347 rows, 200 epochs, sym-40": (partial(digits, 200, "permll:sym:0.4"), 2),
    "10 digits, 1,347 rows, 10 epochs, pair-40": (partial(digits, 10, "permll:pair:0.4"), 2),
    "10 digits, 1,347 rows, 200 epochs, pair-40": (partial(digits, 200, "permll:pair:0.4"), 2),
    "10 classes, 1,000,000 rows, 10 epochs, sym-40": (partial(synthetic, 10, 10**6, 16, 1.0, 10, "permll:sym:0.4"), 1),
    "100 classes, 2,000 rows, 40 epochs, sym-40": (partial(synthetic, 100, 2_000, 64, 1.0, 40, "permll:sym:0.4"), 2),
    "100 classes, 10,000 rows, 40 epochs, pair-40": (
        partial(synthetic, 100, 10_000, 64, 1.0, 40, "permll:pair:0.4"),
        2,
    ),
    "1,000 classes, 30,000 rows, 15 epochs, sym-40": (
        partial(synthetic, 1000, 30_000, 64, 1.0, 15, "permll:sym:0.4"),
        2,
    ),
    "1,000 classes, 30,000 rows, 15 epochs, pair-40": (
        partial(synthetic, 1000, 30_000, 64, 1.0, 15, "permll:pair:0.4"),
        2,
    ),
}


def measure(name: str, seed: int) -> dict[str, object]:
    """Return the results of a method at one scale ("ce/2 classes, ...")."""
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
    """Return means and standard deviations over seeds as Markdown, one line per scale."""
    rows, lines = list(rows), []
    for title, columns in TABLES.items():
        lines += [f"| {title} | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
        for scale in SCALES:
            cells = [_mean_and_std(rows, f"{method}/{scale}", key) for method, key in columns.values()]
            lines.append(f"| {scale} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def _mean_and_std(rows: Iterable[dict[str, Any]], name: str, key: str) -> str:
    values = [100 * float(row[key]) for row in rows if row["set"] == name]
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}" if values else "-"


def main() -> None:
    """Measure the missing cases and write the files."""
    args = parse_args(__doc__)
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    cases = [
        (f"{method}/{scale}", seed) for scale, (_, n) in SCALES.items() for method in METHODS for seed in SEEDS[:n]
    ]
    rows = update_csv("scales", args, cases, partial(run_parallel, measure))
    (RESULTS / "scales.md").write_text(table(rows))
    print(table(rows))


if __name__ == "__main__":
    main()
