"""``permll clean`` compared with cleanlab, on the same features with the same network: accuracy and time.

python benchmarks/cleaning.py --labelme labelme.npz --trec trec_rules.npz   what results/cleaning.csv lacks
python benchmarks/cleaning.py --only-render                                 measures nothing
python benchmarks/cleaning.py ... --again                                   measures everything

cleanlab (CleanLearning) trains the network with cross-entropy, five times for out-of-sample probabilities and once more
without the label issues; permll trains it once. Optimizer, epochs and batch size are those of the recipe auto/clean for
both. Each measurement is a separate process with one thread. Requires cleanlab. Writes results/cleaning.csv and
results/cleaning.md; permll.bench.real_noise describes the format of the files.
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

from benchmarks.cached_plan import parse_args
from benchmarks.incremental_csv import update_csv
from benchmarks.noisy_datasets import NoisyDataset, load_noisy_dataset
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
TOOLS = ("permll", "cleanlab")
NUMBERS = {
    "auroc": "AUROC",
    "ap": "AP",
    "f1": "F1 of the flag",
    "labels": "labels right after",
    "accuracy": "test accuracy",
    "cpu_seconds": "processor seconds",
    "peak_mb": "peak MB",
}
LOWER_IS_BETTER = ("cpu_seconds", "peak_mb")


class Result(NamedTuple):
    """Findings on N labels, and predictions on the test set."""

    quality: NDArray[np.float64]
    flagged: NDArray[np.bool_]
    proposed: NDArray[np.int64]
    predicted: NDArray[np.int64]


def by_permll(data: NoisyDataset, seed: int) -> Result:
    """Run ``permll.clean``."""
    from permll import clean
    from permll.data.inputs import Vectors
    from permll.training.predictor import load_predictor
    from permll.training.run import Run

    with tempfile.TemporaryDirectory() as folder:
        findings = clean(data.x, data.given, out=folder, seed=seed, callbacks=[], overrides={"training.threads": 1})
        names = np.array([int(name) for name in findings.classes])
        predicted = load_predictor(Run(folder)).predict(Vectors(torch.from_numpy(data.x_test))).argmax(1).numpy()
    quality = findings.label_quality.astype(np.float64)
    return Result(quality, findings.is_issue, names[findings.proposed_labels], names[predicted])


def by_cleanlab(data: NoisyDataset, seed: int) -> Result:
    """Run cleanlab's ``CleanLearning``."""
    from cleanlab.classification import CleanLearning

    from permll import PermLLClassifier

    classes, labels = np.unique(data.given, return_inverse=True)  # cleanlab requires 0 to c - 1
    network = PermLLClassifier(
        method="ce", validation_fraction=0, random_state=seed
    )  # cleanlab does not use a held-out set
    one_process = {"n_jobs": 1}
    cleaner = CleanLearning(network, cv_n_folds=5, seed=seed, verbose=False, find_label_issues_kwargs=one_process)
    cleaner.fit(data.x, labels)
    issues = cleaner.get_label_issues()
    return Result(
        issues["label_quality"].to_numpy(np.float64),
        issues["is_label_issue"].to_numpy(bool),
        classes[issues["predicted_label"].to_numpy()],
        classes[cleaner.predict(data.x_test)],
    )


def measure(name: str, seed: int, tool: str, real: dict[str, Path]) -> dict[str, object]:
    """Return the numbers of one data set, seed and tool."""
    torch.set_num_threads(1)
    data = load_noisy_dataset(name, seed, real)
    _warm_up(tool)
    start, cpu_start = time.perf_counter(), time.process_time()
    result = (by_permll if tool == "permll" else by_cleanlab)(data, seed)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    given, truth = torch.from_numpy(data.given), torch.from_numpy(data.truth)
    flagged = torch.from_numpy(result.flagged)
    detection = measure_detection(torch.from_numpy(result.quality).float(), given != truth, flagged)
    after = torch.where(flagged, torch.from_numpy(result.proposed), given)
    correction = measure_correction(given, after, truth).to_dict()
    values = {
        "auroc": detection.auroc,
        "ap": detection.average_precision,
        "f1": detection.f1,
        "labels_before": correction["accuracy_before"],
        "labels": correction["accuracy_after"],
        "accuracy": float((result.predicted == data.y_test).mean()),
    }
    return {
        "set": name,
        "seed": seed,
        "who": tool,
        "rows": len(given),
        "flagged": int(result.flagged.sum()),
        **{key: f"{value:.4f}" for key, value in values.items()},
        "seconds": f"{seconds:.1f}",
        "cpu_seconds": f"{cpu_seconds:.1f}",  # does not depend on other processes
        "peak_mb": f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}",  # half of it is torch
    }


def _warm_up(tool: str) -> None:
    """Import all modules and train on tiny data, so that neither is measured."""
    generator = np.random.default_rng(0)
    x, y = generator.random((60, 2), dtype=np.float32), np.tile([0, 1], 30)
    (by_permll if tool == "permll" else by_cleanlab)(NoisyDataset(x, y, y, x, y), 0)


def measure_tools(name: str, seed: int, real: dict[str, Path]) -> list[dict[str, object]]:
    """Return the rows of both tools, each from a new process."""
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
        return [pool.submit(measure, name, seed, tool, real).result() for tool in TOOLS]


def table(rows: Iterable[dict[str, Any]]) -> str:
    """Return means and standard deviations as Markdown; the better tool is bold."""
    lines = ["| data | | " + " | ".join(NUMBERS.values()) + " |", "|---|---|" + "---:|" * len(NUMBERS)]
    rows = list(rows)
    for name, title in SETS.items():
        groups = {tool: [row for row in rows if row["set"] == name and row["who"] == tool] for tool in TOOLS}
        if not all(groups.values()):
            continue
        means = {tool: {key: _mean(groups[tool], key) for key in NUMBERS} for tool in TOOLS}
        for tool in TOOLS:
            cells = [_format(groups[tool], key, _is_better(means, tool, key)) for key in NUMBERS]
            lines.append(f"| {title if tool == TOOLS[0] else ''} | {tool} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _mean(rows: list[dict[str, Any]], key: str) -> float:
    return statistics.mean(float(row[key]) for row in rows)


def _is_better(means: dict[str, dict[str, float]], tool: str, key: str) -> bool:
    value, other = means[tool][key], means[TOOLS[1 - TOOLS.index(tool)]][key]
    return value < other if key in LOWER_IS_BETTER else value > other


def _format(rows: list[dict[str, Any]], key: str, bold: bool) -> str:
    values = [float(row[key]) for row in rows]
    if key in LOWER_IS_BETTER:
        text = f"{statistics.mean(values):.0f}"
    else:
        spread = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
        text = f"{100 * statistics.mean(values):.1f}{spread}"
    return f"**{text}**" if bold else text


def main() -> None:
    """Measure the missing cases and write the files."""
    args = parse_args(__doc__, "labelme", "trec")
    torch.set_num_threads(1)
    real = {name: path for name in ("labelme", "trec") if (path := getattr(args, name)) is not None}
    cases = [(name, seed) for seed in SEEDS for name in SETS if name in real or "-" in name or args.only_render]
    rows = update_csv(
        "cleaning", args, cases, lambda missing: (row for case in missing for row in measure_tools(*case, real))
    )
    text = table(rows)
    (RESULTS / "cleaning.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
