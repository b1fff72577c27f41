"""Runs with findings, on four kinds of data."""

import csv
from pathlib import Path
from typing import Any

import numpy as np

from permll.cleaning.review_decisions import Decisions
from permll.cleaning.source import load_source
from permll.data.loading import load
from permll.findings import Findings
from permll.review.session import ReviewSession
from permll.training.recipe_files import resolve_recipe
from permll.training.run import Run

ROWS = 40
CLASSES = ("bad", "good", "so <i>so</i>")
SCRIPT = "<script>document.title = 'broken'</script>"
KINDS = ("images", "texts", "table", "vectors")


def write_source(kind: str, folder: Path) -> Path:
    """Write a data set of 40 samples in 3 classes; return its path."""
    labels = [CLASSES[row % 3] for row in range(ROWS)]
    rng = np.random.default_rng(0)
    if kind == "images":
        from PIL import Image

        source = folder / "pictures"
        for row, label in enumerate(labels):
            folder_of_class = source / {"so <i>so</i>": "so-so"}.get(label, label)
            folder_of_class.mkdir(parents=True, exist_ok=True)
            pixels = rng.integers(0, 80, (24, 24, 3)) + 85 * np.eye(3)[row % 3]
            Image.fromarray(pixels.astype(np.uint8)).resize((120, 90)).save(folder_of_class / f"{row:02}.png")
        return source
    if kind == "vectors":
        source = folder / "vectors.npz"
        values = rng.normal(size=(ROWS, 12)) + np.eye(12)[np.arange(ROWS) % 3] * 4
        np.savez(source, X=values.astype(np.float32), y=np.array(labels))
        return source
    source = folder / f"{kind}.csv"
    with source.open("w", newline="") as file:
        writer = csv.writer(file)
        if kind == "texts":
            writer.writerow(["id", "text", "label"])
            for row, label in enumerate(labels):
                text = f"Review {row}: {SCRIPT} the film was {label}, said <b>critic</b> number {row} at some length."
                writer.writerow([f"<u>r{row}</u>", text, label])
        else:
            writer.writerow(["age", "town", "height", "label"])
            for row, label in enumerate(labels):
                town = ["Ulm", "Köln", "<b>Bonn</b>"][row % 3]
                writer.writerow([20 + row, town, "" if row == 0 else f"{150 + rng.integers(40)}.5", label])
    return source


def make_run(kind: str, folder: Path) -> Run:
    """Return a run with findings but without training, which a review does not need."""
    options: dict[str, Any] = {"texts": {"text": "text", "id": "id"}}.get(kind, {})
    source = str(write_source(kind, folder))
    run = Run(folder / "run")
    run.begin(resolve_recipe(None, {"data.source": source, "data.options": options}), load(source, **options))
    add_findings(run)
    return run


def add_findings(run: Run) -> Findings:
    """Write findings into a run: quality increases with the row; a third of the labels are flagged."""
    data = load_source(run)
    n, c = len(data), data.num_classes
    given = data.labels.numpy()
    quality = np.linspace(0.02, 0.98, n)
    posterior = np.tile(((1 - quality) / (c - 1))[:, None], (1, c)) * np.array([1.0] * c)
    posterior[np.arange(n), (given + 1) % c] += np.linspace(0.015, 0.001, n)  # the proposed class
    posterior[np.arange(n), given] = quality
    posterior /= posterior.sum(1, keepdims=True)
    neighbors = np.stack([(np.arange(n) + step) % n for step in (1, 2, 3)], 1)
    reasons = np.where(np.arange(n) < n // 3, 3, 0)
    findings = Findings.from_posterior(
        data.ids, data.classes, given, posterior, neighbors=neighbors, reasons=reasons, duplicates=((0, 3),)
    )
    findings.save(run.folder)
    return findings


def make_session(run: Run, folder: Path | None = None) -> ReviewSession:
    """Return the review of a run, with its decisions or those in another folder."""
    return ReviewSession(Findings.load(run.folder), load_source(run), Decisions(folder or run.folder))
