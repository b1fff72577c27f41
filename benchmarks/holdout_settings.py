"""PermLL+ on what had no part in its making: other noise, real noise, rare classes, a hundred classes.

python benchmarks/holdout_settings.py --labelme labelme.npz --trec trec_rules.npz --features FEATURES.npz
python benchmarks/holdout_settings.py --only-render        trains nothing

The files of real noise are described in permll.bench.real_noise; FEATURES has x_train, y_train, x_test and y_test of
CIFAR-100. Fashion-MNIST has the frame of tier mini, the others that of one's own data; methods have the settings of
their recipes. Written are results/holdout_settings.csv, with a row for every run, and results/holdout_settings.md.
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

from benchmarks.cached_plan import arguments
from benchmarks.incremental_csv import grow, in_processes
from benchmarks.timing import RESULTS
from permll.bench.real_noise import changes_for, unpack
from permll.data import LabeledData, Vectors, load
from permll.methods import METHODS as RECORDS
from permll.noise import Corruption, corrupt, named_noise
from permll.noise.instance import part_dependent
from permll.training.train import train

METHODS = ("ce", "gce", "sl", "elr", "selc", "elr_plus", "dividemix", "permll", "permll_plus")
SEEDS = (1, 2, 3)
ROWS, HELD_OUT = 11_000, 1_000  # as at tier mini
FEATURE_ROWS, FEATURE_EPOCHS = 10_000, 20  # as in benchmarks/sample_state.py
FEWEST = 0.1  # rows of the rarest class, of those of the most frequent one
SHOWN = {"last": "accuracy", "right_after": "labels right"}
Frame = dict[str, Any]


def instance(folder: Path, draw: int) -> Frame:
    """Return Fashion-MNIST with labels that go wrong by what is in the image, 40 % of them."""
    data = subsample_rows(load("fashion_mnist"), draw)
    pixels = data.inputs.batch(torch.arange(len(data))).numpy() / 255
    return on_mini(data, part_dependent(pixels, data.labels.numpy(), 10, 0.4, draw), folder)


def rare(folder: Path, draw: int) -> Frame:
    """Return Fashion-MNIST whose classes get ever rarer, down to a tenth, with 40 % symmetric noise."""
    data = load("fashion_mnist")
    shares = FEWEST ** torch.linspace(0, 1, 10)
    counts = (ROWS * shares / shares.sum()).long()
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(draw))
    rows = torch.cat([order[data.labels[order] == label][:count] for label, count in enumerate(counts.tolist())])
    data = data.take(rows)
    drawn = corrupt(data.labels.numpy(), named_noise("permll:sym:0.4", 10, data_set="fashion_mnist", seed=draw), draw)
    return on_mini(data, drawn, folder)


def subsample_rows(data: LabeledData, draw: int) -> LabeledData:
    """Return as many rows as tier mini has."""
    return data.take(torch.randperm(len(data), generator=torch.Generator().manual_seed(draw))[:ROWS])


def on_mini(data: LabeledData, noise: Corruption, folder: Path) -> Frame:
    """Return what ``fit`` needs for images in the frame of tier mini."""
    noise.save(folder / "noise.npz")
    return {
        "data": data,
        "recipe": "mini/sym-20",
        "test": load("fashion_mnist", split="test"),
        "noise": str(folder / "noise.npz"),
        "data.train": len(data) - HELD_OUT,
        "data.validation": HELD_OUT,
    }


def features(file: Path, noise: str, folder: Path, draw: int) -> Frame:
    """Return features of CIFAR-100 with noise."""
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


def real(file: Path, folder: Path, draw: int) -> Frame:
    """Return a file of real noise, as in Table 2."""
    unpack(file, folder, draw)
    changes = changes_for(file, folder, draw)
    return {"recipe": "auto/default", **changes}


def settings(
    labelme: Path | None, trec: Path | None, features_file: Path | None
) -> dict[str, Callable[[Path, int], Frame]]:
    """Return everything that was held back, by name."""
    found: dict[str, Callable[[Path, int], Frame]] = {"instance-40": instance, "rare classes": rare}
    for name, noise in (("features, sym-60", "permll:sym:0.6"), ("features, asym-40", "permll:asym:0.4")):
        found[f"CIFAR-100 {name}"] = partial(features, features_file or Path("features.npz"), noise)
    found["LabelMe"] = partial(real, labelme or Path("labelme.npz"))
    found["TREC"] = partial(real, trec or Path("trec_rules.npz"))
    return found


def cell(name: str, seed: int, *, files: tuple[Path | None, ...]) -> dict[str, object]:
    """Return what a method comes to in one setting ("ce/LabelMe")."""
    torch.set_num_threads(1)
    method, setting = name.split("/")
    draw = 42 + seed  # as every cell of the benchmark
    with tempfile.TemporaryDirectory() as folder:
        frame = settings(*files)[setting](Path(folder), seed if setting in ("LabelMe", "TREC") else draw)
        every = 1 if method == "ce" else 1000
        run = train(
            method=method,
            **{name: value for name, value in frame.items() if "." not in name},
            out=Path(folder) / "run",
            seed=seed,
            callbacks=[],
            overrides={
                "data.split_seed": draw,
                **{name: value for name, value in frame.items() if "." in name},
                "training.threads": 1,
                "training.evaluate_every": every,
            },
        )
        result = run.result
    best = result["best_test"] if method == "ce" else ""
    right = result["final"]["correction_accuracy_after"]
    return {"set": name, "seed": seed, "last": result["last"], "best_test": best, "right_after": f"{right:.4f}"}


def table(rows: Iterable[dict[str, Any]]) -> str:
    """Return the means and spreads over the seeds, as Markdown."""
    rows, names = list(rows), list(settings(None, None, None))
    lines = []
    for key, title in SHOWN.items():
        lines += [f"| {title} | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
        if key == "last":
            best = [_spread(rows, "ce", name, "best_test") for name in names]
            lines.append("| Cross-entropy, best epoch | " + " | ".join(best) + " |")
        for method in METHODS:
            shown = [_spread(rows, method, name, key) for name in names]
            lines.append(f"| {RECORDS[method].title} | " + " | ".join(shown) + " |")
        lines.append("")
    return "\n".join(lines)


def _spread(rows: Iterable[dict[str, Any]], method: str, name: str, key: str) -> str:
    values = [100 * float(row[key]) for row in rows if row["set"] == f"{method}/{name}"]
    return f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}" if len(values) > 1 else "-"


def _ids(name: str, rows: int) -> tuple[str, ...]:
    return tuple(f"{name}-{number}" for number in range(rows))


def main() -> None:
    """Measure what is missing, and write."""
    args = arguments(__doc__, "labelme", "trec", "features")
    os.environ["OMP_NUM_THREADS"] = "1"
    files = (args.labelme, args.trec, args.features)
    wanted = [(f"{method}/{name}", seed) for name in settings(*files) for method in METHODS for seed in SEEDS]
    rows = grow("held_back", args, wanted, lambda cells: in_processes(partial(cell, files=files), cells))
    (RESULTS / "held_back.md").write_text(table(rows))
    print(table(rows))


if __name__ == "__main__":
    main()
