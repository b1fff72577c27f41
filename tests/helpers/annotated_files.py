"""A data set that several annotators labeled: a table of measurements with a column for each, or a table of answers."""

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.helpers.mislabeled_data import CLASSES, mislabeled

ACCURACY = {"ann_1": 0.9, "ann_2": 0.8, "ann_3": 0.75, "ann_4": 0.7, "ann_5": 0.3}
ANSWERS_PER_SAMPLE = 3


class Annotated(NamedTuple):
    """N samples with answers.

    Args:
        values: (N, 8) features.
        true: (N,) class numbers.
        answers: (N, 5) class numbers, -1 for none.
    """

    values: NDArray[np.float32]
    true: NDArray[np.int64]
    answers: NDArray[np.int64]

    def cells(self, row: int) -> list[str]:
        """Return the answers to a sample as class names, empty for none."""
        return [CLASSES[k] if k >= 0 else "" for k in self.answers[row].tolist()]


def annotated(rows: int = 240, seed: int = 0) -> Annotated:
    """Return samples with three answers each."""
    known, rng = mislabeled(rows), np.random.default_rng(seed)
    answers = np.full((rows, len(ACCURACY)), -1)
    for row, true in enumerate(known.true.tolist()):
        for a in rng.choice(len(ACCURACY), ANSWERS_PER_SAMPLE, replace=False).tolist():
            is_right = rng.random() < list(ACCURACY.values())[a]
            answers[row, a] = true if is_right else (true + rng.integers(1, len(CLASSES))) % len(CLASSES)
    return Annotated(known.values, known.true, answers)


def write_wide(folder: Path, data: Annotated) -> Path:
    """Write a table of measurements with a column for each annotator."""
    path = folder / "wide.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "size", "weight", "height", *ACCURACY])
        for row, values in enumerate(data.values.tolist()):
            writer.writerow([f"s{row}", *(f"{value:.3f}" for value in values[:3]), *data.cells(row)])
    return path


def write_long(folder: Path, data: Annotated) -> tuple[Path, Path]:
    """Write vectors without labels, and a table with a line for each answer."""
    vectors, path = folder / "vectors.npz", folder / "answers.csv"
    np.savez(vectors, X=data.values)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["item", "worker", "answer"])
        for row in range(len(data.true)):
            writer.writerows([row, name, cell] for name, cell in zip(ACCURACY, data.cells(row), strict=True) if cell)
    return vectors, path
