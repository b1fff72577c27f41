"""``permll clean`` and other ways to find wrong labels, on the same features with the same network.

python benchmarks/cleaning.py FILES                  measures what results/cleaning.csv lacks; for FILES see --help
python benchmarks/cleaning.py --only-render          measures nothing
python benchmarks/cleaning.py FILES --again          measures everything

Network, optimizer, epochs and batch size are those of the recipe auto/clean for all that train:

- permll: ``permll.clean``, one training.
- out-of-sample predictions of cross-entropy, five trainings. From them: cleanlab (CleanLearning, with one more training
  without its issues), self-confidence (quality and flag p[y] <= 1/2), argmax (flag if the prediction differs), and
  permll.find_label_errors.
- AUM: the mean margin of the given label over the epochs of one training with cross-entropy; negative is a flag.
- neighbors: the labels of the ten nearest samples by cosine similarity, weighted by it; flag if another label wins.

Where real labels are wrong, one fixed half of the rows is used; the other half served development, as did the noise
seeds 11 to 13. Each measurement is a separate process with one thread. Requires cleanlab and the packages of
benchmarks/embeddings.py. Writes results/cleaning.csv, results/cleaning.md and docs/images/calibration.png.
"""

import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cached_plan import ROOT, parse_args
from benchmarks.incremental_csv import Row, update_csv
from benchmarks.noisy_datasets import NoisyDataset, load_noisy_dataset
from benchmarks.timing import RESULTS
from permll.evaluation.correction import measure_correction
from permll.evaluation.detection import measure_detection

FILES = ("labelme", "trec", "ag_news", "cifar100n", "features", "cifar10")
REAL_SETS = {
    "cifar100n": "CIFAR-100N, features",
    "labelme": "LabelMe",
    "trec": "TREC rules",
    "ag_news": "NoisyAG-News, tf-idf",
    "ag_news_minilm": "NoisyAG-News, MiniLM",
}
SETS = REAL_SETS | {
    "fashion-sym-20": "Fashion-MNIST, symmetric 20 %",
    "fashion-asym-30": "Fashion-MNIST, asymmetric 30 %",
    "fashion-part-30": "Fashion-MNIST, instance-dependent 30 %",
    "cifar10-sym-20": "CIFAR-10 features, symmetric 20 %",
    "cifar10-part-30": "CIFAR-10 features, instance-dependent 30 %",
    "cifar100-sym-40": "CIFAR-100 features, symmetric 40 %",
    "digits-sym-10": "digits, symmetric 10 %",
    "table-sym-10": "breast cancer table, symmetric 10 %",
}
NEEDED = {  # files of a set
    "cifar100n": ("cifar100n", "features"),
    "ag_news_minilm": ("ag_news",),
    "cifar10": ("cifar10",),
    "cifar100": ("features",),
}
SEEDS = (1, 2, 3)
TEST_HALF = 1
FOLDS = 5
NUM_NEIGHBORS = 10
TOOLS = {
    "permll": "permll clean",
    "cleanlab": "cleanlab",
    "find_label_errors": "find_label_errors",
    "argmax": "prediction differs",
    "self_confidence": "self-confidence",
    "aum": "AUM",
    "neighbors": "neighbors",
}
NUMBERS = {
    "auroc": "AUROC",
    "ap": "AP",
    "f1": "F1 of the flag",
    "labels": "labels right after",
    "auto": "after `--auto`",
    "rate": "rate estimated / true",
    "ece": "ECE",
    "accuracy": "test accuracy",
    "cpu_seconds": "processor s",
    "peak_mb": "peak MB",
}
SHORT_NUMBERS = ("ap", "f1", "labels", "rate")
BINS = np.linspace(0, 1, 11)


class Result(NamedTuple):
    """Findings on N labels; fields that a tool does not have are None."""

    quality: NDArray[np.float64]
    flagged: NDArray[np.bool_]
    proposed: NDArray[np.int64]
    after_auto: NDArray[np.int64] | None = None  # labels
    rate: float | None = None  # estimated fraction of wrong labels
    predicted: NDArray[np.int64] | None = None  # classes of the test set
    is_probability: bool = True  # whether the quality claims to be one


class Timed(NamedTuple):
    """A result with the processor time that it took."""

    result: Result
    cpu_seconds: float


