"""Ablation of the verdict on labels: each part is left out in turn, on the same predictions.

python benchmarks/verdict_ablation.py FILES          measures what the CSV file lacks; for FILES see --help
python benchmarks/verdict_ablation.py --only-render  measures nothing
python benchmarks/verdict_ablation.py FILES --again  measures everything

Each set is trained once with the recipe of permll clean. The noise seed and the halves of the rows with real noise are
those of development. Writes results/verdict_ablation.csv and results/verdict_ablation.md.
"""

import statistics
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import cross_val_predict
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cached_plan import parse_args
from benchmarks.cleaning import FILES, FOLDS, needed_files
from benchmarks.incremental_csv import run_parallel, update_csv
from benchmarks.noisy_datasets import load_noisy_dataset
from benchmarks.timing import RESULTS
from permll import clean
from permll.cleaning.apply.corrections import DEFAULT_MIN_PROBABILITY
from permll.evaluation.detection import average_precision, flag_score
from permll.functional import conservative, label_errors
from permll.functional.label_errors import LabelErrors, find_errors
from permll.functional.neighbors import add_votes, neighbor_votes
from permll.functional.transition_fit import fit_transition
from permll.training.run import Run

SETS = {
    "labelme": "LabelMe",
    "trec": "TREC rules",
    "ag_news": "NoisyAG-News, tf-idf",
    "ag_news_minilm": "NoisyAG-News, MiniLM",
    "cifar100n": "CIFAR-100N",
    "fashion-sym-20": "Fashion-MNIST, sym. 20 %",
    "fashion-sym-5": "Fashion-MNIST, sym. 5 %",
    "fashion-asym-30": "Fashion-MNIST, asym. 30 %",
    "fashion-asym-10": "Fashion-MNIST, asym. 10 %",
    "fashion-part-30": "Fashion-MNIST, instance 30 %",
    "fashion-sym-0": "Fashion-MNIST, clean",
    "digits-sym-10": "digits, sym. 10 %",
}
SEEDS = (11, 12, 13)
DEVELOPMENT_HALF = 0


def symmetric_transition(log_p: Tensor, labels: Tensor, power: float) -> Tensor:
    """Return the transition matrix of symmetric noise with the rate of ``fit_transition``."""
    fitted = fit_transition(log_p, labels, power)
    rate, classes = float(1 - fitted.diagonal().mean()), len(fitted)
    return torch.full_like(fitted, rate / (classes - 1)).fill_diagonal_(1 - rate)


VERDICT: dict[str, tuple[str, dict[str, Any]]] = {
    "all": ("as it is", {}),
    "no-neighbors": ("without neighbors", {}),
    "no-classes": ("T: symmetric noise", {"fit_transition": symmetric_transition}),
    "no-power": ("β = 1", {"fit_power": lambda *_: 1.0}),
    "low": ("issues: what T explains", {"disagreement_weight": lambda *_: 0.0}),
    "high": ("issues: the disagreement", {"disagreement_weight": lambda *_: 1.0}),
}
AUTOMATIC: dict[str, tuple[str, dict[str, Any]]] = {
    "auto": (f"as it is: from {DEFAULT_MIN_PROBABILITY} on", {}),
    "auto-no-errors": ("no confident errors", {"CONFIDENT_ERRORS": 0.0}),
    "auto-no-sharpening": ("power β", {"SHARPENING": 1.0}),
    "auto-rate": ("the estimated rate, not the lowest", {"_with_lowest_rate": lambda transition, *_: transition}),
}
THRESHOLDS = {f"auto-{value}": (f"from {value} on", value) for value in (0.75, 0.85, 0.9)}
LIMITS = {
    "auto-best": "limit: threshold chosen by the true labels",
    "auto-trained": "limit: order learned from the true labels, too",
}
MIN_PRECISION = 0.98  # of automatic changes


@contextmanager
def replaced(module: Any, changes: Mapping[str, Any]) -> Iterator[None]:
    """Replace attributes of a module inside the block."""
    before = {name: getattr(module, name) for name in changes}
    try:
        for name, value in changes.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


