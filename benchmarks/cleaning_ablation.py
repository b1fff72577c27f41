"""Ablation of the recipe of ``permll clean``: each choice is reverted in turn.

python benchmarks/cleaning_ablation.py --labelme labelme.npz --trec trec_rules.npz   what the CSV file lacks
python benchmarks/cleaning_ablation.py --only-render                                 measures nothing
python benchmarks/cleaning_ablation.py ... --again                                   measures everything

The noise seeds are 11 to 13, which were used to make the choices; results/cleaning.csv has other seeds. Writes
results/cleaning_ablation.csv and results/cleaning_ablation.md.
"""

import statistics
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cached_plan import parse_args
from benchmarks.incremental_csv import run_parallel, update_csv
from benchmarks.noisy_datasets import load_noisy_dataset
from benchmarks.timing import RESULTS
from permll import clean
from permll.evaluation.detection import measure_detection

CHOICES: dict[str, tuple[str, dict[str, Any]]] = {
    "as-it-is": ("as it is", {}),
    "unbalanced": ("classes drawn as often as they occur", {"method.balance": "none"}),
    "own-default": ("optimizer of auto/default", {"optimizer.lr": 0.05, "optimizer.weight_decay": 5e-4}),
    "plus": ("PermLL+", {}),
    "plus-own-default": (
        "PermLL+, optimizer of auto/default",
        {"optimizer.lr": 0.05, "optimizer.weight_decay": 5e-4},
    ),
}
METHODS = {"plus": "permll_plus", "plus-own-default": "permll_plus"}
SETS = {
    "labelme": "LabelMe",
    "trec": "TREC",
    "table-sym-10": "breast cancer table, 10 %",
    "digits-sym-10": "digits, symmetric 10 %",
    "fashion-asym-30": "Fashion-MNIST, asymmetric 30 %",
}
SEEDS = (11, 12, 13)


def measure(name: str, seed: int, real: Mapping[str, Path]) -> dict[str, object]:
    """Return the detection metrics of one choice on one data set ("as-it-is/labelme")."""
    torch.set_num_threads(1)
    choice, _, data_name = name.partition("/")
    data = load_noisy_dataset(data_name, seed, real)
    with tempfile.TemporaryDirectory() as folder:
        findings = clean(
            data.x,
            data.given,
            method=METHODS.get(choice),
            out=folder,
            seed=seed,
            callbacks=[],
            overrides={"training.threads": 1, **CHOICES[choice][1]},
        )
    given, truth = torch.from_numpy(data.given), torch.from_numpy(data.truth)
    quality, flagged = torch.from_numpy(findings.label_quality), torch.from_numpy(findings.is_issue)
    detection = measure_detection(quality, given != truth, flagged)
    return {
        "set": name,
        "seed": seed,
        "rows": len(given),
        "wrong": int((given != truth).sum()),
        "estimated": f"{findings.metadata['noise']['rate']:.4f}",
        "flagged": int(flagged.sum()),
        "ap": f"{detection.average_precision:.4f}",
        "f1": f"{detection.f1:.4f}",
    }


def table(rows: Iterable[dict[str, Any]]) -> str:
    """Return AP and F1 of each choice, mean ± standard deviation over seeds, as Markdown."""
    rows = list(rows)
    lines = ["| AP / F1 | " + " | ".join(SETS.values()) + " |", "|---|" + "---:|" * len(SETS)]
    for choice, (title, _) in CHOICES.items():
        groups = [[row for row in rows if row["set"] == f"{choice}/{data}"] for data in SETS]
        cells = [f"{_mean_and_std(group, 'ap')} / {_mean_and_std(group, 'f1')}" for group in groups]
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _mean_and_std(rows: Sequence[dict[str, Any]], key: str) -> str:
    values = [100 * float(row[key]) for row in rows]
    return f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}" if len(values) > 1 else "-"


def main() -> None:
    """Measure the missing cases and write the files."""
    args = parse_args(__doc__, "labelme", "trec")
    torch.set_num_threads(1)
    real = {name: path for name in ("labelme", "trec") if (path := getattr(args, name)) is not None}
    available = [data for data in SETS if data in real or "-" in data or args.only_render]
    cases = [(f"{choice}/{data}", seed) for choice in CHOICES for data in available for seed in SEEDS]
    rows = update_csv("cleaning_ablation", args, cases, partial(run_parallel, partial(measure, real=real)))
    text = table(rows)
    (RESULTS / "cleaning_ablation.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