def by_permll(data: NoisyDataset, seed: int) -> Iterator[tuple[str, Timed]]:
    """Run ``permll.clean``."""
    from permll import clean
    from permll.cleaning.apply.corrections import select_corrections
    from permll.data.inputs import Vectors
    from permll.training.predictor import load_predictor
    from permll.training.run import Run

    start = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        findings = clean(data.x, data.given, out=folder, seed=seed, callbacks=[], overrides={"training.threads": 1})
        seconds = time.process_time() - start
        names = np.array([int(name) for name in findings.classes])
        predicted = load_predictor(Run(folder)).predict(Vectors(torch.from_numpy(data.x_test))).argmax(1).numpy()
    after = data.given.copy()
    for correction in select_corrections(findings, {}, auto=True):
        after[correction.row] = int(correction.after)
    quality = findings.label_quality.astype(np.float64)
    proposed = names[findings.proposed_labels]
    rate = findings.noise_rate
    yield "permll", Timed(Result(quality, findings.is_issue, proposed, after, rate, names[predicted]), seconds)


def by_folds(data: NoisyDataset, seed: int) -> Iterator[tuple[str, Timed]]:
    """Predict the labels out of sample by cross-validation, and apply the tools that use such predictions."""
    from cleanlab.classification import CleanLearning
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    from permll import PermLLClassifier, find_label_errors

    start = time.process_time()
    classes, labels = np.unique(data.given, return_inverse=True)  # cleanlab requires 0 to c - 1
    network = PermLLClassifier(method="ce", validation_fraction=0, random_state=seed)  # no part needs to be held out
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    probs = cross_val_predict(network, data.x, labels, cv=folds, method="predict_proba")
    predicting = time.process_time() - start

    start = time.process_time()
    cleaner = CleanLearning(network, seed=seed, verbose=False, find_label_issues_kwargs={"n_jobs": 1})
    cleaner.fit(data.x, labels, pred_probs=probs)
    issues = cleaner.get_label_issues()
    seconds = predicting + time.process_time() - start
    quality, flagged = issues["label_quality"].to_numpy(np.float64), issues["is_label_issue"].to_numpy(bool)
    best = classes[probs.argmax(1)]
    predicted = classes[cleaner.predict(data.x_test)]
    yield "cleanlab", Timed(Result(quality, flagged, best, rate=flagged.mean(), predicted=predicted), seconds)

    own = probs[np.arange(len(labels)), labels]
    differs = best != data.given
    yield (
        "argmax",
        Timed(Result(own - probs.max(1), differs, best, rate=differs.mean(), is_probability=False), predicting),
    )
    yield "self_confidence", Timed(Result(own, own <= 0.5, best, rate=(own <= 0.5).mean()), predicting)

    start = time.process_time()
    findings = find_label_errors(labels, probs)
    quality, proposed = findings.label_quality.astype(np.float64), classes[findings.proposed_labels]
    result = Result(quality, findings.is_issue, proposed, rate=findings.noise_rate)
    yield "find_label_errors", Timed(result, predicting + time.process_time() - start)


def by_margin(data: NoisyDataset, seed: int) -> Iterator[tuple[str, Timed]]:
    """Average the margin of the given labels over the epochs of cross-entropy (Pleiss et al. 2020)."""
    from permll import PermLLClassifier
    from permll.training.callbacks import Callback
    from permll.training.trainer import Trainer

    classes, labels = np.unique(data.given, return_inverse=True)

    class Margins(Callback):
        total = np.zeros(len(labels))
        probs = np.zeros((len(labels), len(classes)))

        def on_epoch_end(self, trainer: Trainer, metrics: Any) -> None:  # noqa: ARG002
            p = trainer.predict(trainer.data).double().numpy()
            order = np.array([int(name) for name in trainer.data.ids])
            log_p = np.log(np.maximum(p, 1e-30))
            own = log_p[np.arange(len(p)), labels[order]].copy()
            log_p[np.arange(len(p)), labels[order]] = -np.inf
            self.total[order] += own - log_p.max(1)
            self.probs[order] += p

    from permll.estimator.fitting import fit
    from permll.estimator.preprocessing import fit_preprocessor

    start = time.process_time()
    network, margins = PermLLClassifier(method="ce", validation_fraction=0, random_state=seed), Margins()
    inputs = fit_preprocessor(data.x, seed)(data.x)
    encoded = torch.from_numpy(labels.astype(np.int64))
    fit(inputs, encoded, network._recipe(encoded, data.x.shape[1], seed), weights=None, callbacks=[margins])
    seconds = time.process_time() - start
    flagged = margins.total < 0
    proposed = classes[margins.probs.argmax(1)]
    yield "aum", Timed(Result(margins.total, flagged, proposed, rate=flagged.mean(), is_probability=False), seconds)


