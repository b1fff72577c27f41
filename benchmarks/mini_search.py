"""Search over six settings per method at tier mini by noisy validation; recipes/methods/ contains the chosen ones.

python benchmarks/mini_search.py [METHOD ...]      writes results/mini_search.csv; finished runs are not repeated

Each setting is trained with seed 100 on 60 % symmetric and on 40 % asymmetric noise. Its score is the sum of the
accuracies of the last epoch on a held-out set with noisy labels. Clean labels and test images are not used.
"""

import json
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.grids import GRIDS, TIER_OPTIMIZER, Overrides
from benchmarks.timing import RESULTS, read_csv, write_csv
from permll.training.train import train

RUNS = Path(__file__).resolve().parent.parent / "runs" / "search"
NOISES = ("sym-60", "asym-40")
SEED = 100
NUM_WORKERS = 2


def folder_suffix(overrides: Overrides) -> str:
    """Return a short name such as beta=0.7-lam=3.0."""
    return "-".join(f"{key.rpartition('.')[2]}={value}" for key, value in overrides.items())


def train_setting(method: str, number: int, noise: str) -> float:
    """Train one setting and return its noisy validation accuracy in the last epoch."""
    torch.set_num_threads(1)
    overrides = GRIDS[method][number]
    run = train(
        method=method.partition("-")[0],
        recipe=f"mini/{noise}",
        out=RUNS / f"{method}-{folder_suffix(overrides)}-{noise}",
        seed=SEED,
        overrides={**overrides, "data.noise_seed": SEED, "data.split_seed": SEED, "training.evaluate_every": 1000},
    )
    score: float = run.result["final"]["noisy_validation_accuracy"]
    return score


def main() -> None:
    """Search for the given methods, or all; rows of other methods are kept."""
    torch.set_num_threads(1)  # as in the worker processes, since the number is written to the file
    methods = sys.argv[1:] or list(GRIDS)
    cases = [(method, number, noise) for method in methods for number in range(len(GRIDS[method])) for noise in NOISES]
    with ProcessPoolExecutor(NUM_WORKERS) as pool:
        scores = dict(zip(cases, pool.map(train_setting, *zip(*cases, strict=True)), strict=True))
    rows: list[dict[str, Any]] = [row for row in _read_rows() if row["method"] not in methods]
    for method in methods:
        candidates = []
        for number, overrides in enumerate(GRIDS[method]):
            by_noise = {noise: scores[method, number, noise] for noise in NOISES}
            candidates.append(
                {"method": method, "settings": json.dumps(overrides), **by_noise, "sum": sum(by_noise.values())}
            )
        best = max(candidates, key=lambda row: row["sum"])
        default = json.dumps(TIER_OPTIMIZER)
        chosen = next(row for row in candidates if row["settings"] == default) if method == "ce" else best
        for row in candidates:
            scores_text = {noise: f"{row[noise]:.4f}" for noise in (*NOISES, "sum")}
            rows.append({**row, **scores_text, "chosen": "yes" if row is chosen else "", "seed": SEED})
        print(f"{method}: {best['settings']}  {best['sum']:.4f}", flush=True)
    order = list(GRIDS)
    rows.sort(key=lambda row: order.index(row["method"]))
    print(f"written to {write_csv('mini_search', rows)}")


def _read_rows() -> list[dict[str, Any]]:
    return read_csv("mini_search") if (RESULTS / "mini_search.csv").is_file() else []


if __name__ == "__main__":
    main()
