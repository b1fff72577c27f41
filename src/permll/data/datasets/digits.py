"""scikit-learn's digits: 1,797 images of 8 x 8, at hand without a download."""

from pathlib import Path

import numpy as np
import torch

from permll.data.dataset import LabeledData
from permll.data.datasets import class_names as names
from permll.data.inputs import Images
from permll.data.registry import find


def load(root: Path, split: str) -> LabeledData:  # noqa: ARG001
    """Return ``"train"`` (1,347 images) or ``"test"`` (450), each with all ten digits in the same proportions.

    Every fourth image is a test image when they are sorted by digit, so the split depends on nothing. Ids are rows of
    scikit-learn's arrays. Grey values 0..16 become 0..255.

    Examples:
        >>> load(Path(), "test")
        Data(digits test: 450 samples, 10 classes, Images of 1 x 8 x 8)
    """
    from sklearn.datasets import load_digits

    split = find("digits").known_split(split)
    pixels, labels = load_digits(return_X_y=True)
    test = np.zeros(len(labels), dtype=bool)
    test[np.argsort(labels, kind="stable")[::4]] = True
    rows = np.flatnonzero(test if split == "test" else ~test)
    gray = np.round(pixels[rows] * (255 / 16)).astype(np.uint8).reshape(-1, 1, 8, 8)
    metadata = {"name": "digits", "split": split, "source": "scikit-learn"}
    ids = tuple(f"{row:04d}" for row in rows)
    return LabeledData(
        Images(torch.from_numpy(gray)), torch.from_numpy(labels[rows].astype(np.int64)), names.DIGITS, ids, metadata
    )
