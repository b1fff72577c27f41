"""Two networks against one, with convolutions and augmentation: a subset of CIFAR-10, ResNet-8, one seed, an hour.

python benchmarks/lite.py [--root ROOT]     writes results/lite.csv and results/lite.md; finished runs are
                                            not repeated

ROOT holds CIFAR-10 as published. Methods have the settings of their recipes: none was searched for at this tier.
"""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.timing import RESULTS, write_csv
from permll.methods import METHODS
from permll.training.train import train

RUNS = Path(__file__).resolve().parent.parent / "runs" / "lite"
NOISE = "sym-60"
SEED = 1
ROWS: dict[str, Any] = {"data.train": 5_000, "data.validation": 1_000}
LENGTH: dict[str, Any] = {"training.epochs": 24, "training.batch_size": 64}  # small batches: more steps, for all
BARE: dict[str, Any] = {"views.weak": []}
# The longest first, so that both processes end together.
CELLS: dict[str, tuple[str, dict[str, Any]]] = {
    "dividemix": ("dividemix", {}),
    "co_teaching": ("co_teaching", {}),
    "co_teaching, true rate": ("co_teaching", {"method.noise_rate": 0.54}),  # an oracle's
    "elr": ("elr", {}),
    "permll": ("permll", {}),
    "permll, no augmentation": ("permll", BARE),
    "ce": ("ce", {}),
    "ce, no augmentation": ("ce", BARE),
}
JOBS = 2
COLUMNS = (
    "last",
    "best_by_noisy_validation",
    "best_test",
    "right_before",
    "right_after",
    "auroc",
    "kept",
    "noise_rate",
)
SHOWN = {"last": "last", "best_test": "best", "right_after": "labels", "auroc": "AUROC"}


def cell(name: str, root: Path | None) -> dict[str, object]:
    """Train one cell and return what is reported of it."""
    torch.set_num_threads(1)
    method, changes = CELLS[name]
    where: dict[str, Any] = {} if root is None else {"data.root": str(root)}
    begin = time.perf_counter()
    run = train(
        method=method,
        recipe=f"lite/cifar10-{NOISE}",
        out=RUNS / f"{NOISE}-{name.replace(', ', '-').replace(' ', '-')}",
        seed=SEED,
        overrides={**ROWS, **LENGTH, **where, **changes, "training.threads": 1, "training.evaluate_every": 5},
    )
    minutes = (time.perf_counter() - begin) / 60
    result, final = run.result, run.result["final"]
    numbers = {
        "last": result["last"],
        "best_by_noisy_validation": result["best_by_noisy_validation"],
        "best_test": result["best_test"],
        "right_before": final["correction_accuracy_before"],
        "right_after": final["correction_accuracy_after"],
        "auroc": final["detection_auroc"],
    }
    print(f"{name:<26} last {100 * numbers['last']:.1f}, {minutes:.0f} min", flush=True)
    numbers |= {key: final[key] for key in ("kept", "noise_rate") if key in final}
    shown = dict.fromkeys(COLUMNS, "") | {key: f"{value:.4f}" for key, value in numbers.items()}
    rows = ROWS["data.train"]
    return {"noise": NOISE, "method": name, "seed": SEED, "rows": rows, "epochs": run.recipe.training.epochs, **shown}


def table(rows: list[dict[str, object]]) -> str:
    """Return the cells as Markdown, in per cent, the highest accuracy first."""
    lines = ["| method | " + " | ".join(SHOWN.values()) + " |", "|---" * (1 + len(SHOWN)) + "|"]
    for row in sorted(rows, key=lambda row: -float(str(row["last"]))):
        method, _, how = str(row["method"]).partition(", ")
        title = METHODS[method].title + (f", {how}" if how else "")
        lines.append(f"| {title} | " + " | ".join(f"{100 * float(str(row[key])):.1f}" for key in SHOWN) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Train all cells."""
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path)
    root = parser.parse_args().root
    with ProcessPoolExecutor(JOBS) as pool:
        rows = list(pool.map(cell, CELLS, [root] * len(CELLS)))
    (RESULTS / "lite.md").write_text(table(rows))
    print(f"written to {write_csv('lite', rows)}")


if __name__ == "__main__":
    main()
