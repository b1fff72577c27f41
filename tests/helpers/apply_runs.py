"""Small data sets in every form, and runs that looked at them."""

from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import permll
from permll.cleaning.source_data import load_source
from permll.findings import Findings
from permll.training.run import Run

ROWS = 24
ANIMALS = ("cat", "dog", "owl")
PROPOSALS = {"3": ("dog", 0.99), "4": ("owl", 0.96), "5": ("cat", 0.7)}  # of the run that tests share


def animal(row: int) -> str:
    """Return the label of a row of every data set here."""
    return ANIMALS[row % 3]


def numbers() -> np.ndarray[Any, Any]:
    """Return features that go with the labels."""
    generator = np.random.default_rng(0)
    return (generator.normal(size=(ROWS, 3)) + 3 * (np.arange(ROWS) % 3)[:, None]).round(3).astype(np.float32)


def table_text(separator: str = ",", end: str = "\n") -> str:
    """Return a CSV file with an id column, odd numbers, and labels in a column called kind."""
    lines = ["name,code,size,kind"]
    lines += [f"n{row:02d},{row % 7:03d},{row / 7:.4f}0,{animal(row)}" for row in range(ROWS)]
    return "".join(line.replace(",", separator) + end for line in lines)


def image_folder(root: Path) -> Path:
    """Return a folder of images, with one sub-folder per class; names are the same in each."""
    for row in range(ROWS):
        folder = root / animal(row)
        folder.mkdir(parents=True, exist_ok=True)
        pixels = np.full((12, 12, 3), 80 * (row % 3) + row, np.uint8)
        Image.fromarray(pixels).save(folder / f"{row // 3}.png")
    return root


def make_run(source: Any, out: Path, proposals: Mapping[str, tuple[str, float]], **options: Any) -> Run:
    """Train for an epoch and write findings down: ``proposals`` (id -> class, probability), all else is right."""
    torch.set_num_threads(1)
    name = str(source) if isinstance(source, str | Path) else source
    run = permll.train(name, "permll", out=out, epochs=1, callbacks=[], overrides={"data.options": options or None})
    save_findings(run, proposals)
    return run


def table_and_run(folder: Path, proposals: Mapping[str, tuple[str, float]]) -> Path:
    """Put a table and a run that looked at it into a folder that can be copied: the run knows the table as data.csv."""
    with chdir(folder):
        Path("data.csv").write_text(table_text())
        make_run("data.csv", Path("run"), proposals, label="kind")
    return folder


def save_findings(run: Run, proposals: Mapping[str, tuple[str, float]]) -> Findings:
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
