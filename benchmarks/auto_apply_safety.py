"""Label accuracy before and after ``permll apply --auto``, with 0 to 40 % noise and with labels that people got wrong.

python benchmarks/auto_apply_safety.py FILES          measures what results/auto_apply_safety.csv lacks; see --help
python benchmarks/auto_apply_safety.py --only-render  measures nothing
python benchmarks/auto_apply_safety.py FILES --again  measures everything

Automatic corrections must not lower the label accuracy, even without noise. Of the sets with real noise, the half of
the rows is used that did not serve development. Writes results/auto_apply_safety.csv and results/auto_apply_safety.md.
"""

import statistics
import sys
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cached_plan import parse_args
from benchmarks.cleaning import FILES, REAL_SETS, TEST_HALF, by_permll, needed_files
from benchmarks.incremental_csv import run_parallel, update_csv
from benchmarks.noisy_datasets import load_noisy_dataset
from benchmarks.timing import RESULTS

PERCENT = (0, 2, 5, 10, 20, 40)
SETS = {
    **{f"fashion-{kind}-{rate}": f"Fashion-MNIST, {kind} {rate} %" for kind in ("sym", "asym") for rate in PERCENT},
    "fashion-part-30": "Fashion-MNIST, instance 30 %",
    **{f"digits-{kind}-{rate}": f"digits, {kind} {rate} %" for kind in ("sym", "pair") for rate in PERCENT},
    "table-sym-10": "breast cancer table, sym 10 %",
    **REAL_SETS,
}
SEEDS = (1, 2, 3)
TITLES = (
    "data",
    "network right",
    "wrong",
    "found",
    "changed",
    "of them wrong",
    "fixed / found",
    "right before",
    "right after",
    "worst gain of a seed",
)


def measure(name: str, seed: int, files: Mapping[str, Path]) -> dict[str, object]:
    """Return the numbers of wrong, flagged and changed labels of one data set."""
    torch.set_num_threads(1)
    data = load_noisy_dataset(name, seed, files, TEST_HALF)
    result = next(by_permll(data, seed))[1].result
    assert result.after_auto is not None
    assert result.predicted is not None
    assert result.rate is not None
    changed, wrong = result.after_auto != data.given, data.given != data.truth
    return {
        "set": name,
        "seed": seed,
        "rows": len(wrong),
        "wrong": int(wrong.sum()),
        "estimated": round(result.rate * len(wrong)),
        "flagged": int(result.flagged.sum()),
        "flagged_wrong": int((result.flagged & wrong).sum()),
        "found": int((result.flagged & wrong & (result.proposed == data.truth)).sum()),
        "changed": int(changed.sum()),
        "changed_wrong": int((changed & wrong).sum()),
        "fixed": int((changed & (result.after_auto == data.truth)).sum()),
        "accuracy": f"{(result.predicted == data.y_test).mean():.4f}",
        "brier": f"{np.mean((result.quality - ~wrong) ** 2):.4f}",
    }


def table(rows: Iterable[dict[str, Any]]) -> str:
    """Return means over seeds and the lowest gain of a seed as Markdown; "found" are flags with a right proposal."""
    rows = list(rows)
    lines = ["| " + " | ".join(TITLES) + " |", "|---|" + "---:|" * (len(TITLES) - 1)]
    for name, title in SETS.items():
        group = [{key: float(value) for key, value in numbers(row).items()} for row in rows if row["set"] == name]
        if not group:
            continue
        mean = {key: statistics.mean(row[key] for row in group) for key in group[0]}
        cells = [
            f"{100 * mean['accuracy']:.0f} %",
            *(f"{mean[key]:.0f}" for key in ("wrong", "found", "changed")),
            _percent(mean["changed_wrong"], mean["changed"]),
            _percent(mean["fixed"], mean["found"], 0),
            _percent(mean["rows"] - mean["wrong"], mean["rows"], 2),
            _percent(mean["rows"] - mean["wrong"] + mean["gain"], mean["rows"], 2),
            f"{min(row['gain'] for row in group):+.0f}",
        ]
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a row, with the gain: labels that became correct, less those that became wrong."""
    keys = ("rows", "wrong", "found", "changed", "changed_wrong", "fixed", "accuracy")
    values = {key: float(row[key]) for key in keys}
    return values | {"gain": values["fixed"] - (values["changed"] - values["changed_wrong"])}


def _percent(part: float, whole: float, digits: int = 1) -> str:
    return f"{100 * part / whole:.{digits}f} %" if whole else ""


def main() -> None:
    """Measure the missing cases and write the files."""
    args = parse_args(__doc__, *FILES)
    torch.set_num_threads(1)
    files = {name: path for name in FILES if (path := getattr(args, name)) is not None}
    names = [name for name in SETS if args.only_render or all(file in files for file in needed_files(name))]
    cases = [(name, seed) for seed in SEEDS for name in names]
    rows = update_csv("auto_apply_safety", args, cases, partial(run_parallel, partial(measure, files=files)))
    text = table(rows)
    (RESULTS / "auto_apply_safety.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
