"""Methods with one and two networks on a subset of CIFAR-10: ResNet-8 with augmentation, one seed, an hour.

python benchmarks/lite.py [--root ROOT]     writes results/lite.csv and results/lite.md; finished runs are
                                            not repeated

ROOT contains CIFAR-10 as published. Methods have the settings of their recipes, without a search at this tier.
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
LENGTH: dict[str, Any] = {"training.epochs": 24, "training.batch_size": 64}  # small batches, for more steps
NO_AUGMENTATION: dict[str, Any] = {"views.weak": []}
# The longest first, so that both processes end at about the same time.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "dividemix": ("dividemix", {}),
    "co_teaching": ("co_teaching", {}),
    "co_teaching, true rate": ("co_teaching", {"method.noise_rate": 0.54}),  # oracle
    "elr": ("elr", {}),
    "permll": ("permll", {}),
    "permll, no augmentation": ("permll", NO_AUGMENTATION),
    "ce": ("ce", {}),
    "ce, no augmentation": ("ce", NO_AUGMENTATION),
}
NUM_WORKERS = 2
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
TITLES = {"last": "last", "best_test": "best", "right_after": "labels", "auroc": "AUROC"}


def measure(name: str, root: Path | None) -> dict[str, object]:
    """Train one case and return its row."""
    torch.set_num_threads(1)
    method, overrides = CASES[name]
    data: dict[str, Any] = {} if root is None else {"data.root": str(root)}
    start = time.perf_counter()
    run = train(
        method=method,
        recipe=f"lite/cifar10-{NOISE}",
        out=RUNS / f"{NOISE}-{name.replace(', ', '-').replace(' ', '-')}",
        seed=SEED,
        overrides={**ROWS, **LENGTH, **data, **overrides, "training.threads": 1, "training.evaluate_every": 5},
    )
    minutes = (time.perf_counter() - start) / 60
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
    columns = dict.fromkeys(COLUMNS, "") | {key: f"{value:.4f}" for key, value in numbers.items()}
    rows = ROWS["data.train"]
    return {"noise": NOISE, "method": name, "seed": SEED, "rows": rows, "epochs": run.recipe.training.epochs, **columns}


def table(rows: list[dict[str, object]]) -> str:
    """Return the rows in percent as Markdown, sorted by accuracy."""
    lines = ["| method | " + " | ".join(TITLES.values()) + " |", "|---" * (1 + len(TITLES)) + "|"]
    for row in sorted(rows, key=lambda row: -float(str(row["last"]))):
        method, _, variant = str(row["method"]).partition(", ")
        title = METHODS[method].title + (f", {variant}" if variant else "")
        lines.append(f"| {title} | " + " | ".join(f"{100 * float(str(row[key])):.1f}" for key in TITLES) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Train all cases and write the files."""
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path)
    root = parser.parse_args().root
    with ProcessPoolExecutor(NUM_WORKERS) as pool:
        rows = list(pool.map(measure, CASES, [root] * len(CASES)))
    (RESULTS / "lite.md").write_text(table(rows))
    print(f"written to {write_csv('lite', rows)}")


if __name__ == "__main__":
    main()
