"""What PermLL+ owes to each of its parts: each is taken back in turn, at tier mini, with pair flips, and elsewhere.

python benchmarks/permll_plus_ablation.py                   trains what results/permll_plus_ablation.csv does not have yet
python benchmarks/permll_plus_ablation.py --only-render     trains nothing
python benchmarks/permll_plus_ablation.py --again           trains all of it

Noise seeds 100 and 101, with which the parts were chosen: no table of results has them. Accuracy is that on 10,000
training images that the runs do not have; the test images were not looked at. The few rows are 1,080 of eight classes
with 512 features, drawn here: what a pretrained network makes of a small set is like that. The many classes are 300
clusters of 27 rows, also drawn, for 15 epochs.

Written are results/permll_plus_ablation.csv and results/permll_plus_ablation.md.
"""

import statistics
import sys
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cached_plan import arguments
from benchmarks.clusters import clusters, first_and_rest
from benchmarks.incremental_csv import grow, in_processes
from benchmarks.timing import RESULTS
from permll.data import LabeledData, load
from permll.methods._base import PredictLogits
from permll.methods.permll_plus import PermLLPlus
from permll.training.data_preparation import prepare_data
from permll.training.recipe_files import resolve_recipe
from permll.training.train import train

PLUS = "permll_plus"
CHOICES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "plus": ("PermLL+", PLUS, {}),
    "no-memory": ("without a memory of predictions", PLUS, {"beta": 0.0}),
    "no-shares": ("without the classes' shares", PLUS, {"prior": "free"}),
    "given-shares": ("shares of the given labels", PLUS, {"prior": "given"}),
    "nothing-earned": ("the head start closes to 0", PLUS, {"earned": False}),
    "no-closing": ("the head start hardly closes", PLUS, {"close": 1.0}),
    "no-waiting": ("it closes as soon as the warm-up is over", "benchmarks.permll_plus_ablation:AtOnce", {}),
    "no-warm-up": ("without a warm-up", PLUS, {"warm_up": 0}),
    "no-heed": ("labels may be learned by heart", PLUS, {"by_heart": False}),
    "no-rows": ("rows that hardly move", PLUS, {"correct_after": 100.0}),
    "permll": ("PermLL", "permll", {}),
    "elr": ("ELR", "elr", {}),
}
NOISES = {
    "sym-20": "permll:sym:0.2",
    "sym-40": "permll:sym:0.4",
    "sym-60": "permll:sym:0.6",
    "sym-80": "permll:sym:0.8",
    "asym-20": "permll:asym:0.2",
    "asym-40": "permll:asym:0.4",
    "pair-45": "permll:pair:0.45",
}
FEW, MANY = "few rows, sym-25", "many classes, sym-40"
COLUMNS = (*NOISES, FEW, MANY)
SEEDS = (100, 101)
SHOWN = ("test_accuracy", "correction_accuracy_after")
UNSEEN = 10_000


@cache
def unseen(seed: int) -> LabeledData:
    """Return training images that a run with this seed does not have."""
    section = {"data.noise_seed": seed, "data.split_seed": seed}
    own = prepare_data(resolve_recipe("mini/sym-20", section))
    assert own.validation is not None
    used = {*own.train.ids, *own.validation.ids}
    whole = load("fashion_mnist")
    others = torch.tensor([row for row, name in enumerate(whole.ids) if name not in used])
    drawn = torch.randperm(len(others), generator=torch.Generator().manual_seed(seed))[:UNSEEN]
    return whole.take(others[drawn])


class AtOnce(PermLLPlus):
    """PermLL+ whose head start does not wait until the classes are known."""

    def on_epoch_end(self, epoch: int, predict_logits: PredictLogits) -> None:
        """Let every label have been better known an epoch ago."""
        self.previous_label_probs[1] = 1.0
        super().on_epoch_end(epoch, predict_logits)


def frame(noise: str, seed: int) -> dict[str, Any]:
    """Return what a cell of this column is trained and tested on."""
    if noise == FEW:
        train, test = first_and_rest(clusters(8, 2400, 512, 0.28, seed), 1200)
        return {"data": train, "test": test, "recipe": "auto/default", "noise": "permll:sym:0.25"}
    if noise == MANY:
        train, test = first_and_rest(clusters(300, 10_800, 64, 1.0, seed), 9000)
        return {"data": train, "test": test, "recipe": "auto/default", "noise": "permll:sym:0.4", "epochs": 15}
    return {"recipe": "mini/sym-20", "noise": NOISES[noise], "test": unseen(seed)}


def cell(name: str, seed: int) -> dict[str, object]:
    """Return what one choice comes to with one noise ("plus/sym-20")."""
    torch.set_num_threads(1)
    choice, noise = name.split("/")
    method, settings = CHOICES[choice][1:]
    with tempfile.TemporaryDirectory() as folder:
        run = train(
            method=method,
            **frame(noise, seed),
            out=folder,
            seed=seed,
            callbacks=[],
            overrides={
                **{f"method.{key}": value for key, value in settings.items()},
                "data.noise_seed": seed,
                "data.split_seed": seed,
                "training.evaluate_every": 1000,
                "training.threads": 1,
            },
        )
        final = run.result["final"]
    found = {key: f"{final[key]:.4f}" for key in SHOWN}
    return {"set": name, "seed": seed, **found}


def table(rows: Iterable[dict[str, Any]]) -> str:
    """Return accuracy and labels right after of every choice, the means over the seeds, as Markdown."""
    rows = list(rows)
    lines = ["| accuracy / labels right | " + " | ".join(COLUMNS) + " |", "|---|" + "---:|" * len(COLUMNS)]
    for choice, (title, *_) in CHOICES.items():
        shown = []
        for noise in COLUMNS:
            own = [row for row in rows if row["set"] == f"{choice}/{noise}"]
            means = [statistics.mean(100 * float(row[key]) for row in own) for key in SHOWN] if own else []
            shown.append(" / ".join(f"{mean:.1f}" for mean in means) or "-")
        lines.append(f"| {title} | " + " | ".join(shown) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure what is missing, and write."""
    args = arguments(__doc__)
    torch.set_num_threads(1)
    wanted = [(f"{choice}/{noise}", seed) for seed in SEEDS for choice in CHOICES for noise in COLUMNS]
    text = table(grow("plus_choices", args, wanted, lambda cells: in_processes(cell, cells)))
    (RESULTS / "plus_choices.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
