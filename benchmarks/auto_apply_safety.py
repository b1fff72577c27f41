"""What ``permll apply --auto`` does to right labels: the share of right ones before and after, from no noise to 40 %.

python benchmarks/auto_apply_safety.py [--labelme labelme.npz]    measures what results/auto_apply_safety.csv does not have yet
python benchmarks/auto_apply_safety.py --only-render              measures nothing
python benchmarks/auto_apply_safety.py ... --again                measures all of it

The cure must not be worse than the illness: where nothing is wrong, nothing should change. Written are
results/auto_apply_safety.csv and results/auto_apply_safety.md.
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

from benchmarks.cached_plan import arguments
from benchmarks.incremental_csv import grow, in_processes
from benchmarks.noisy_datasets import doubtful
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


def cell(name: str, seed: int, real: Mapping[str, Path]) -> dict[str, object]:
    """Return how many labels were right before and after, and how many were flagged."""
    torch.set_num_threads(1)
    data = doubtful(name, seed, real)
    with tempfile.TemporaryDirectory() as folder:
        found = clean(data.x, data.given, out=folder, seed=seed, callbacks=[], overrides={"training.threads": 1})
    after = data.given.copy()
    for one in select_corrections(found, {}, auto=True):
        after[one.row] = int(one.after)
    changed = after != data.given
    noise = found.metadata["noise"]
    quality, right = found.label_quality, data.given == data.truth
    return {
        "set": name,
        "seed": seed,
        "rows": len(after),
        "wrong": int((~right).sum()),
        "estimated": round(noise["rate"] * len(after)),
        "flagged": int(found.is_issue.sum()),
        "flagged_wrong": int((found.is_issue & ~right).sum()),
        "changed": int(changed.sum()),
        "mended": int((changed & (after == data.truth)).sum()),
        "broken": int((changed & right).sum()),
        "brier": f"{np.mean((quality - right) ** 2):.4f}",
    }


def table(rows: Iterable[dict[str, Any]]) -> str:
    """Return the means over seeds as Markdown, and the worst that happened."""
    rows = list(rows)
    titles = ("data", "wrong", "changed", "mended", "broken", "right before", "right after", "worst gain of a seed")
    lines = ["| " + " | ".join(titles) + " |", "|---|" + "---:|" * (len(titles) - 1)]
    for name, title in SETS.items():
        own = [{key: float(row[key]) for key in COUNTS} for row in rows if row["set"] == name]
        if not own:
            continue
        mean = {key: statistics.mean(row[key] for row in own) for key in own[0]}
        right = mean["rows"] - mean["wrong"]
        gained = min(row["mended"] - row["broken"] for row in own)
        shown = [f"{mean[key]:.1f}" for key in COUNTS[1:]]
        shares = [100 * right / mean["rows"], 100 * (right + mean["mended"] - mean["broken"]) / mean["rows"]]
        lines.append(
            f"| {title} | " + " | ".join([*shown, *(f"{share:.2f} %" for share in shares), f"{gained:+.0f} |"])
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure what is missing, and write."""
    args = arguments(__doc__, "labelme")
    torch.set_num_threads(1)
    real = {} if args.labelme is None else {"labelme": args.labelme}
    wanted = [(name, seed) for seed in SEEDS for name in SETS if name in real or "-" in name or args.only_render]
    text = table(grow("do_no_harm", args, wanted, lambda cells: in_processes(partial(cell, real=real), cells)))
    (RESULTS / "do_no_harm.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
