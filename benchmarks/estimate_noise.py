"""Error of noise-rate estimates without clean labels: several estimators, methods, kinds of noise and seeds.

python benchmarks/estimate_noise.py [--labelme FILE]     writes results/estimate_noise.csv and .md;
                                                         finished runs are not repeated

FILE contains LabelMe's features, the answers of crowd workers and the clean labels, as arrays x_train, answers and
y_train; one random answer per sample is the given label.
"""

import argparse
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.timing import RESULTS, write_csv
from permll.data import LabeledData, Vectors, load
from permll.noise.instance import part_dependent
from permll.training.noise_estimate import estimate_noise
from permll.training.run import Run
from permll.training.train import train

RUNS = Path(__file__).resolve().parent.parent / "runs" / "estimate_noise"
NOISES = ("sym-20", "sym-60", "sym-80", "asym-20", "asym-40", "part-20", "part-40")
METHODS = ("ce", "elr", "permll")
ESTIMATORS = ("held_out", "corrected_labels", "mixture")  # of runs with a held-out set
SEEDS = (1, 2, 3)
NUM_WORKERS = 2
TITLES = {
    "sym": "symmetric {} %",
    "asym": "asymmetric {} %",
    "part": "part-dependent {} %",
    "labelme": "LabelMe, one answer of the crowd",
}
TABLE_METHODS = ("elr", "permll")  # networks that have not memorized the wrong labels


def train_case(noise: str, method: str, seed: int, labelme: Path | None) -> tuple[Run, float]:
    """Train one case; return the run and the true noise rate of the training labels."""
    out = RUNS / f"{noise}-{method}-{seed}"
    if labelme is not None:
        return _train_labelme(method, seed, labelme, out)
    kind, _, rate = noise.partition("-")
    options: dict[str, Any] = {}
    if kind == "part":
        options["noise"] = str(_part_dependent(int(rate) / 100, seed))
    run = train(
        method=method,
        recipe="mini/sym-20" if kind == "part" else f"mini/{noise}",
        out=out,
        seed=seed,
        **options,
        overrides={"data.noise_seed": 42 + seed, "data.split_seed": 42 + seed, "training.evaluate_every": 1000},
    )
    return run, 1 - run.result["final"]["correction_accuracy_before"]


def measure(noise: str, method: str, seed: int, labelme: Path | None) -> list[dict[str, object]]:
    """Return the estimates of all estimators on one run."""
    torch.set_num_threads(1)
    run, truth = train_case(noise, method, seed, labelme)
    rows = []
    for name in ESTIMATORS:
        estimate = estimate_noise(run, by=name)
        numbers = {"truth": truth, "rate": estimate.rate, "low": estimate.interval[0], "high": estimate.interval[1]}
        columns = {key: f"{value:.4f}" for key, value in numbers.items()}
        rows.append({"noise": noise, "method": method, "seed": seed, "by": name, **columns, "rows": estimate.rows})
    return rows


def main() -> None:
    """Run all cases, and print the mean error of each estimator for each method."""
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labelme", type=Path)
    labelme = parser.parse_args().labelme
    cases = [(noise, method, seed, None) for noise in NOISES for method in METHODS for seed in SEEDS]
    if labelme is not None:
        cases += [("labelme", method, seed, labelme) for method in METHODS for seed in SEEDS]
    with ProcessPoolExecutor(NUM_WORKERS) as pool:
        rows = [row for group in pool.map(measure, *zip(*cases, strict=True)) for row in group]
    for name in ESTIMATORS:
        for method in METHODS:
            mean, largest = estimation_errors(rows, name, method)
            print(f"{name:<10}{method:<8} mean error {mean:.1f}, largest {largest:.1f}")
    (RESULTS / "estimate_noise.md").write_text(table(rows))
    print(f"written to {write_csv('estimate_noise', rows)}")


def estimation_errors(rows: list[dict[str, object]], name: str, method: str) -> tuple[float, float]:
    """Return the mean and the maximum error of an estimator on a method's networks, in percentage points."""
    group = [row for row in rows if (row["by"], row["method"]) == (name, method)]
    errors = [100 * abs(float(str(row["rate"])) - float(str(row["truth"]))) for row in group]
    return statistics.mean(errors), max(errors)


def table(rows: list[dict[str, object]]) -> str:
    """Return the true rate and the mean of each estimator in percent, as Markdown."""

    def mean(noise: str, name: str, method: str, column: str) -> str:
        group = [row for row in rows if (row["noise"], row["by"], row["method"]) == (noise, name, method)]
        return f"{100 * statistics.mean(float(str(row[column])) for row in group):.1f}"

    lines = ["| noise | wrong | " + " | ".join(name.replace("_", " ") for name in ESTIMATORS) + " |"]
    lines.append("|---" * (2 + len(ESTIMATORS)) + "|")
    for noise in dict.fromkeys(str(row["noise"]) for row in rows):
        kind, _, rate = noise.partition("-")
        cells = [" / ".join(mean(noise, name, method, "rate") for method in TABLE_METHODS) for name in ESTIMATORS]
        wrong = mean(noise, ESTIMATORS[0], TABLE_METHODS[0], "truth")
        lines.append(f"| {TITLES[kind].format(rate)} | {wrong} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _part_dependent(rate: float, seed: int) -> Path:
    """Write part-dependent noise for all normalized images of Fashion-MNIST, and return its path."""
    path = RUNS / f"part-{rate:g}-{seed}.npz"
    if not path.is_file():
        data = load("fashion_mnist")
        images = data.inputs.batch(torch.arange(len(data))).float().div(255).sub(0.286).div(0.353)
        path.parent.mkdir(parents=True, exist_ok=True)
        part_dependent(images.numpy() / 10, data.labels.numpy(), data.num_classes, rate, seed).save(path)
    return path


def _train_labelme(method: str, seed: int, file: Path, out: Path) -> tuple[Run, float]:
    with np.load(file) as arrays:
        x, answers, truth = arrays["x_train"], arrays["answers"], arrays["y_train"].astype(np.int64)
    random = np.random.default_rng(seed)
    given = np.array([random.choice(row[row >= 0]) for row in answers], dtype=np.int64)
    classes = tuple(f"class {number}" for number in range(int(truth.max()) + 1))
    ids = tuple(str(row) for row in range(len(x)))
    data = LabeledData(Vectors(torch.from_numpy(x).float()), torch.from_numpy(given), classes, ids)
    run = train(data, method, out=out, seed=seed, overrides={"data.split_seed": seed, "training.evaluate_every": 1000})
    return run, float((given != truth).mean())


if __name__ == "__main__":
    main()