def measure(name: str, seed: int, files: Mapping[str, Path]) -> dict[str, object]:
    """Return the numbers of all choices on one data set."""
    torch.set_num_threads(1)
    data = load_noisy_dataset(name, seed, files, DEVELOPMENT_HALF)
    with tempfile.TemporaryDirectory() as folder:
        clean(data.x, data.given, out=folder, seed=seed, callbacks=[], overrides={"training.threads": 1})
        with np.load(Path(folder) / "predictions.npz") as saved:
            log_p, rows = torch.from_numpy(saved["best_mean"]).clamp_min(1e-12).log(), saved["ids"].astype(int)
        known = Run(folder).labels
    num_trained, names = len(known.ids), np.array([int(name) for name in known.classes])
    labels = torch.from_numpy(np.searchsorted(names, data.given[rows]))
    truth, right = torch.from_numpy(data.truth[rows]), torch.from_numpy(data.given[rows] == data.truth[rows])
    x = torch.from_numpy(data.x[rows])
    x = (x - x.mean(0)) / x.std(0).clamp_min(1e-6)
    with_votes = add_votes(log_p, neighbor_votes(x, labels, len(names)), labels)

    def proposals(errors: LabelErrors) -> Tensor:
        return torch.from_numpy(names)[errors.posterior.argmax(1)]

    numbers: dict[str, str] = {}
    for choice, (_, changes) in VERDICT.items():
        with replaced(label_errors, changes):
            errors = find_errors(log_p if choice == "no-neighbors" else with_votes, labels, num_trained)
        flagged = errors.quality <= 0.5
        after = torch.where(flagged, proposals(errors), torch.from_numpy(data.given[rows]))
        ap = average_precision(errors.quality, ~right)
        f1 = flag_score(flagged, ~right).f1
        numbers[choice] = " ".join("" if value is None else f"{value:.4f}" for value in (ap, f1, _mean(after == truth)))

    def count(errors: LabelErrors, changed: Tensor) -> str:
        fixed = changed & (proposals(errors) == truth)
        return f"{int(changed.sum())} {int(fixed.sum())} {int((changed & right).sum())}"

    def has_proposal(errors: LabelErrors) -> Tensor:
        return (errors.quality <= 0.5) & (proposals(errors) != torch.from_numpy(data.given[rows]))

    for choice, (_, changes) in AUTOMATIC.items():
        with replaced(conservative, changes):
            errors = find_errors(with_votes, labels, num_trained)
        numbers[choice] = count(errors, has_proposal(errors) & (errors.confidence >= DEFAULT_MIN_PROBABILITY))
    errors = find_errors(with_votes, labels, num_trained)
    candidates = has_proposal(errors)
    for choice, (_, value) in THRESHOLDS.items():
        numbers[choice] = count(errors, candidates & (errors.confidence >= value))
    orders = {
        "auto-best": errors.confidence,
        "auto-trained": learned_order(errors, with_votes, labels, candidates, right),
    }
    for choice, order in orders.items():
        numbers[choice] = count(errors, most_precise(order, candidates, right))
    found = int((candidates & (proposals(errors) == truth)).sum())
    return {"set": name, "seed": seed, "rows": len(rows), "wrong": int((~right).sum()), "found": found, **numbers}


def most_precise(order: Tensor, candidates: Tensor, right: Tensor) -> Tensor:
    """Return the largest set of candidates, highest first, of which at least ``MIN_PRECISION`` are wrong labels."""
    rows = candidates.nonzero()[:, 0]
    rows = rows[order[rows].argsort(descending=True)]
    precision = (~right[rows]).cumsum(0) / torch.arange(1, len(rows) + 1)
    enough = (precision >= MIN_PRECISION).nonzero()[:, 0]
    changed = torch.zeros_like(candidates)
    changed[rows[: int(enough[-1]) + 1 if len(enough) else 0]] = True
    return changed


def learned_order(errors: LabelErrors, log_p: Tensor, labels: Tensor, candidates: Tensor, right: Tensor) -> Tensor:
    """Return how probably each candidate is wrong, by a classifier that is trained on the true errors of the others."""
    order = torch.zeros(len(labels))
    counts = right[candidates].long().bincount(minlength=2)
    if counts.min() < FOLDS:
        return errors.confidence
    proposed = errors.posterior.argmax(1)
    columns = [errors.confidence, errors.quality, errors.posterior.amax(1), labels, proposed]
    columns += [log_p.gather(1, one[:, None])[:, 0] for one in (labels, proposed)]
    x = torch.cat([torch.stack([column.float() for column in columns], 1), log_p], 1)[candidates]
    model = HistGradientBoostingClassifier(learning_rate=0.05, max_leaf_nodes=8, random_state=0)
    probs = cross_val_predict(model, x.numpy(), ~right[candidates].numpy(), cv=FOLDS, method="predict_proba")
    order[candidates] = torch.from_numpy(probs[:, 1]).float()
    return order


def _mean(mask: Tensor) -> float:
    return float(mask.double().mean())


def table(rows: Iterable[dict[str, Any]]) -> str:
    """Return AP, F1 and correct labels of each choice, then the automatic changes, as Markdown: means over seeds."""
    rows = list(rows)
    head = "| " + " | ".join(SETS.values()) + " |\n|---|" + "---:|" * len(SETS)
    lines = ["| AP / F1 / labels right after " + head]
    for choice, (title, _) in VERDICT.items():
        lines.append(f"| {title} | " + " | ".join(_cell(rows, name, choice) for name in SETS) + " |")
    lines += ["", "| changed: repaired + broken " + head]
    found = [[int(row["found"]) for row in rows if row["set"] == name] for name in SETS]
    lines.append(
        "| flags with a correct proposal | " + " | ".join(f"{statistics.mean(one):.0f}" for one in found) + " |"
    )
    titles = {choice: title for choice, (title, _) in (AUTOMATIC | THRESHOLDS).items()} | LIMITS
    for choice, title in titles.items():
        cells = []
        for name in SETS:
            group = [[int(value) for value in row[choice].split()] for row in rows if row["set"] == name]
            mean = [statistics.mean(values) for values in zip(*group, strict=True)]
            cells.append(f"{mean[1]:.0f} + {mean[2]:.1f}" if mean else "")
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(rows: list[dict[str, Any]], name: str, choice: str) -> str:
    group = [row[choice].split(" ") for row in rows if row["set"] == name]
    columns = [[100 * float(value) for value in values if value] for values in zip(*group, strict=True)]
    return " / ".join(f"{statistics.mean(values):.1f}" if values else "-" for values in columns)


def main() -> None:
    """Measure the missing cases and write the files."""
    args = parse_args(__doc__, *FILES)
    torch.set_num_threads(1)
    files = {name: path for name in FILES if (path := getattr(args, name)) is not None}
    names = [name for name in SETS if args.only_render or all(file in files for file in needed_files(name))]
    cases = [(name, seed) for seed in SEEDS for name in names]
    rows = update_csv("verdict_ablation", args, cases, partial(run_parallel, partial(measure, files=files)))
    (RESULTS / "verdict_ablation.md").write_text(table(rows))
    print(table(rows))


if __name__ == "__main__":
    main()
