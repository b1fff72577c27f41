"""``permll clean`` against cleanlab, on the same features with the same network: who finds more, and how fast.

python benchmarks/cleaning.py --labelme labelme.npz --trec trec_rules.npz   what results/cleaning.csv does not have yet
python benchmarks/cleaning.py --only-render                                 measures nothing
python benchmarks/cleaning.py ... --again                                   measures all of it

cleanlab trains the network by cross-entropy, five times for probabilities of rows it has not seen and once more without
what it found (CleanLearning); permll trains it once. Optimizer, epochs and batches are of the recipe auto/clean for
both. Each cell is a process of its own with one thread, the two of a pair one after the other. Needs cleanlab. Written
are results/cleaning.csv and results/cleaning.md; the files are described in permll.bench.real_noise.
"""

import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cached_plan import arguments
from benchmarks.incremental_csv import grow
from benchmarks.noisy_datasets import Doubtful, doubtful
from benchmarks.timing import RESULTS
from permll.evaluation.correction import measure_correction
from permll.evaluation.detection import measure_detection

SETS = {
    "fashion-sym-20": "Fashion-MNIST, symmetric 20 %",
    "fashion-asym-30": "Fashion-MNIST, asymmetric 30 %",
    "fashion-part-30": "Fashion-MNIST, instance-dependent 30 %",
    "labelme": "LabelMe, real",
    "trec": "TREC, real",
    "digits-sym-10": "digits, symmetric 10 %",
    "table-sym-10": "breast cancer table, 10 %",
}
SEEDS = (1, 2, 3)
WHO = ("permll", "cleanlab")
NUMBERS = {
    "auroc": "AUROC",
    "ap": "AP",
    "f1": "F1 of the flag",
    "labels": "labels right after",
    "accuracy": "test accuracy",
    "cpu_seconds": "processor seconds",
    "peak_mb": "peak MB",
}
LESS_IS_MORE = ("cpu_seconds", "peak_mb")


class Found(NamedTuple):
    """What somebody says of N labels, and their network of the test rows."""

    label_quality: NDArray[np.float64]
    is_issue: NDArray[np.bool_]
    proposed_labels: NDArray[np.int64]
    predicted: NDArray[np.int64]


def by_permll(data: Doubtful, seed: int) -> Found:
    """One training."""
    from permll import clean
    from permll.data.inputs import Vectors
    from permll.training.predictor import load_predictor
    from permll.training.run import Run

    with tempfile.TemporaryDirectory() as folder:
        found = clean(data.x, data.given, out=folder, seed=seed, callbacks=[], overrides={"training.threads": 1})
        names = np.array([int(name) for name in found.classes])
        predicted = load_predictor(Run(folder)).predict(Vectors(torch.from_numpy(data.x_test))).argmax(1).numpy()
    return Found(found.label_quality.astype(np.float64), found.is_issue, names[found.proposed_labels], names[predicted])


def by_cleanlab(data: Doubtful, seed: int) -> Found:
    """Five trainings, and one without what was found."""
    from cleanlab.classification import CleanLearning

    from permll import PermLLClassifier

    classes, labels = np.unique(data.given, return_inverse=True)  # it wants 0 to c - 1
    network = PermLLClassifier(method="ce", validation_fraction=0, random_state=seed)  # nothing is held out in vain
    alone = {"n_jobs": 1}  # as every contestant
    cleaner = CleanLearning(network, cv_n_folds=5, seed=seed, verbose=False, find_label_issues_kwargs=alone)
    cleaner.fit(data.x, labels)
    issues = cleaner.get_label_issues()
    return Found(
        issues["label_quality"].to_numpy(np.float64),
        issues["is_label_issue"].to_numpy(bool),
        classes[issues["predicted_label"].to_numpy()],
        classes[cleaner.predict(data.x_test)],
    )


