"""Fraction of wrong labels that a nominal noise rate gives in each convention, as in the paper's Table 1.

python benchmarks/noise_rates.py    prints the tables of docs/noise.md and writes results/noise_rates.csv
"""

import statistics
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.timing import write_csv
from permll.noise import corrupt, named_noise
from permll.noise.presets import CONVENTIONS

CLASSES = {"cifar10": 10, "cifar100": 100}
SAMPLES = (50_000, 45_000)  # training set, and training set without the paper's validation set
SETTINGS = (("sym", 0.2), ("sym", 0.4), ("sym", 0.6), ("sym", 0.8), ("asym", 0.2), ("asym", 0.4))
SEEDS = range(5)
PAPER_SEED = 42


def rates(data_set: str, samples: int, name: str) -> list[float]:
    """Return the actual noise rate for each seed, with equal class sizes as in both data sets."""
    c = CLASSES[data_set]
    labels = np.repeat(np.arange(c), samples // c)
    seeds = [PAPER_SEED] if name.startswith("permll:") else list(SEEDS)
    return [corrupt(labels, named_noise(name, c, data_set=data_set, seed=seed), seed).rate for seed in seeds]


def row(data_set: str, samples: int, convention: str, kind: str, nominal: float) -> dict[str, object]:
    """Return the row of one setting."""
    values = rates(data_set, samples, f"{convention}:{kind}:{nominal}")
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return {
        "data_set": data_set,
        "samples": samples,
        "convention": convention,
        "kind": kind,
        "nominal": nominal,
        "seeds": len(values),
        "rate": round(statistics.mean(values), 6),
        "spread": round(spread, 6),
    }


def format_rate(row: dict[str, object]) -> str:
    """Return the rate in percent, with the standard deviation over seeds unless it is 0."""
    rate, spread = (100 * float(str(row[key])) for key in ("rate", "spread"))
    return f"{rate:.2f} ± {spread:.2f}" if spread else f"{rate:.2f}"


def main() -> None:
    """Compute all conventions in all settings."""
    all_rows: list[dict[str, object]] = []
    for data_set in CLASSES:
        for samples in SAMPLES:
            print(f"\n### {data_set}, {samples:,} labels\n")
            print("| convention | " + " | ".join(f"{kind} {100 * rate:.0f} %" for kind, rate in SETTINGS) + " |")
            print("|---|" + "---|" * len(SETTINGS))
            for convention in CONVENTIONS:
                rows = [row(data_set, samples, convention, kind, rate) for kind, rate in SETTINGS]
                print(f"| `{convention}` | " + " | ".join(map(format_rate, rows)) + " |", flush=True)
                all_rows += rows
    print(f"\nwrote {write_csv('noise_rates', all_rows)}")


if __name__ == "__main__":
    main()
