"""Ablation of PermLL+: each component is removed in turn, at tier mini, with pair flips, and on synthetic data.

python benchmarks/permll_plus_ablation.py                   trains what results/permll_plus_ablation.csv lacks
python benchmarks/permll_plus_ablation.py --only-render     trains nothing
python benchmarks/permll_plus_ablation.py --again           trains everything

The noise seeds are 100 and 101, which were used to choose the components; no other table has them. Accuracy is measured
on 10,000 training images that the runs do not use, not on the test images. "Few rows" are 1,080 synthetic samples of
eight classes with 512 features, similar to features of a pretrained network on a small data set. "Many classes" are 300
synthetic clusters of 27 samples, for 15 epochs.

Writes results/permll_plus_ablation.csv and results/permll_plus_ablation.md.
"""

import statistics
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cached_plan import parse_args
from benchmarks.clusters import make_clusters, split_first
from benchmarks.incremental_csv import run_parallel, update_csv
from benchmarks.timing import RESULTS
from permll.data import LabeledData, load
from permll.layer import label_noise, module, transition
from permll.layer.module import PermutationLayer
from permll.methods import permll_plus
from permll.training.data_preparation import prepare_data
from permll.training.recipe_files import resolve_recipe
from permll.training.train import train


class WithoutClassPrior(PermutationLayer):
    """The layer with q = π."""

    def _update_predicted_prior(self) -> None:
        pass


def nothing_grows(_: torch.Tensor, __: torch.Tensor, num_classes: int) -> tuple[torch.Tensor, bool]:
    """Return that every class is learned."""
    return torch.zeros(num_classes, dtype=torch.bool), False


