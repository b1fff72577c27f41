"""Bias of the noise-rate estimate with few samples per pair of classes, with and without a cautious prior (simulated).

python benchmarks/noise_rate_bias.py        writes results/noise_rate_bias.csv

The network is calibrated: true classes are drawn from its probabilities, and labels from the classes.
"""

import statistics
import sys
from itertools import product
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.timing import write_csv
from permll.functional.noise_rate import fit_joint, noise_rate_from_joint

SIZES = ((10, 1_000), (40, 2_000), (100, 2_000), (100, 5_000))  # classes, rows
NOISES = ("none", "symmetric", "asymmetric")
RATE = 0.3
SEEDS = (1, 2, 3)
CAUTION = (0.0, 1.0)
LOGIT_SCALE = 3.5


def simulate(classes: int, rows: int, noise: str, seed: int) -> tuple[Tensor, Tensor, float]:
    """Return logits, labels and the noise rate; asymmetric noise replaces each class by the next."""
    generator = torch.Generator().manual_seed(seed)
    logits = LOGIT_SCALE * torch.randn(rows, classes, generator=generator)
    clean = logits.softmax(1).multinomial(1, generator=generator)[:, 0]
    wrong = torch.rand(rows, generator=generator) < (0 if noise == "none" else RATE)
    step = torch.ones(rows, dtype=torch.long)
    if noise == "symmetric":
        step = torch.randint(1, classes, (rows,), generator=generator)
    return logits, torch.where(wrong, (clean + step) % classes, clean), wrong.double().mean().item()


def main() -> None:
    """Estimate the rate in every setting."""
    torch.set_num_threads(1)
    rows: list[dict[str, object]] = []
    for (classes, samples), noise, smoothing in product(SIZES, NOISES, CAUTION):
        errors = []
        for seed in SEEDS:
            logits, labels, truth = simulate(classes, samples, noise, seed)
            rate = noise_rate_from_joint(fit_joint(logits, labels, smoothing=smoothing).joint)
            errors.append(100 * (rate - truth))
            fields = {"classes": classes, "rows": samples, "noise": noise, "caution": f"{smoothing:g}", "seed": seed}
            rows.append(fields | {"truth": f"{truth:.4f}", "rate": f"{rate:.4f}"})
        error = f"{statistics.mean(errors):+.1f} ± {statistics.stdev(errors):.1f} points"
        print(f"{classes} classes, {samples} rows, {noise}, caution {smoothing:g}: {error}", flush=True)
    print(f"written to {write_csv('noise_rate_bias', rows)}")


if __name__ == "__main__":
    main()
