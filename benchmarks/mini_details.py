"""Details of the runs of mini.py: label accuracy per class, and samples selected per epoch.

python benchmarks/mini_details.py       reads the runs of mini.py, trains missing ones, and writes
                                        results/mini_classes.csv and results/mini_selection.csv

The first file shows the classes on which a method fails; the second shows the number of samples that a
sample-selection method keeps and its estimated noise rate. DivideMix with its authors' penalty for asymmetric noise is
added to the settings of mini.py.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.mini import NOISES, RUNS, SEEDS
from benchmarks.timing import write_csv
from permll.bench.jobs import NOISE_SEED_OFFSET
from permll.data import load
from permll.methods import METHODS
from permll.training.run import Run
from permll.training.train import train

# Method, overrides and noises by name.
VARIANTS: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "dividemix-penalty": ("dividemix", {"method.penalty": 1.0}, ("asym-40",)),
}
SELECTION_METRICS = ("kept", "noise_rate")
NUM_WORKERS = 2


def train_case(noise: str, name: str, seed: int) -> Run:
    """Return a run of mini.py, trained if it is missing."""
    torch.set_num_threads(1)
    method, overrides, _ = VARIANTS.get(name, (name, {}, ()))
    return train(
        method=method,
        recipe=f"mini/{noise}",
        out=RUNS / f"{noise}-{name}-{seed}",
        seed=seed,
        overrides={
            **overrides,
            "data.noise_seed": NOISE_SEED_OFFSET + seed,
            "data.split_seed": NOISE_SEED_OFFSET + seed,
        },
    )


def class_row(noise: str, name: str, seed: int, run: Run, classes: tuple[str, ...]) -> dict[str, object]:
    """Return the label accuracy after correction, by true class."""
    last = run.metrics[-1]
    pairs = zip(last["correction_right_after_by_class"], last["correction_samples_by_class"], strict=True)
    accuracies = {label: f"{right / samples:.3f}" for label, (right, samples) in zip(classes, pairs, strict=True)}
    return {"noise": noise, "method": name, "seed": seed, **accuracies}


def selection_rows(noise: str, name: str, seed: int, run: Run) -> list[dict[str, object]]:
    """Return the fraction of kept samples by epoch; no rows for methods without sample selection."""
    return [
        {"noise": noise, "method": name, "seed": seed, "epoch": entry["epoch"]}
        | {key: f"{entry[key]:.4f}" if key in entry else "" for key in SELECTION_METRICS}
        | {"test_accuracy": f"{entry['test_accuracy']:.4f}"}
        for entry in run.metrics
        if "kept" in entry
    ]


def main() -> None:
    """Read or train all runs, and write both files."""
    torch.set_num_threads(1)
    cases = [(noise, name, seed) for name in METHODS for noise in NOISES for seed in SEEDS]
    cases += [(noise, name, seed) for name, (_, _, noises) in VARIANTS.items() for noise in noises for seed in SEEDS]
    with ProcessPoolExecutor(NUM_WORKERS) as pool:
        runs = list(pool.map(train_case, *zip(*cases, strict=True)))
    names = load("fashion_mnist").classes
    by_class = [class_row(*case, run, names) for case, run in zip(cases, runs, strict=True)]
    selection = [row for case, run in zip(cases, runs, strict=True) for row in selection_rows(*case, run)]
    print(f"written to {write_csv('mini_classes', by_class)}")
    print(f"written to {write_csv('mini_selection', selection)}")


if __name__ == "__main__":
    main()