def without_pairs(counts: torch.Tensor, frequencies: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """Return shares of wrong labels that follow the label frequencies."""
    _, is_symmetric = wrong_label_shares(counts, frequencies)
    return wrong_label_shares(torch.zeros_like(counts), frequencies)[0], is_symmetric


def least_weight(counts: torch.Tensor, _: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return that the smallest weight of the label frequencies fits best."""
    return torch.tensor([float(len(counts)), 256.0 * len(counts)]), torch.tensor([0.0, -1.0])


wrong_label_shares = transition.wrong_label_shares
Patch = dict[tuple[ModuleType, str], Any]  # new values of module attributes
CHOICES: dict[str, tuple[str, str, Patch]] = {
    "plus": ("PermLL+", "permll_plus", {}),
    "no-average": ("without averaged predictions", "permll_plus", {(module, "AVERAGING"): 1.0}),
    "no-prior": ("without a class prior", "permll_plus", {(permll_plus, "PermutationLayer"): WithoutClassPrior}),
    "given-prior": (
        "class prior of the given labels",
        "permll_plus",
        {(label_noise, "class_prior"): lambda _, frequencies, **__: frequencies},
    ),
    "no-influence": (
        "influence of labels not subtracted",
        "permll_plus",
        {(module, "INFLUENCE_ON_WRONG"): 0.0},
    ),
    "mean-influence": ("mean influence subtracted", "permll_plus", {(module, "INFLUENCE_ON_WRONG"): 1.0}),
    "full-trust": ("trust not limited", "permll_plus", {(label_noise, "MAX_TRUST"): 1.0}),
    "no-pairs": ("without pairs of classes in T", "permll_plus", {(transition, "wrong_label_shares"): without_pairs}),
    "least-smoothing": ("T smoothed by c counts", "permll_plus", {(transition, "smoothing_fits"): least_weight}),
    "no-warm-up": ("warm-up of one epoch", "permll_plus", {(module, "MEMORIZATION"): -1e9}),
    "no-waiting": ("without waiting for classes", "permll_plus", {(label_noise, "is_growing"): nothing_grows}),
    "fast-rows": ("eight times the step of δ", "permll_plus", {(module, "STEP_SIZE"): 2.0}),
    "no-rows": ("without δ", "permll_plus", {(module, "STEP_SIZE"): 0.0}),
    "ce": ("Cross-entropy", "ce", {}),
    "permll": ("PermLL", "permll", {}),
    "elr": ("ELR", "elr", {}),
}
NOISES = {
    "clean": "permll:sym:0",
    "sym-20": "permll:sym:0.2",
    "sym-40": "permll:sym:0.4",
    "sym-60": "permll:sym:0.6",
    "sym-80": "permll:sym:0.8",
    "asym-20": "permll:asym:0.2",
    "asym-40": "permll:asym:0.4",
    "pair-45": "permll:pair:0.45",
}
FEW_ROWS, MANY_CLASSES = "few rows, sym-25", "many classes, sym-40"
COLUMNS = (*NOISES, FEW_ROWS, MANY_CLASSES)
SEEDS = (100, 101)
METRICS = ("test_accuracy", "correction_accuracy_after")
NUM_UNSEEN = 10_000


@cache
def unseen_images(seed: int) -> LabeledData:
    """Return training images that a run with this seed does not use."""
    seeds = {"data.noise_seed": seed, "data.split_seed": seed}
    prepared = prepare_data(resolve_recipe("mini/sym-20", seeds))
    assert prepared.validation is not None
    used = {*prepared.train.ids, *prepared.validation.ids}
    data = load("fashion_mnist")
    unused = torch.tensor([row for row, id_ in enumerate(data.ids) if id_ not in used])
    chosen = torch.randperm(len(unused), generator=torch.Generator().manual_seed(seed))[:NUM_UNSEEN]
    return data.take(unused[chosen])


def train_args(noise: str, seed: int) -> dict[str, Any]:
    """Return data, recipe and noise of a column."""
    if noise == FEW_ROWS:
        train, test = split_first(make_clusters(8, 2400, 512, 0.28, seed), 1200)
        return {"data": train, "test": test, "recipe": "auto/default", "noise": "permll:sym:0.25"}
    if noise == MANY_CLASSES:
        train, test = split_first(make_clusters(300, 10_800, 64, 1.0, seed), 9000)
        return {"data": train, "test": test, "recipe": "auto/default", "noise": "permll:sym:0.4", "epochs": 15}
    return {"recipe": "mini/sym-20", "noise": NOISES[noise], "test": unseen_images(seed)}


def measure(name: str, seed: int) -> dict[str, object]:
    """Return the results of one choice in one column ("plus/sym-20")."""
    torch.set_num_threads(1)
    choice, noise = name.split("/")
    method, patch = CHOICES[choice][1:]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as patches:
        for (owner, attribute), value in patch.items():
            patches.callback(setattr, owner, attribute, getattr(owner, attribute))
            setattr(owner, attribute, value)
        run = train(
            method=method,
            **train_args(noise, seed),
            out=folder,
            seed=seed,
            callbacks=[],
            overrides={
                "data.noise_seed": seed,
                "data.split_seed": seed,
                "training.evaluate_every": 1000,
                "training.threads": 1,
            },
        )
        final = run.result["final"]
    return {"set": name, "seed": seed, **{key: f"{final[key]:.4f}" for key in METRICS}}


def table(rows: Iterable[dict[str, Any]]) -> str:
    """Return mean test accuracy and label accuracy of each choice as Markdown."""
    rows = list(rows)
    lines = ["| accuracy / labels right | " + " | ".join(COLUMNS) + " |", "|---|" + "---:|" * len(COLUMNS)]
    for choice, (title, *_) in CHOICES.items():
        cells = []
        for noise in COLUMNS:
            group = [row for row in rows if row["set"] == f"{choice}/{noise}"]
            means = [statistics.mean(100 * float(row[key]) for row in group) for key in METRICS] if group else []
            cells.append(" / ".join(f"{mean:.1f}" for mean in means) or "-")
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure the missing cases and write the files."""
    args = parse_args(__doc__)
    torch.set_num_threads(1)
    cases = [(f"{choice}/{noise}", seed) for seed in SEEDS for choice in CHOICES for noise in COLUMNS]
    text = table(update_csv("permll_plus_ablation", args, cases, partial(run_parallel, measure)))
    (RESULTS / "permll_plus_ablation.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
