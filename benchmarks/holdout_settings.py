"""PermLL+ in settings that were not used to develop it: other noise, real noise, rare classes, a hundred classes.

python benchmarks/holdout_settings.py --labelme labelme.npz --trec trec_rules.npz --features FEATURES.npz
python benchmarks/holdout_settings.py --only-render        trains nothing

permll.bench.real_noise describes the files of real noise; FEATURES contains x_train, y_train, x_test and y_test of
CIFAR-100. Fashion-MNIST uses the recipe of tier mini, the others auto/default; methods have the settings of their
recipes. Writes results/holdout_settings.csv, with a row per run, and results/holdout_settings.md.
"""

import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cached_plan import parse_args
from benchmarks.incremental_csv import run_parallel, update_csv
from benchmarks.timing import RESULTS
from permll.bench.jobs import NOISE_SEED_OFFSET
from permll.bench.real_noise import source_overrides, unpack
from permll.data import LabeledData, Vectors, load
from permll.methods import METHODS as METHOD_INFO
from permll.noise import Corruption, corrupt, named_noise
from permll.noise.instance import part_dependent
from permll.training.train import train

METHODS = ("ce", "gce", "sl", "elr", "selc", "elr_plus", "dividemix", "permll", "permll_plus")
SEEDS = (1, 2, 3)
ROWS, HELD_OUT = 11_000, 1_000  # as at tier mini
FEATURE_ROWS, FEATURE_EPOCHS = 10_000, 20  # as in benchmarks/sample_state.py
MIN_CLASS_RATIO = 0.1  # size of the rarest class relative to the most frequent one
TITLES = {"last": "accuracy", "right_after": "labels right"}
TrainArgs = dict[str, Any]  # arguments of permll.train; dotted keys are overrides


def instance_noise(folder: Path, draw: int) -> TrainArgs:
    """Return Fashion-MNIST with 40 % instance-dependent noise."""
    data = subsample_rows(load("fashion_mnist"), draw)
    pixels = data.inputs.batch(torch.arange(len(data))).numpy() / 255
    return on_mini(data, part_dependent(pixels, data.labels.numpy(), 10, 0.4, draw), folder)


def rare_classes(folder: Path, draw: int) -> TrainArgs:
    """Return Fashion-MNIST with class sizes that fall geometrically to a tenth, and 40 % symmetric noise."""
    data = load("fashion_mnist")
    ratios = MIN_CLASS_RATIO ** torch.linspace(0, 1, 10)
    counts = (ROWS * ratios / ratios.sum()).long()
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(draw))
    rows = torch.cat([order[data.labels[order] == label][:count] for label, count in enumerate(counts.tolist())])
    data = data.take(rows)
    noise = corrupt(data.labels.numpy(), named_noise("permll:sym:0.4", 10, data_set="fashion_mnist", seed=draw), draw)
    return on_mini(data, noise, folder)


def subsample_rows(data: LabeledData, draw: int) -> LabeledData:
    """Return a random subset of the size of tier mini."""
    return data.take(torch.randperm(len(data), generator=torch.Generator().manual_seed(draw))[:ROWS])


def on_mini(data: LabeledData, noise: Corruption, folder: Path) -> TrainArgs:
    """Return the arguments for images with the recipe of tier mini."""
    noise.save(folder / "noise.npz")
    return {
        "data": data,
        "recipe": "mini/sym-20",
        "test": load("fashion_mnist", split="test"),
        "noise": str(folder / "noise.npz"),
        "data.train": len(data) - HELD_OUT,
        "data.validation": HELD_OUT,
    }


def features(file: Path, noise: str, folder: Path, draw: int) -> TrainArgs:
    """Return features of CIFAR-100 with added noise."""
    with np.load(file) as arrays:
        x, y = (torch.from_numpy(arrays[f"{name}_train"]) for name in "xy")
        x_test, y_test = (torch.from_numpy(arrays[f"{name}_test"]) for name in "xy")
    chosen = torch.randperm(len(x), generator=torch.Generator().manual_seed(draw))[:FEATURE_ROWS]
    x, y = x[chosen].float(), y[chosen].long()
    corrupt(y.numpy(), named_noise(noise, 100, data_set="cifar100", seed=draw), draw).save(folder / "noise.npz")
    classes = tuple(str(number) for number in range(100))
    mean, spread = x.mean(0), x.std(0)
    train = LabeledData(Vectors((x - mean) / spread), y, classes, _ids("train", len(x)))
    test = LabeledData(Vectors((x_test.float() - mean) / spread), y_test.long(), classes, _ids("test", len(x_test)))
    return {
        "data": train,
        "recipe": "auto/default",
        "test": test,
        "noise": str(folder / "noise.npz"),
        "epochs": FEATURE_EPOCHS,
        "network.name": "mlp",
        "network.widths": [256],
        "training.batch_size": 128,
    }


