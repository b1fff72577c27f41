"""Processor time of the audit of permll clean.

python benchmarks/audit.py      prints a table and writes results/audit.csv and results/audit.md
"""

import statistics
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.timing import RESULTS, write_csv
from permll.cleaning.audit import AuditInput, audit
from permll.data.dataset import LabeledData
from permll.data.inputs import Images, Inputs, Vectors

ROWS, CLASSES = 50_000, 10
SEEDS = (0, 1, 2)
KINDS = {"512 features": (512,), "20 features": (20,), "images, 3 x 32 x 32": (3, 32, 32)}


def samples(shape: tuple[int, ...], seed: int) -> LabeledData:
    """Return samples of ten classes, each with normal noise around a mean."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (ROWS,), generator=generator)
    means = torch.randn(CLASSES, *shape, generator=generator)
    x = means[labels] + torch.randn(ROWS, *shape, generator=generator)
    inputs: Inputs = Vectors(x) if len(shape) == 1 else Images((40 * x + 128).clamp(0, 255).to(torch.uint8))
    return LabeledData(inputs, labels, tuple(map(str, range(CLASSES))), tuple(map(str, range(ROWS))))


def table(rows: Iterable[dict[str, Any]]) -> str:
    """Return means and standard deviations over seeds as Markdown."""
    rows = list(rows)
    lines = ["| samples | processor s |", "|---|---:|"]
    for kind in KINDS:
        values = [float(row["cpu_seconds"]) for row in rows if row["samples"] == kind]
        lines.append(f"| {kind} | {statistics.mean(values):.1f} ± {statistics.stdev(values):.1f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure all cases and write the files."""
    torch.set_num_threads(1)
    rows: list[dict[str, object]] = []
    for seed in SEEDS:
        for kind, shape in KINDS.items():
            data = samples(shape, seed)
            start = time.process_time()
            audit(AuditInput(data, data.inputs))
            rows.append({"samples": kind, "seed": seed, "cpu_seconds": f"{time.process_time() - start:.2f}"})
    write_csv("audit", rows)
    (RESULTS / "audit.md").write_text(table(rows))
    print(table(rows))


if __name__ == "__main__":
    main()
