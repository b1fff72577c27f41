"""Label accuracy before and after ``permll apply --auto``, with 0 to 40 % noise.

python benchmarks/auto_apply_safety.py [--labelme labelme.npz]    measures what results/auto_apply_safety.csv lacks
python benchmarks/auto_apply_safety.py --only-render              measures nothing
python benchmarks/auto_apply_safety.py ... --again                measures everything

Automatic corrections must not lower the label accuracy, even without noise. Writes results/auto_apply_safety.csv and
results/auto_apply_safety.md.
"""

import statistics
import sys
import tempfile
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cached_plan import parse_args
from benchmarks.incremental_csv import run_parallel, update_csv
from benchmarks.noisy_datasets import load_noisy_dataset
from benchmarks.timing import RESULTS
from permll import clean
from permll.cleaning.apply.corrections import select_corrections

PERCENT = (0, 2, 5, 10, 20, 40)
SETS = {
    **{f"fashion-{kind}-{rate}": f"Fashion-MNIST, {kind} {rate} %" for kind in ("sym", "asym") for rate in PERCENT},
    **{f"digits-{kind}-{rate}": f"digits, {kind} {rate} %" for kind in ("sym", "pair") for rate in PERCENT},
    "labelme": "LabelMe, real",
}
SEEDS = (1, 2, 3)
COUNTS = ("rows", "wrong", "changed", "mended", "broken")


def measure(name: str, seed: int, real: Mapping[str, Path]) -> dict[str, object]:
    """Return the numbers of wrong, flagged and changed labels of one data set."""
    torch.set_num_threads(1)
    data = load_noisy_dataset(name, seed, real)
    with tempfile.TemporaryDirectory() as folder:
        findings = clean(data.x, data.given, out=folder, seed=seed, callbacks=[], overrides={"training.threads": 1})
    after = data.given.copy()
    for correction in select_corrections(findings, {}, auto=True):
        after[correction.row] = int(correction.after)
    changed = after != data.given
    noise = findings.metadata["noise"]
    quality, right = findings.label_quality, data.given == data.truth
    return {
        "set": name,
        "seed": seed,
        "rows": len(after),
        "wrong": int((~right).sum()),
        "estimated": round(noise["rate"] * len(after)),
        "flagged": int(findings.is_issue.sum()),
        "flagged_wrong": int((findings.is_issue & ~right).sum()),
        "changed": int(changed.sum()),
        "mended": int((changed & (after == data.truth)).sum()),
        "broken": int((changed & right).sum()),
        "brier": f"{np.mean((quality - right) ** 2):.4f}",
    }


def table(rows: Iterable[dict[str, Any]]) -> str:
    """Return means over seeds and the lowest gain of a seed as Markdown."""
    rows = list(rows)
    titles = ("data", "wrong", "changed", "fixed", "broken", "right before", "right after", "worst gain of a seed")
    lines = ["| " + " | ".join(titles) + " |", "|---|" + "---:|" * (len(titles) - 1)]
    for name, title in SETS.items():
        group = [{key: float(row[key]) for key in COUNTS} for row in rows if row["set"] == name]
        if not group:
            continue
        mean = {key: statistics.mean(row[key] for row in group) for key in COUNTS}
        right = mean["rows"] - mean["wrong"]
        worst_gain = min(row["mended"] - row["broken"] for row in group)
        counts = [f"{mean[key]:.1f}" for key in COUNTS[1:]]
        percent = [100 * right / mean["rows"], 100 * (right + mean["mended"] - mean["broken"]) / mean["rows"]]
        lines.append(
            f"| {title} | " + " | ".join([*counts, *(f"{value:.2f} %" for value in percent), f"{worst_gain:+.0f} |"])
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure the missing cases and write the files."""
    args = parse_args(__doc__, "labelme")
    torch.set_num_threads(1)
    real = {} if args.labelme is None else {"labelme": args.labelme}
    cases = [(name, seed) for seed in SEEDS for name in SETS if name in real or "-" in name or args.only_render]
    rows = update_csv("auto_apply_safety", args, cases, partial(run_parallel, partial(measure, real=real)))
    text = table(rows)
    (RESULTS / "auto_apply_safety.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