def cell(name: str, seed: int, who: str, real: dict[str, Path]) -> dict[str, object]:
    """Return the numbers of one set, seed and contestant."""
    torch.set_num_threads(1)
    data = doubtful(name, seed, real)
    _warm_up(who)
    begun, begun_cpu = time.perf_counter(), time.process_time()
    found = (by_permll if who == "permll" else by_cleanlab)(data, seed)
    seconds, cpu_seconds = time.perf_counter() - begun, time.process_time() - begun_cpu
    given, truth = torch.from_numpy(data.given), torch.from_numpy(data.truth)
    detection = measure_detection(
        torch.from_numpy(found.label_quality).float(), given != truth, torch.from_numpy(found.is_issue)
    )
    after = torch.where(torch.from_numpy(found.is_issue), torch.from_numpy(found.proposed_labels), given)
    correction = measure_correction(given, after, truth).to_dict()
    values = {
        "auroc": detection.auroc,
        "ap": detection.average_precision,
        "f1": detection.f1,
        "labels_before": correction["accuracy_before"],
        "labels": correction["accuracy_after"],
        "accuracy": float((found.predicted == data.y_test).mean()),
    }
    shown: dict[str, object] = {key: f"{value:.4f}" for key, value in values.items()}
    return {
        "set": name,
        "seed": seed,
        "who": who,
        "rows": len(given),
        "flagged": int(found.is_issue.sum()),
        **shown,
        "seconds": f"{seconds:.1f}",
        "cpu_seconds": f"{cpu_seconds:.1f}",  # what it takes alone; seconds are longer on a busy machine
        "peak_mb": f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}",  # with torch, half of it
    }


def _warm_up(who: str) -> None:
    """Import what takes long, and train on next to nothing: neither is what is measured."""
    generator = np.random.default_rng(0)
    x, y = generator.random((60, 2), dtype=np.float32), np.tile([0, 1], 30)
    (by_permll if who == "permll" else by_cleanlab)(Doubtful(x, y, y, x, y), 0)


def pair(name: str, seed: int, real: dict[str, Path]) -> list[dict[str, object]]:
    """Return both contestants' rows, each from a process of its own."""
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as alone:
        return [alone.submit(cell, name, seed, who, real).result() for who in WHO]


def table(rows: Iterable[dict[str, Any]]) -> str:
    """Return the means and standard deviations as Markdown; the better of each pair is bold."""
    lines = ["| data | | " + " | ".join(NUMBERS.values()) + " |", "|---|---|" + "---:|" * len(NUMBERS)]
    rows = list(rows)
    for name, title in SETS.items():
        cells = {who: [row for row in rows if row["set"] == name and row["who"] == who] for who in WHO}
        if not all(cells.values()):
            continue
        means = {who: {key: _mean(cells[who], key) for key in NUMBERS} for who in WHO}
        for who in WHO:
            shown = [_shown(cells[who], key, _ahead(means, who, key)) for key in NUMBERS]
            lines.append(f"| {title if who == WHO[0] else ''} | {who} | " + " | ".join(shown) + " |")
    return "\n".join(lines) + "\n"


def _mean(rows: list[dict[str, Any]], key: str) -> float:
    return statistics.mean(float(row[key]) for row in rows)


def _ahead(means: dict[str, dict[str, float]], who: str, key: str) -> bool:
    mine, other = means[who][key], means[WHO[1 - WHO.index(who)]][key]
    return mine < other if key in LESS_IS_MORE else mine > other


def _shown(rows: list[dict[str, Any]], key: str, bold: bool) -> str:
    values = [float(row[key]) for row in rows]
    if key in LESS_IS_MORE:
        text = f"{statistics.mean(values):.0f}"
    else:
        spread = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
        text = f"{100 * statistics.mean(values):.1f}{spread}"
    return f"**{text}**" if bold else text


def main() -> None:
    """Measure what is missing, and write."""
    args = arguments(__doc__, "labelme", "trec")
    torch.set_num_threads(1)
    real = {name: path for name in ("labelme", "trec") if (path := getattr(args, name)) is not None}
    wanted = [(name, seed) for seed in SEEDS for name in SETS if name in real or "-" in name or args.only_render]
    rows = grow("cleaning", args, wanted, lambda cells: (row for one in cells for row in pair(*one, real)))
    text = table(rows)
    (RESULTS / "cleaning.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