def by_neighbors(data: NoisyDataset, seed: int) -> Iterator[tuple[str, Timed]]:  # noqa: ARG001
    """Let the nearest samples vote, as in SimiFeat (Zhu et al. 2022)."""
    from permll.cleaning.similar_samples import nearest_rows

    start = time.process_time()
    x, given = torch.from_numpy(data.x), torch.from_numpy(data.given)
    x = torch.nn.functional.normalize((x - x.mean(0)) / x.std(0).clamp_min(1e-6), dim=1)
    votes = torch.zeros(len(x), int(given.max()) + 1)
    for rows in torch.arange(len(x)).split(1000):
        near = nearest_rows(x, rows, NUM_NEIGHBORS)
        similarity = torch.einsum("nkd,nd->nk", x[near], x[rows]).clamp_min(1e-6)
        votes[rows] = votes[rows].scatter_add_(1, given[near], similarity)
    votes /= votes.sum(1, keepdim=True)
    quality = votes.gather(1, given[:, None])[:, 0].double().numpy()
    flagged = (votes.argmax(1) != given).numpy()
    seconds = time.process_time() - start
    yield "neighbors", Timed(Result(quality, flagged, votes.argmax(1).numpy(), rate=flagged.mean()), seconds)


GROUPS: tuple[Callable[[NoisyDataset, int], Iterator[tuple[str, Timed]]], ...] = (
    by_permll,
    by_folds,
    by_margin,
    by_neighbors,
)


def measure(name: str, seed: int, group: int, files: dict[str, Path]) -> list[Row]:
    """Return the numbers of one data set, seed and group of tools."""
    torch.set_num_threads(1)
    data = load_noisy_dataset(name, seed, files, TEST_HALF)
    _warm_up(group)
    rows = []
    for tool, timed in GROUPS[group](data, seed):
        rows.append({"set": name, "seed": seed, "who": tool, **evaluate(data, timed.result)})
        rows[-1]["cpu_seconds"] = f"{timed.cpu_seconds:.1f}"  # does not depend on other processes
        rows[-1]["peak_mb"] = f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}"  # half of it is torch
    return rows


def evaluate(data: NoisyDataset, result: Result) -> Row:
    """Return the numbers of a result, as text; "" for those it does not have."""
    given, truth = torch.from_numpy(data.given), torch.from_numpy(data.truth)
    wrong, flagged = given != truth, torch.from_numpy(result.flagged)
    detection = measure_detection(_to_unit(result.quality), wrong, flagged)
    after = torch.where(flagged, torch.from_numpy(result.proposed), given)
    correction = measure_correction(given, after, truth).to_dict()
    changed = None if result.after_auto is None else result.after_auto != data.given
    numbers = {
        "auroc": detection.auroc,
        "ap": detection.average_precision,
        "f1": detection.f1,
        "labels_before": correction["accuracy_before"],
        "labels": correction["accuracy_after"],
        "auto": None if result.after_auto is None else float((result.after_auto == data.truth).mean()),
        "rate": None if result.rate is None else result.rate / float(wrong.double().mean()),
        "accuracy": None if result.predicted is None else float((result.predicted == data.y_test).mean()),
    }
    bins = np.digitize(result.quality, BINS[1:-1]) if result.is_probability else None
    right = ~wrong.numpy()
    counts, sums, hits = (
        (np.bincount(bins, weights, len(BINS) - 1) for weights in (None, result.quality, right))
        if bins is not None
        else (np.zeros(0),) * 3
    )
    numbers["ece"] = float(np.abs(sums - hits).sum() / len(right)) if bins is not None else None
    return {
        "rows": len(given),
        "flagged": int(flagged.sum()),
        "auto_changed": "" if changed is None else int(changed.sum()),
        "auto_broken": "" if changed is None else int((changed & right).sum()),
        **{key: "" if value is None else f"{value:.4f}" for key, value in numbers.items()},
        "bins": " ".join(f"{int(n)}:{s:.1f}:{int(h)}" for n, s, h in zip(counts, sums, hits, strict=True)),
    }


def _to_unit(scores: NDArray[np.float64]) -> torch.Tensor:
    """Return scores as their ranks in [0, 1]; equal ones stay equal."""
    unique, position = np.unique(scores, return_inverse=True)
    return torch.from_numpy(position / max(len(unique) - 1, 1))


def _warm_up(group: int) -> None:
    """Import all modules and train on tiny data, so that neither is measured."""
    generator = np.random.default_rng(0)
    x, y = generator.random((60, 2), dtype=np.float32), np.tile([0, 1], 30)
    list(GROUPS[group](NoisyDataset(x, y, y, x, y), 0))


