"""What lies behind the figures of mini.py: right labels of each class, and samples kept over the epochs.

python benchmarks/mini_details.py       reads the runs of mini.py, trains what is missing, and writes
                                        results/mini_classes.csv and results/mini_selection.csv

The classes say which of them a method gave up. The epochs say how many samples a method that selects kept, and how
many labels it held for wrong. Beside the settings of mini.py stands DivideMix with its authors' penalty for
asymmetric noise.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.mini import NOISES, RUNS, SEEDS
from benchmarks.timing import write_csv
from permll.bench.jobs import FIRST_DRAW
from permll.data import load
from permll.methods import METHODS
from permll.training.run import Run
from permll.training.train import train

# A variant has its name behind that of its method: (method, settings, noises).
VARIANTS: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "dividemix-penalty": ("dividemix", {"method.penalty": 1.0}, ("asym-40",)),
}
OF_SELECTION = ("kept", "noise_rate")
JOBS = 2


def run_of(noise: str, name: str, seed: int) -> Run:
    """Return one finished run, trained if mini.py did not."""
    torch.set_num_threads(1)
    method, settings, _ = VARIANTS.get(name, (name, {}, ()))
    return train(
        method=method,
        recipe=f"mini/{noise}",
        out=RUNS / f"{noise}-{name}-{seed}",
        seed=seed,
        overrides={**settings, "data.noise_seed": FIRST_DRAW + seed, "data.split_seed": FIRST_DRAW + seed},
    )


def classes_of(noise: str, name: str, seed: int, run: Run, classes: tuple[str, ...]) -> dict[str, object]:
    """Return the share of right labels after correction, of the samples that truly are of each class."""
    last = run.metrics[-1]
    pairs = zip(last["correction_right_after_by_class"], last["correction_samples_by_class"], strict=True)
    shares = {label: f"{right / samples:.3f}" for label, (right, samples) in zip(classes, pairs, strict=True)}
    return {"noise": noise, "method": name, "seed": seed, **shares}


def selection_of(noise: str, name: str, seed: int, run: Run) -> list[dict[str, object]]:
    """Return what was kept after each epoch; nothing for a method that does not select."""
    return [
        {"noise": noise, "method": name, "seed": seed, "epoch": entry["epoch"]}
        | {key: f"{entry[key]:.4f}" if key in entry else "" for key in OF_SELECTION}
        | {"test_accuracy": f"{entry['test_accuracy']:.4f}"}
        for entry in run.metrics
        if "kept" in entry
    ]


def main() -> None:
    """Go through all runs, and write both tables."""
    torch.set_num_threads(1)
    cells = [(noise, name, seed) for name in METHODS for noise in NOISES for seed in SEEDS]
    cells += [(noise, name, seed) for name, (_, _, noises) in VARIANTS.items() for noise in noises for seed in SEEDS]
    with ProcessPoolExecutor(JOBS) as pool:
        runs = list(pool.map(run_of, *zip(*cells, strict=True)))
    names = load("fashion_mnist").classes
    by_class = [classes_of(*cell, run, names) for cell, run in zip(cells, runs, strict=True)]
    selection = [row for cell, run in zip(cells, runs, strict=True) for row in selection_of(*cell, run)]
    print(f"written to {write_csv('mini_classes', by_class)}")
    print(f"written to {write_csv('mini_selection', selection)}")


if __name__ == "__main__":
    main()
