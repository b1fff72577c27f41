"""Synthetic rows of a benchmark."""

import json
from pathlib import Path
from typing import Any

import numpy as np

NOISES = ("sym-20", "sym-40", "sym-60", "sym-80", "asym-20", "asym-40")
METHODS = ("ce", "gce", "forward", "elr", "sop", "dividemix", "permll")
RATES = {noise: int(noise.rpartition("-")[2]) / 100 for noise in NOISES}


def row(
    method: str = "ce", noise: str = "sym-60", seed: int = 1, last: float | None = 0.5, **more: Any
) -> dict[str, Any]:
    """Return a row with all measurements; keyword arguments replace some of them."""
    best = None if last is None else min(last + 0.05, 1.0)
    defaults = {
        "tier": "mini",
        "data": "fashion_mnist",
        "noise": noise,
        "method": method,
        "variant": "",
        "seed": seed,
        "recipe_hash": f"{method}{noise}{seed}",
        "folder": f"runs/mini/{noise}-{method}-{seed}",
        "command": f"permll train mini/{noise} --method {method} --seed {seed} --out runs/mini/{noise}-{method}-{seed}",
        "epochs": 40,
        "seconds": 20.0,
        "last": last,
        "best_by_noisy_validation": last,
        "best_test": best,
        "right_before": 0.46,
        "right_after": last,
        "correction_precision": 0.8,
        "correction_recall": 0.7,
        "auroc": 0.9,
        "average_precision": 0.85,
        "f1": 0.8,
        "ece": 0.1,
        "nll": 0.9,
        "brier": 0.3,
        "memorization": None if last is None else best - last,
    }
    return defaults | more


def grid(methods: tuple[str, ...] = METHODS, noises: tuple[str, ...] = NOISES, seeds: int = 3) -> list[dict[str, Any]]:
    """Return rows of all combinations: later methods are better, more noise is worse, seeds differ a little."""
    generator = np.random.default_rng(0)
    rows = []
    for index, method in enumerate(methods):
        robust = index / max(len(methods) - 1, 1)
        for noise in noises:
            for seed in range(1, seeds + 1):
                best = 0.88 - 0.12 * RATES[noise] + generator.normal(0, 0.004)
                lost = (1 - robust) * RATES[noise] * 0.5 + abs(generator.normal(0, 0.004))
                rows.append(
                    row(
                        method,
                        noise,
                        seed,
                        best - lost,
                        best_test=best,
                        memorization=lost,
                        seconds=20 * (1 + robust) + generator.normal(0, 0.5),
                        right_before=1 - RATES[noise],
                        right_after=1 - RATES[noise] * (1 - 0.8 * robust),
                        auroc=0.7 + 0.25 * robust + generator.normal(0, 0.005),
                        ece=0.3 - 0.2 * robust + abs(generator.normal(0, 0.01)),
                    )
                )
    return rows


def write_runs(rows: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Write a metrics.jsonl for each row below ``folder``; return the rows with these folders."""
    written = []
    for job in rows:
        run = folder / Path(job["folder"]).name
        run.mkdir(parents=True)
        (run / "metrics.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in metrics(job)))
        written.append(job | {"folder": str(run)})
    return written


def metrics(job: dict[str, Any], epochs: int = 40) -> list[dict[str, Any]]:
    """Return lines of metrics.jsonl that rise to the row's best accuracy and fall to its last."""
    top = epochs // 3
    rising = job["best_test"] - 0.3 * np.exp(-np.arange(1, top + 1) / 3) + 0.3 * np.exp(-top / 3)
    falling = np.linspace(job["best_test"], job["last"], epochs - top + 1)[1:]
    return [{"epoch": epoch, "test_accuracy": float(value)} for epoch, value in enumerate([*rising, *falling], 1)]