def measure_all(cases: Iterable[tuple[str, int]], files: dict[str, Path], num_workers: int = 2) -> Iterator[Row]:
    """Yield the rows of cases, each group of tools from a new process."""
    with ProcessPoolExecutor(num_workers, get_context("spawn"), max_tasks_per_child=1) as pool:
        jobs = [[pool.submit(measure, *case, group, files) for group in range(len(GROUPS))] for case in cases]
        for case in jobs:
            for job in case:
                yield from job.result()


def table(rows: Iterable[Row], numbers: Iterable[str] = NUMBERS, tools: Iterable[str] = TOOLS) -> str:
    """Return means and standard deviations as Markdown; the best tool of each set is bold."""
    rows, numbers, tools = list(rows), list(numbers), list(tools)
    lines = ["| data | | " + " | ".join(NUMBERS[key] for key in numbers) + " |", "|---|---|" + "---:|" * len(numbers)]
    for name, title in SETS.items():
        groups = {tool: [row for row in rows if row["set"] == name and row["who"] == tool] for tool in tools}
        groups = {tool: group for tool, group in groups.items() if group}
        best = {key: _best(groups, key) for key in numbers}
        for tool, group in groups.items():
            cells = [f"**{_format(group, key)}**" if tool in best[key] else _format(group, key) for key in numbers]
            lines.append(f"| {title if tool == tools[0] else ''} | {TOOLS[tool]} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _best(groups: dict[str, list[Row]], key: str) -> set[str]:
    costs = {tool: _cost(value, key) for tool, group in groups.items() if (value := _mean(group, key)) is not None}
    return {tool for tool, cost in costs.items() if cost == min(costs.values())} if len(costs) > 1 else set()


def _cost(value: float, key: str) -> float:
    """Return a number that is lower for better values; a rate is best if it is the true one."""
    if key == "rate":
        return round(abs(float(np.log(max(value, 1e-9)))), 3)
    return value if key in ("cpu_seconds", "peak_mb", "ece") else -value


def _mean(rows: list[Row], key: str) -> float | None:
    values = [float(row[key]) for row in rows if row[key] != ""]
    return statistics.mean(values) if values else None


def _format(rows: list[Row], key: str) -> str:
    values = [float(row[key]) for row in rows if row[key] != ""]
    if not values:
        return ""
    if key in ("cpu_seconds", "peak_mb"):
        return f"{statistics.mean(values):.0f}"
    if key == "rate":
        return f"{statistics.mean(values):.2f}"
    spread = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * statistics.mean(values):.1f}{spread}"


def draw_calibration(rows: Iterable[Row], folder: Path) -> None:
    """Draw the fraction of correct labels by quality, for permll clean and cleanlab on each set."""
    from permll.report.figures.style import INK, figure_style, make_figure, panel_title, save

    rows = list(rows)
    with figure_style():
        figure = make_figure(9.0, 4.2)
        for position, tool in enumerate(("permll", "cleanlab")):
            axes = figure.add_subplot(1, 2, position + 1)
            axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=":")
            for name in SETS:
                bins = np.zeros((len(BINS) - 1, 3))
                for row in rows:
                    if row["set"] == name and row["who"] == tool:
                        bins += [[float(value) for value in one.split(":")] for one in row["bins"].split()]
                full = bins[:, 0] >= 30
                if full.any():
                    color, width = ("#c2452d", 1.6) if name in REAL_SETS else ("#4a7ba6", 1.0)
                    axes.plot(
                        bins[full, 1] / bins[full, 0], bins[full, 2] / bins[full, 0], color=color, linewidth=width
                    )
            axes.set(xlabel="label quality", ylabel="fraction of correct labels", xlim=(0, 1), ylim=(0, 1))
            panel_title(axes, "ab"[position], TOOLS[tool], "red: real noise, blue: drawn noise")
        save(figure, folder, "calibration")


def main() -> None:
    """Measure the missing cases and write the files."""
    args = parse_args(__doc__, *FILES)
    torch.set_num_threads(1)
    files = {name: path for name in FILES if (path := getattr(args, name)) is not None}
    names = [name for name in SETS if args.only_render or all(file in files for file in needed_files(name))]
    cases = [(name, seed) for seed in SEEDS for name in names]
    rows = update_csv("cleaning", args, cases, lambda missing: measure_all(missing, files))
    (RESULTS / "cleaning.md").write_text(table(rows))
    draw_calibration(rows, ROOT / "docs" / "images")
    print(table(rows, SHORT_NUMBERS))


def needed_files(name: str) -> tuple[str, ...]:
    """Return the files that a set needs."""
    return NEEDED.get(name, NEEDED.get(name.partition("-")[0], () if "-" in name else (name,)))


if __name__ == "__main__":
    main()
