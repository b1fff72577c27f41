"""Small data sets in every format, and runs on them with chosen findings."""

from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import permll
from permll.cleaning.source import load_source
from permll.findings import Findings
from permll.training.recipe_files import load_recipe
from permll.training.run import Run

ROWS = 24
CLASSES = ("cat", "dog", "owl")
Proposals = Mapping[str, tuple[str, float]]  # id -> class, probability
PROPOSALS = {"3": ("dog", 0.99), "4": ("owl", 0.96), "5": ("cat", 0.7)}  # of the run that tests share


def label_of(row: int) -> str:
    """Return the label of a row of every data set here."""
    return CLASSES[row % 3]


def feature_array() -> np.ndarray[Any, Any]:
    """Return features (24, 3) that depend on the labels."""
    generator = np.random.default_rng(0)
    return (generator.normal(size=(ROWS, 3)) + 3 * (np.arange(ROWS) % 3)[:, None]).round(3).astype(np.float32)


def csv_text(separator: str = ",", end: str = "\n") -> str:
    """Return a CSV file with an id column, numbers with leading and trailing zeros, and a label column ``kind``."""
    lines = ["name,code,size,kind"]
    lines += [f"n{row:02d},{row % 7:03d},{row / 7:.4f}0,{label_of(row)}" for row in range(ROWS)]
    return "".join(line.replace(",", separator) + end for line in lines)


def image_folder(root: Path) -> Path:
    """Write a folder of images with one subfolder per class; file names are the same in each."""
    for row in range(ROWS):
        folder = root / label_of(row)
        folder.mkdir(parents=True, exist_ok=True)
        pixels = np.full((12, 12, 3), 80 * (row % 3) + row, np.uint8)
        Image.fromarray(pixels).save(folder / f"{row // 3}.png")
    return root


def make_run(source: Path | str, out: Path, proposals: Proposals, **options: Any) -> Run:
    """Begin a run and save findings with these proposals; nothing is trained, and all other labels are correct."""
    changes = {f"data.options.{name}": value for name, value in options.items()}
    run = Run(out)
    run.begin(load_recipe("auto/default", {"data.source": str(source), **changes}), permll.data.load(source, **options))
    save_findings(run, proposals)
    return run


def train_run(source: Path | str, out: Path, proposals: Proposals, **options: Any) -> Run:
    """Train for an epoch, and replace the findings as in ``make_run``."""
    torch.set_num_threads(1)
    run = permll.train(str(source), "permll", out=out, epochs=1, callbacks=[], overrides={"data.options": options})
    save_findings(run, proposals)
    return run


def make_csv_run(folder: Path, proposals: Proposals) -> Path:
    """Write ``data.csv`` and its run to a folder that can be copied, since the run has a relative path."""
    with chdir(folder):
        Path("data.csv").write_text(csv_text())
        run = train_run("data.csv", Path("run"), proposals, label="kind")
        run.write_recipe(run.recipe.with_data(source="data.csv"), run.task)
    return folder


def make_memory_run(out: Path) -> Run:
    """Train on data in memory; the label of row 2 is an issue."""
    data = permll.data.load(feature_array(), labels=[label_of(row) for row in range(ROWS)])
    run = permll.train(data, "permll", out=out, epochs=1, callbacks=[])
    posterior = torch.nn.functional.one_hot((data.labels + (torch.arange(ROWS) == 2)) % 3, 3)
    Findings.from_posterior(data.ids, data.classes, data.labels, posterior).save(run.folder)
    return run


def save_findings(run: Run, proposals: Proposals) -> Findings:
    """Save findings of a run with these proposals."""
    data = load_source(run)
    posterior = np.full((len(data), data.num_classes), 0.02 / max(data.num_classes - 1, 1))
    posterior[np.arange(len(data)), data.labels.numpy()] = 0.98
    for name, (label, probability) in proposals.items():
        row = data.ids.index(name)
        posterior[row] = (1 - probability) / (data.num_classes - 1)
        posterior[row, data.classes.index(label)] = probability
    findings = Findings.from_posterior(data.ids, data.classes, data.labels.numpy(), posterior)
    findings.save(run.folder)
    return findings
