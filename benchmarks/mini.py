"""Every method at tier mini, three seeds: what memorising wrong labels costs, and what each method saves.

python benchmarks/mini.py [METHOD ...]      prints a table, writes results/mini.csv and results/mini.md, and draws
                                            docs/images/mini.png; finished runs are not repeated

Settings are those of recipes/methods/, chosen before on another seed: see mini_search.py.
"""

import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.timing import RESULTS, read_csv, write_csv
from permll.methods import METHODS
from permll.report.figures.comparison import Scores, draw_comparison, ranking
from permll.report.figures.style import save
from permll.training import fit

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
PANELS = {"sym-60": "Symmetric noise, 60 %", "asym-40": "Asymmetric noise, 40 %"}
KINDS = ("last", "best_test")
RUNS = Path(__file__).resolve().parent.parent / "runs" / "mini"
NOISES = ("sym-60", "asym-40")
MORE = {"ce": ("sym-80",), "permll": ("sym-80",)}
SEEDS = (1, 2, 3)
JOBS = 2
SHOWN = ("last", "best_test", "right_after", "auroc")
TABLE = {"last": "last", "best_by_noisy_validation": "chosen", "right_after": "labels", "auroc": "AUROC"}


def cell(noise: str, method: str, seed: int) -> dict[str, object]:
    """Train one cell and return what is reported of it."""
    torch.set_num_threads(1)
    run = fit(
        method,
        recipe=f"mini/{noise}",
        out=RUNS / f"{noise}-{method}-{seed}",
        seed=seed,
        data__noise_seed=42 + seed,
        data__split_seed=42 + seed,
    )
    result, final = run.result, run.result["final"]
    numbers = {name: result[name] for name in ("last", "best_by_noisy_validation", "best_test")} | {
        "right_before": final["correction_accuracy_before"],
        "right_after": final["correction_accuracy_after"],
        "precision": final["correction_precision"],
        "recall": final["correction_recall"],
        "auroc": final["detection_auroc"],
        "ece": final["test_ece"],
    }
    shown = {name: None if value is None else round(value, 4) for name, value in numbers.items()}
    return {"noise": noise, "method": method, "seed": seed, "recipe_hash": result["recipe_hash"], **shown}


def main() -> None:
    """Run the cells of the methods that are named, or of all; keep what is known of the others."""
    torch.set_num_threads(1)  # as the processes that train do: it goes into the file
    methods = sys.argv[1:] or list(METHODS)
    cells = [
        (noise, method, seed) for method in methods for noise in (*NOISES, *MORE.get(method, ())) for seed in SEEDS
    ]
    known = read_csv("mini") if (RESULTS / "mini.csv").is_file() else []
    rows: list[dict[str, object]] = [dict(row) for row in known if row["method"] not in methods]
    with ProcessPoolExecutor(JOBS) as pool:
        for row in pool.map(cell, *zip(*cells, strict=True)):
            rows.append(row)
            group = [one for one in rows if (one["noise"], one["method"]) == (row["noise"], row["method"])]
            if len(group) == len(SEEDS):
                print(
                    f"{row['method']:<16}{row['noise']:<8}",
                    "  ".join(_spread(group, name, f"{name} ") for name in SHOWN),
                    flush=True,
                )
    order = list(METHODS)
    rows.sort(key=lambda row: (str(row["noise"]), order.index(str(row["method"])), int(str(row["seed"]))))
    print(f"written to {write_csv('mini', rows)}")
    (RESULTS / "mini.md").write_text(table(rows))
    print(f"drawn as {', '.join(map(str, draw(rows)))}")


def table(rows: list[dict[str, object]]) -> str:
    """Return the means of all methods as Markdown, those with most in the last epochs first."""
    lines = ["| method | " + " | ".join(f"{noise} {name}" for noise in NOISES for name in TABLE.values()) + " |"]
    lines.append("|---" * (1 + len(NOISES) * len(TABLE)) + "|")
    for method in ranking(_panels(rows)):
        cells = [METHODS[method].title]
        for noise in NOISES:
            group = [row for row in rows if (row["noise"], row["method"]) == (noise, method)]
            cells += [_spread(group, name, "") for name in TABLE]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def draw(rows: list[dict[str, object]]) -> list[Path]:
    """Draw all methods side by side."""
    titles = {name: info.title for name, info in METHODS.items()}
    return save(draw_comparison(_panels(rows), titles), IMAGES, "mini")


def _panels(rows: list[dict[str, object]]) -> dict[str, dict[str, Scores]]:
    found: dict[str, dict[str, Scores]] = {}
    for noise, title in PANELS.items():
        of_noise = [row for row in rows if row["noise"] == noise]
        found[title] = {
            name: Scores(*([float(str(row[kind])) for row in of_noise if row["method"] == name] for kind in KINDS))
            for name in {str(row["method"]) for row in of_noise}
        }
    return found


def _spread(group: list[dict[str, object]], name: str, title: str) -> str:
    values = [100 * float(str(row[name])) for row in group if row[name] not in (None, "")]
    return f"{title}{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}" if len(values) > 1 else f"{title}-"


if __name__ == "__main__":
    main()
