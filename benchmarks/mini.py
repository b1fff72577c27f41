"""PermLL and cross-entropy at tier mini, three seeds: what memorising wrong labels costs, and what the layer saves.

python benchmarks/mini.py      prints a table and writes results/mini.csv; runs that are finished are not repeated
"""

import statistics
import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.timing import write_csv
from permll.training import Run, fit

RUNS = Path(__file__).resolve().parent.parent / "runs" / "mini"
CELLS = (("sym-60", "ce"), ("sym-60", "permll"), ("sym-80", "permll"))
SEEDS = (0, 1, 2)
SHOWN = ("last", "best_by_noisy_validation", "best_test", "right_before", "right_after", "auroc")


def cell(noise: str, method: str, seed: int) -> Run:
    """Train one cell; another method keeps the recipe's other settings."""
    overrides: dict[str, Any] = {"training__seed": seed, "data__noise_seed": 42 + seed, "data__split_seed": 42 + seed}
    if method != "permll":
        overrides["method__name"] = method
    return fit(recipe=f"mini/{noise}", out=RUNS / f"{noise}-{method}-{seed}", **overrides)


def numbers(run: Run) -> dict[str, object]:
    """Return what is reported of a run."""
    result = run.result
    final = result["final"]
    return {
        "recipe_hash": result["recipe_hash"],
        **{name: round(result[name], 4) for name in ("last", "best_by_noisy_validation", "best_test")},
        "right_before": round(final["correction_accuracy_before"], 4),
        "right_after": round(final["correction_accuracy_after"], 4),
        "auroc": round(final["detection_auroc"], 4),
    }


def main() -> None:
    """Run all cells, show mean and standard deviation."""
    torch.set_num_threads(1)
    rows: list[dict[str, object]] = []
    for noise, method in CELLS:
        found = [
            {"noise": noise, "method": method, "seed": seed, **numbers(cell(noise, method, seed))} for seed in SEEDS
        ]
        rows += found
        shown = []
        for name in SHOWN:
            values = [100 * float(str(row[name])) for row in found]
            shown.append(f"{name} {statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}")
        print(f"{noise} {method}: {', '.join(shown)}", flush=True)
    print(f"written to {write_csv('mini', rows)}")


if __name__ == "__main__":
    main()
