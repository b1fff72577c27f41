"""Six settings for every method at tier mini, chosen by noisy validation; what wins is frozen in recipes/methods/.

python benchmarks/mini_search.py [METHOD ...]      writes results/mini_search.csv; finished runs are not repeated

Each setting is trained on seed 100 with 60 % symmetric and with 40 % asymmetric noise. It scores the sum of its
accuracies on held-out rows with noisy labels in the last epoch. No clean label and no test image takes part.
"""

import json
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.grids import FRAME, GRIDS, Setting
from benchmarks.timing import RESULTS, read_csv, write_csv
from permll.training.train import train

RUNS = Path(__file__).resolve().parent.parent / "runs" / "search"
NOISES = ("sym-60", "asym-40")
SEED = 100
JOBS = 2


def name_of(settings: Setting) -> str:
    """Return a short name for a folder, such as beta=0.7-lam=3.0."""
    return "-".join(f"{key.rpartition('.')[2]}={value}" for key, value in settings.items())


def train_setting(method: str, number: int, noise: str) -> float:
    """Train one setting and return its accuracy on noisy validation rows in the last epoch."""
    torch.set_num_threads(1)
    chosen = GRIDS[method][number]
    run = train(
        method=method.partition("-")[0],
        recipe=f"mini/{noise}",
        out=RUNS / f"{method}-{name_of(chosen)}-{noise}",
        seed=SEED,
        overrides={**chosen, "data.noise_seed": SEED, "data.split_seed": SEED, "training.evaluate_every": 1000},
    )
    score: float = run.result["final"]["noisy_validation_accuracy"]
    return score


def main() -> None:
    """Search for the methods that are named, or all; keep what is known of the others."""
    torch.set_num_threads(1)  # as the processes that train do: it goes into the file
    methods = sys.argv[1:] or list(GRIDS)
    cells = [(method, number, noise) for method in methods for number in range(len(GRIDS[method])) for noise in NOISES]
    with ProcessPoolExecutor(JOBS) as pool:
        scores = dict(zip(cells, pool.map(train_setting, *zip(*cells, strict=True)), strict=True))
    rows: list[dict[str, Any]] = [row for row in _known() if row["method"] not in methods]
    for method in methods:
        found = []
        for number, settings in enumerate(GRIDS[method]):
            by_noise = {noise: scores[method, number, noise] for noise in NOISES}
            found.append(
                {"method": method, "settings": json.dumps(settings), **by_noise, "sum": sum(by_noise.values())}
            )
        best = max(found, key=lambda row: row["sum"])
        taken = next(row for row in found if row["settings"] == json.dumps(FRAME)) if method == "ce" else best
        for row in found:
            shown = {noise: f"{row[noise]:.4f}" for noise in (*NOISES, "sum")}
            rows.append({**row, **shown, "chosen": "yes" if row is taken else "", "seed": SEED})
        print(f"{method}: {best['settings']}  {best['sum']:.4f}", flush=True)
    order = list(GRIDS)
    rows.sort(key=lambda row: order.index(row["method"]))
    print(f"written to {write_csv('mini_search', rows)}")


def _known() -> list[dict[str, Any]]:
    return read_csv("mini_search") if (RESULTS / "mini_search.csv").is_file() else []


if __name__ == "__main__":
    main()
