"""scikit-learn's digits: 1,797 images of 8 x 8."""

from pathlib import Path

import numpy as np
import torch

from permll.data.dataset import LabeledData
from permll.data.datasets import class_names
from permll.data.inputs import Images
from permll.data.registry import find_dataset


def load(root: Path, split: str) -> LabeledData:  # noqa: ARG001
    """Return ``"train"`` (1,347 images) or ``"test"`` (450), each with all ten digits in the same proportions.

    Every fourth image, sorted by digit, is a test image, so the split is fixed. Ids are rows of scikit-learn's arrays.
    Gray values 0..16 become 0..255.

    Examples:
        >>> load(Path(), "test")
        LabeledData(digits test: 450 samples, 10 classes, Images of 1 x 8 x 8)
    """
    from sklearn.datasets import load_digits

    split = find_dataset("digits").check_split(split)
    pixels, labels = load_digits(return_X_y=True)
    is_test = np.zeros(len(labels), dtype=bool)
    is_test[np.argsort(labels, kind="stable")[::4]] = True
    rows = np.flatnonzero(is_test if split == "test" else ~is_test)
    images = Images(torch.from_numpy(np.round(pixels[rows] * (255 / 16)).astype(np.uint8).reshape(-1, 1, 8, 8)))
    metadata = {"name": "digits", "split": split, "source": "scikit-learn"}
    ids = tuple(f"{row:04d}" for row in rows)
    return LabeledData(images, torch.from_numpy(labels[rows].astype(np.int64)), class_names.DIGITS, ids, metadata)