def real_noise(file: Path, folder: Path, draw: int) -> TrainArgs:
    """Return a file of real noise, as in Table 2."""
    unpack(file, folder, draw)
    return {"recipe": "auto/default", **source_overrides(file, folder, draw)}


def settings(
    labelme: Path | None, trec: Path | None, features_file: Path | None
) -> dict[str, Callable[[Path, int], TrainArgs]]:
    """Return all settings by name."""
    builders: dict[str, Callable[[Path, int], TrainArgs]] = {
        "instance-40": instance_noise,
        "rare classes": rare_classes,
    }
    for name, noise in (("features, sym-60", "permll:sym:0.6"), ("features, asym-40", "permll:asym:0.4")):
        builders[f"CIFAR-100 {name}"] = partial(features, features_file or Path("features.npz"), noise)
    builders["LabelMe"] = partial(real_noise, labelme or Path("labelme.npz"))
    builders["TREC"] = partial(real_noise, trec or Path("trec_rules.npz"))
    return builders


def measure(name: str, seed: int, *, files: tuple[Path | None, ...]) -> dict[str, object]:
    """Return the results of a method in one setting ("ce/LabelMe")."""
    torch.set_num_threads(1)
    method, setting = name.split("/")
    draw = NOISE_SEED_OFFSET + seed
    with tempfile.TemporaryDirectory() as folder:
        train_args = settings(*files)[setting](Path(folder), seed if setting in ("LabelMe", "TREC") else draw)
        run = train(
            method=method,
            **{name: value for name, value in train_args.items() if "." not in name},
            out=Path(folder) / "run",
            seed=seed,
            callbacks=[],
            overrides={
                "data.split_seed": draw,
                **{name: value for name, value in train_args.items() if "." in name},
                "training.threads": 1,
                "training.evaluate_every": 1 if method == "ce" else 1000,
            },
        )
        result = run.result
    best = result["best_test"] if method == "ce" else ""
    right = result["final"]["correction_accuracy_after"]
    return {"set": name, "seed": seed, "last": result["last"], "best_test": best, "right_after": f"{right:.4f}"}


def table(rows: Iterable[dict[str, Any]]) -> str:
    """Return means and standard deviations over seeds as Markdown."""
    rows, names = list(rows), list(settings(None, None, None))
    lines = []
    for key, title in TITLES.items():
        lines += [f"| {title} | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
        if key == "last":
            best = [_mean_and_std(rows, "ce", name, "best_test") for name in names]
            lines.append("| Cross-entropy, best epoch | " + " | ".join(best) + " |")
        for method in METHODS:
            cells = [_mean_and_std(rows, method, name, key) for name in names]
            lines.append(f"| {METHOD_INFO[method].title} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def _mean_and_std(rows: Iterable[dict[str, Any]], method: str, name: str, key: str) -> str:
    values = [100 * float(row[key]) for row in rows if row["set"] == f"{method}/{name}"]
    return f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}" if len(values) > 1 else "-"


def _ids(name: str, rows: int) -> tuple[str, ...]:
    return tuple(f"{name}-{number}" for number in range(rows))


def main() -> None:
    """Measure the missing cases and write the files."""
    args = parse_args(__doc__, "labelme", "trec", "features")
    os.environ["OMP_NUM_THREADS"] = "1"
    files = (args.labelme, args.trec, args.features)
    cases = [(f"{method}/{name}", seed) for name in settings(*files) for method in METHODS for seed in SEEDS]
    rows = update_csv("holdout_settings", args, cases, partial(run_parallel, partial(measure, files=files)))
    (RESULTS / "holdout_settings.md").write_text(table(rows))
    print(table(rows))


if __name__ == "__main__":
    main()
