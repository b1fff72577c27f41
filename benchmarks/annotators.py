"""Several annotators: consensus labels and their quality, by ``permll clean`` and others.

python benchmarks/annotators.py --labelme FILE     measures what results/annotators.csv lacks
python benchmarks/annotators.py --only-render      measures nothing
python benchmarks/annotators.py --labelme FILE --again

Sets: LabelMe (59 crowd workers, 2.5 answers for an image), and digits with 30 simulated annotators who are right with
40 to 95 % and give three answers for an image; in the second version, annotators agree on another class on a quarter
of the images. One half of LabelMe and seeds 1 to 3 are for the test, the other half and seeds 11 to 13 for development.

cleanlab uses the probabilities of five trainings with cross-entropy on its majority vote, on the same network as
permll. Requires cleanlab and crowd-kit. Writes results/annotators.csv and results/annotators.md.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cached_plan import parse_args
from benchmarks.incremental_csv import run_parallel, update_csv
from benchmarks.timing import RESULTS
from permll import PermLLClassifier, clean
from permll.evaluation.detection import average_precision
from permll.functional.multiple_annotators import Answers, dawid_skene
from permll.noise.annotators import NO_ANSWER, has_answer, majority_vote
from permll.utils.files import atomic_write_text

SETS = {"labelme": "LabelMe", "digits": "digits, independent", "digits-hard": "digits, hard images"}
TEST_SEEDS, DEVELOPMENT_SEEDS = (1, 2, 3), (11, 12, 13)
FOLDS = 5
ROWS, ANNOTATORS, ANSWERS_PER_SAMPLE = 1000, 30, 3
HARD_FRACTION, FOLLOWERS = 0.25, 0.6  # of the images, and of the annotators who answer their other class
METHODS = {
    "majority": "majority vote",
    "crowdkit": "Dawid-Skene of crowd-kit",
    "dawid_skene": "Dawid-Skene of permll",
    "network": "network of permll clean alone",
    "labels_only": "permll clean on the consensus labels",
    "cleanlab": "cleanlab multiannotator",
    "permll": "permll clean with annotators",
}
NUMBERS = ("labels right", "AP", "AP of own labels", "processor s")

Posterior = NDArray[np.float64]


class Data(NamedTuple):
    """N samples: features, answers (N, A) with -1 for none, and true classes."""

    x: NDArray[np.float32]
    answers: NDArray[np.int64]
    truth: NDArray[np.int64]


class Timed(NamedTuple):
    """Probabilities (N, c) of the classes, and the processor time that they took."""

    probs: Posterior
    seconds: float


def load_set(name: str, seed: int, labelme: Path) -> Data:
    """Return a data set by name."""
    if name == "labelme":
        with np.load(labelme) as file:
            data = Data(*(file[key] for key in ("x_train", "answers", "y_train")))
        half = 1 if seed in TEST_SEEDS else 0
        rows = np.sort(np.array_split(np.random.default_rng(0).permutation(len(data.truth)), 2)[half])
        rows = rows[has_answer(data.answers)[rows]]
        return Data(
            data.x[rows].astype(np.float32), data.answers[rows].astype(np.int64), data.truth[rows].astype(np.int64)
        )
    x, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(y))[:ROWS]
    return Data((x[rows] / 16).astype(np.float32), simulate_answers(y[rows], rng, hard=name == "digits-hard"), y[rows])


def simulate_answers(truth: NDArray[np.int64], rng: np.random.Generator, *, hard: bool) -> NDArray[np.int64]:
    """Return three answers per sample (N, A) of annotators with different accuracies."""
    classes = int(truth.max()) + 1
    accuracy = rng.uniform(0.4, 0.95, ANNOTATORS)
    answers = np.full((len(truth), ANNOTATORS), NO_ANSWER)
    other = (truth + rng.integers(1, classes, len(truth))) % classes
    is_hard = hard & (rng.random(len(truth)) < HARD_FRACTION)
    for row, true in enumerate(truth):
        for a in rng.choice(ANNOTATORS, ANSWERS_PER_SAMPLE, replace=False):
            answers[row, a] = true if rng.random() < accuracy[a] else rng.integers(classes)
            if is_hard[row] and rng.random() < FOLLOWERS:
                answers[row, a] = other[row]
    return answers


def by_people(data: Data, classes: int, seed: int) -> dict[str, Timed]:
    """Return the consensus of the answers alone."""
    import pandas as pd
    from crowdkit.aggregation import DawidSkene

    start = time.process_time()
    vote = majority_vote(data.answers, classes, seed=seed)
    shares = np.stack([(data.answers == k).sum(1) for k in range(classes)], 1).astype(float)
    shares[np.arange(len(vote)), vote] += 0.5  # the tie break
    found = {"majority": Timed(shares / shares.sum(1, keepdims=True), time.process_time() - start)}

    start = time.process_time()
    samples, workers = np.nonzero(data.answers != NO_ANSWER)
    frame = pd.DataFrame({"task": samples, "worker": workers, "label": data.answers[samples, workers]})
    probs = DawidSkene(n_iter=100).fit_predict_proba(frame).reindex(index=range(len(vote)), columns=range(classes))
    found["crowdkit"] = Timed(probs.fillna(0).to_numpy(), time.process_time() - start)

    start = time.process_time()
    posterior = dawid_skene(Answers.from_table(torch.from_numpy(data.answers), classes)).posterior
    found["dawid_skene"] = Timed(posterior.numpy(), time.process_time() - start)
    return found


def by_permll(data: Data, classes: int, seed: int, consensus: NDArray[np.int64]) -> dict[str, Timed]:
    """Return ``permll clean`` with the answers, with their consensus only, and its network alone."""
    found: dict[str, Timed] = {}
    inputs: dict[str, dict[str, Any]] = {"permll": {"annotations": data.answers}, "labels_only": {"labels": consensus}}
    options: dict[str, Any] = {"seed": seed, "callbacks": [], "overrides": {"training.threads": 1}}
    for name, labels in inputs.items():
        start = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            findings = clean(data.x, **labels, out=folder, **options)
            seconds = time.process_time() - start
            with np.load(Path(folder) / "predictions.npz") as saved:
                predicted, rows = saved["best_mean"].astype(float), saved["ids"].astype(int)
        numbers = np.array([int(one) for one in findings.classes])
        probs = np.zeros((len(data.truth), classes))
        np.put_along_axis(probs, numbers[findings.top_classes], findings.top_probs.astype(float), 1)
        found[name] = Timed(probs, seconds)
        if name == "permll":
            network = np.zeros_like(probs)
            network[rows[:, None], numbers[None]] = predicted
            found["network"] = Timed(network, seconds)
    return found


def by_cleanlab(data: Data, seed: int) -> tuple[Timed, NDArray[np.int64], Posterior, NDArray[np.int64]]:
    """Return the majority vote of cleanlab with its quality; then its best consensus with its quality."""
    from cleanlab.multiannotator import get_label_quality_multiannotator, get_majority_vote_label
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    start = time.process_time()
    table = np.where(data.answers == NO_ANSWER, np.nan, data.answers.astype(float))
    labels = get_majority_vote_label(table, verbose=False)
    network = PermLLClassifier(method="ce", validation_fraction=0, random_state=seed)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    probs = cross_val_predict(network, data.x, labels, cv=folds, method="predict_proba")
    results = {}
    for method in ("majority_vote", "best_quality"):
        found = get_label_quality_multiannotator(table, probs, consensus_method=method, verbose=False)
        quality = found["label_quality"]
        results[method] = (
            quality["consensus_label"].to_numpy(np.int64),
            quality["consensus_quality_score"].to_numpy(np.float64),
        )
    seconds = time.process_time() - start
    (vote, vote_quality), (best, best_quality) = results["majority_vote"], results["best_quality"]
    return Timed(best_quality, seconds), best, vote_quality, vote


def measure(name: str, seed: int, labelme: Path) -> dict[str, object]:
    """Return the numbers of all methods on one data set."""
    torch.set_num_threads(1)
    data = load_set(name, seed, labelme)
    classes = int(data.truth.max()) + 1
    found = by_people(data, classes, seed)
    found |= by_permll(data, classes, seed, found["dawid_skene"].probs.argmax(1))
    cleanlab, best, vote_quality, vote = by_cleanlab(data, seed)
    is_wrong, rows = vote != data.truth, np.arange(len(vote))
    numbers: dict[str, str] = {}
    for method in METHODS:
        if method == "cleanlab":
            labels, quality, of_vote, seconds = best, cleanlab.probs, vote_quality, cleanlab.seconds
        else:
            probs, seconds = found[method]
            labels, quality, of_vote = probs.argmax(1), probs.max(1), probs[rows, vote]
        values = (
            (labels == data.truth).mean(),
            _average_precision(of_vote, is_wrong),
            _average_precision(quality, labels != data.truth),
            seconds,
        )
        numbers[method] = " ".join(f"{value:.4f}" for value in values)
    return {"set": name, "seed": seed, "rows": len(vote), "wrong": int(is_wrong.sum()), **numbers}


def _average_precision(quality: Posterior, wrong: NDArray[np.bool_]) -> float:
    value = average_precision(torch.from_numpy(quality).clamp(0, 1), torch.from_numpy(wrong))
    return np.nan if value is None else value


def table(rows: Iterable[dict[str, Any]], seeds: tuple[int, ...] = TEST_SEEDS) -> str:
    """Return the numbers of some seeds as Markdown: mean and standard deviation."""
    rows = [row for row in rows if int(row["seed"]) in seeds]
    lines = []
    for name, title in SETS.items():
        group = [row for row in rows if row["set"] == name]
        lines += [f"| {title} | " + " | ".join(NUMBERS) + " |", "|---|" + "---:|" * len(NUMBERS)]
        for method, method_title in METHODS.items():
            columns = list(zip(*([float(value) for value in row[method].split()] for row in group), strict=True))
            *percent, seconds = columns
            cells = [f"{100 * statistics.mean(one):.1f} ± {100 * statistics.stdev(one):.1f}" for one in percent]
            lines.append(f"| {method_title} | " + " | ".join([*cells, f"{statistics.mean(seconds):.1f}"]) + " |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Measure the missing cases and write the files."""
    args = parse_args(__doc__, "labelme")
    torch.set_num_threads(1)
    names = [name for name in SETS if name != "labelme" or args.labelme or args.only_render]
    cases = [(name, seed) for name in names for seed in (*TEST_SEEDS, *DEVELOPMENT_SEEDS)]
    rows = update_csv("annotators", args, cases, partial(run_parallel, partial(measure, labelme=args.labelme)))
    text = table(rows)
    atomic_write_text(RESULTS / "annotators.md", text)
    print(text, "Development\n", table(rows, DEVELOPMENT_SEEDS), sep="\n")


if __name__ == "__main__":
    main()
