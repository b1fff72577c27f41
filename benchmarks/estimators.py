"""``permll clean`` on tables and tf-idf texts: which classifier should check the labels, and cleanlab.

python benchmarks/estimators.py FILES                measures what results/estimators.csv lacks; for FILES see --help
python benchmarks/estimators.py --only-render        measures nothing
python benchmarks/estimators.py FILES --again        measures everything

- default: what ``permll clean`` takes by itself.
- perceptron: ``--estimator none``, a small network that PermLL trains.
- logistic regression, forest, gradient boosting: ``--estimator NAME``.
- cleanlab: quality and issues of out-of-sample probabilities from the same folds, by scikit-learn's logistic regression
  and random forest with their default settings, on standardized numbers and one-hot categories, or tf-idf.

Development used the noise seeds 11 to 13 and the other half of the texts with real noise. Each measurement is a process
with one thread. Requires cleanlab. Writes results/estimators.csv and results/estimators.md.
"""

import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cached_plan import parse_args
from benchmarks.cleaning import Result, evaluate
from benchmarks.incremental_csv import Row, update_csv
from benchmarks.mixed_tables import NoisySamples, load_noisy_samples
from benchmarks.noisy_datasets import NoisyDataset
from benchmarks.timing import RESULTS

FILES = ("trec", "ag_news")
SETS = {
    "customers-sym-20": "customers (generated), symmetric 20 %",
    "customers-pair-20": "customers (generated), asymmetric 20 %",
    "cancer-sym-20": "breast cancer with categories and empty cells, symmetric 20 %",
    "cancer-part-20": "breast cancer with categories and empty cells, instance-dependent 20 %",
    "breast-sym-10": "breast cancer, symmetric 10 %",
    "wine-sym-10": "wine, symmetric 10 %",
    "wine-part-20": "wine, instance-dependent 20 %",
    "digits-sym-20": "digits as a table, symmetric 20 %",
    "digits-pair-20": "digits as a table, asymmetric 20 %",
    "trec-sym-20": "TREC, symmetric 20 %",
    "trec-sym-30": "TREC, symmetric 30 %",
    "trec": "TREC rules",
    "ag_news": "NoisyAG-News",
}
SEEDS = (1, 2, 3)
TEST_HALF = 1
FOLDS = 5
FOLD_SEED = 100  # added to the seed of the noise: folds and noise must not be drawn by the same generator
TOOLS = {
    "default": "permll clean",
    "none": "perceptron",
    "logistic_regression": "logistic regression",
    "random_forest": "forest",
    "hist_gradient_boosting": "gradient boosting",
    "cleanlab_lr": "logistic regression + cleanlab",
    "cleanlab_forest": "forest + cleanlab",
}
TEXT_SETS = ("trec-sym-20", "trec-sym-30", "trec", "ag_news")
NOT_ON_TEXTS = ("random_forest", "hist_gradient_boosting")  # minutes
NUMBERS = {"ap": "AP", "f1": "F1 of the flag", "labels": "labels right after", "cpu_seconds": "processor s"}


class Timed(NamedTuple):
    """A result with the processor time that it took."""

    result: Result
    cpu_seconds: float


def by_permll(data: NoisySamples, seed: int, tool: str) -> Timed:
    """Run ``permll.clean`` on a data frame, as if it were read from a file."""
    from permll import clean

    frame = data.frame
    options: dict[str, Any] = {"text": "text", "encoder": "tfidf"} if "text" in frame else {}
    start = time.process_time()
    found = clean(
        frame,
        label="label",
        out=None,
        seed=seed,
        threads=1,
        callbacks=[],
        estimator=None if tool == "default" else tool,
        **options,
    )
    seconds = time.process_time() - start
    names = np.array([int(name.removeprefix("class ")) for name in found.classes])
    quality = found.label_quality.astype(np.float64)
    return Timed(Result(quality, found.is_issue, names[found.proposed_labels], rate=found.noise_rate), seconds)


def by_cleanlab(data: NoisySamples, seed: int, tool: str) -> Timed:
    """Apply cleanlab to the out-of-sample probabilities of a classifier with its default settings."""
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    from permll.cleaning.cross_validation import out_of_sample
    from permll.cleaning.estimators import fit_features
    from permll.cleaning.folds import assign_folds
    from permll.data.sample_digests import sample_digests

    start = time.process_time()
    classes, labels = np.unique(data.given, return_inverse=True)
    one: Any = LogisticRegression(max_iter=1000) if tool == "cleanlab_lr" else RandomForestClassifier(random_state=seed)
    fold = assign_folds(labels, FOLDS, seed, groups=list(sample_digests(data.inputs)))
    probs = np.empty((len(labels), len(classes)), np.float32)
    for _, rows, predicted in out_of_sample([fit_features(one, data.inputs)], labels, fold, len(classes)):
        probs[rows] = predicted
    quality: NDArray[np.float64] = get_label_quality_scores(labels, probs)
    flagged = find_label_issues(labels, probs, n_jobs=1)
    best = classes[probs.argmax(1)]
    return Timed(Result(quality, flagged, best, rate=float(flagged.mean())), time.process_time() - start)


