"""Small data sets with wrong labels in the formats that ``permll clean`` reads."""

import csv
from pathlib import Path

import numpy as np
from PIL import Image

from tests.helpers.mislabeled_data import mislabeled

KINDS = {  # arguments of permll clean
    "images": ["images"],
    "texts": ["texts.csv", "--text", "words", "--label", "kind"],
    "table": ["table.csv"],
    "vectors": ["vectors.npz"],
}
WORDS = (("river", "fish", "water", "boat"), ("sun", "sand", "heat", "palm"), ("snow", "ice", "frost", "sledge"))


def write_dataset(kind: str, folder: Path) -> set[str]:
    """Write a data set of 200 samples and return the ids of those with a wrong label."""
    known, rng = mislabeled(), np.random.default_rng(1)
    rows = list(zip(range(len(known.true)), known.true.tolist(), known.labels, strict=True))
    if kind == "images":
        for row, true, label in rows:
            pixels = rng.integers(0, 100, (8, 8, 3))
            pixels[..., true] += 120
            (folder / "images" / label).mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels.astype(np.uint8)).save(folder / "images" / label / f"{row:03}.png")
        return {f"{known.labels[row]}/{row:03}.png" for row in known.wrong}
    if kind == "vectors":
        np.savez(folder / "vectors.npz", X=known.values, y=np.array(known.labels))
    if kind == "texts":
        lines = [[" ".join(rng.choice([*WORDS[true], "the", "a"], 8)), label] for _, true, label in rows]
        save_csv(folder / "texts.csv", ["words", "kind"], lines)
    if kind == "table":
        colors = ("red", "green", "blue")
        cells = [
            [f"{rng.normal(3 * true, 0.3):.3f}", f"{rng.normal(-true, 0.3):.2f}", colors[true], label]
            for _, true, label in rows
        ]
        for row, cell in enumerate(rng.integers(0, 9, len(cells)).tolist()):
            if cell < 3:  # a third of the rows miss a value
                cells[row][cell] = ""
        save_csv(folder / "table.csv", ["size", "weight", "color", "label"], cells)
    return {str(row) for row in known.wrong}


def save_csv(path: Path, names: list[str], lines: list[list[str]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([names, *lines])
