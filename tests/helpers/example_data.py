"""The data sets that README and docs name, with wrong labels: photos/, reviews.csv, table.parquet and features.npz."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from PIL import Image

from tests.helpers.mislabeled_data import CLASSES, Mislabeled

WORDS = (("river", "fish", "water", "boat"), ("sun", "sand", "heat", "palm"), ("snow", "ice", "frost", "sledge"))
COLORS = ("red", "green", "blue")
PHOTOS, REVIEWS, TABLE, FEATURES = "photos", "reviews.csv", "table.parquet", "features.npz"
STARS = dict(zip(CLASSES, "135", strict=True))  # classes of the reviews


def write_example(path: Path, data: Mislabeled, seed: int) -> None:
    """Write one of the data sets; samples are separable as a whole, but not by single pixels, words or cells."""
    rng = np.random.default_rng(seed)
    true = data.true.tolist()
    if path.suffix == "":
        for row, label in enumerate(data.labels):
            pixels = rng.integers(0, 100, (8, 8, 3)) + 20 * np.eye(3, dtype=int)[true[row]]
            (path / label).mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels.astype(np.uint8)).save(path / label / f"{row}.png")
    elif path.suffix == ".csv":
        vocabulary = [word for words in WORDS for word in words]
        texts = [" ".join([*rng.choice(WORDS[k], 5), *rng.choice(vocabulary, 4)]) for k in true]
        stars = [STARS[label] for label in data.labels]
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([("text", "stars"), *zip(texts, stars, strict=True)])
    elif path.suffix == ".parquet":
        columns: dict[str, list[Any]] = {f"size {column}": data.values[:, column].tolist() for column in range(8)}
        columns["color"] = [COLORS[k if rng.random() < 0.6 else rng.integers(3)] for k in true]
        for row in rng.permutation(len(true))[: len(true) // 3]:  # a third of the rows have a missing value
            columns[rng.choice(list(columns))][row] = None
        pl.DataFrame(columns | {"species": data.labels}).write_parquet(path)
    else:
        np.savez(path, X=data.values, y=np.array(data.labels))


def row_of(name: str) -> int:
    """Return the row of a sample in ``Mislabeled`` by its id: a row number, or the path of an image.

    Examples:
        >>> row_of("12"), row_of("ant/7.png"), row_of("bee/7-from-ant.png")
        (12, 7, 7)
    """
    return int(Path(name).stem.split("-")[0])


def class_in(path: Path, label: str) -> str:
    """Return how a data set names a class of ``Mislabeled``."""
    return STARS[label] if path.suffix == ".csv" else label