def measure(name: str, seed: int, tool: str, files: dict[str, Path]) -> Row:
    """Return the numbers of one data set, seed and tool."""
    torch.set_num_threads(1)
    run = by_cleanlab if tool.startswith("cleanlab") else by_permll
    run(_tiny(), 0, tool)  # imports all modules, so that this is not measured
    data = load_noisy_samples(name, seed, files, TEST_HALF)
    timed = run(data, FOLD_SEED + seed, tool)
    nothing = np.zeros((0, 1), np.float32)
    row = evaluate(NoisyDataset(nothing, data.given, data.truth, nothing, data.truth), timed.result)
    kept = {key: row[key] for key in ("rows", "flagged", "auroc", "ap", "f1", "labels_before", "labels", "rate", "ece")}
    return {"set": name, "seed": seed, "who": tool, **kept, "cpu_seconds": f"{timed.cpu_seconds:.2f}"}


def _tiny() -> NoisySamples:
    from permll.data.inputs import Table

    generator, labels = np.random.default_rng(0), np.tile([0, 1], 30)
    return NoisySamples(Table({"x": generator.random(60), "z": generator.random(60)}), labels, labels)


def measure_all(cases: Iterable[tuple[str, int]], files: dict[str, Path], num_workers: int = 2) -> Iterator[Row]:
    """Yield the rows of cases; all tools of a case are measured before the next one."""
    with ProcessPoolExecutor(num_workers, get_context("spawn")) as pool:
        jobs = [[pool.submit(measure, *case, tool, files) for tool in tools_for(case[0])] for case in cases]
        for case in jobs:
            yield from [job.result() for job in case]


def tools_for(name: str) -> list[str]:
    """Return the tools that are measured on a set."""
    return [tool for tool in TOOLS if name not in TEXT_SETS or tool not in NOT_ON_TEXTS]


def table(rows: Iterable[Row]) -> str:
    """Return means and standard deviations over seeds as Markdown; the best tool of each set is bold.

    The last lines are means over the sets that all tools were measured on.
    """
    rows = list(rows)
    everywhere = set.intersection(*(set(tools_for(row["set"])) for row in rows)) if rows else set(TOOLS)
    lines = ["| data | | " + " | ".join(NUMBERS.values()) + " |", "|---|---|" + "---:|" * len(NUMBERS)]
    for name, title in [*SETS.items(), ("mean", "mean of all sets")]:
        of_set = [row for row in rows if name == row["set"] or (name == "mean" and row["who"] in everywhere)]
        values = {
            (tool, key): [float(row[key]) for row in of_set if row["who"] == tool]
            for tool in TOOLS
            for key in NUMBERS
            if any(row["who"] == tool for row in of_set)
        }
        for tool in dict.fromkeys(tool for tool, _ in values):
            cells = [_cell(values, tool, key, has_spread=name != "mean") for key in NUMBERS]
            lines.append(f"| {title if tool == 'default' else ''} | {TOOLS[tool]} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(values: dict[tuple[str, str], list[float]], tool: str, key: str, *, has_spread: bool) -> str:
    means = {other: float(np.mean(numbers)) for (other, other_key), numbers in values.items() if other_key == key}
    mean, is_time = means[tool], key == "cpu_seconds"
    text = f"{mean:.1f}" if is_time else f"{100 * mean:.1f}"
    text = f"**{text}**" if mean == (min if is_time else max)(means.values()) else text
    if is_time or not has_spread or len(values[tool, key]) < 2:
        return text
    return f"{text} ± {100 * float(np.std(values[tool, key], ddof=1)):.1f}"


def main() -> None:
    """Measure the missing cases and write the files."""
    args = parse_args(__doc__, *FILES)
    files = {name: path for name in FILES if (path := getattr(args, name)) is not None}
    needed = {name: name.partition("-")[0] for name in SETS if name.partition("-")[0] in FILES}
    names = [name for name in SETS if args.only_render or needed.get(name) in (None, *files)]
    cases = [(name, seed) for seed in SEEDS for name in names]
    rows = update_csv("estimators", args, cases, lambda missing: measure_all(missing, files))
    text = table(rows)
    (RESULTS / "estimators.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
