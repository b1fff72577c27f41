"""MNIST and Fashion-MNIST, in their idx files, plain or gzipped."""

from pathlib import Path

import numpy as np
import torch

from permll.data.dataset import LabeledData
from permll.data.datasets import class_names
from permll.data.datasets.idx import read_idx
from permll.data.datasets.locate import check_labels, find_files, row_ids
from permll.data.inputs import Images
from permll.data.registry import find_dataset

DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")  # of the package dataset-fashion-mnist
_PREFIX = {"train": "train", "test": "t10k"}


def mnist(root: Path, split: str) -> LabeledData:
    """Return MNIST from ``root``/mnist or ``root``/MNIST/raw."""
    return _load("mnist", root, split, (root / "mnist", root / "MNIST" / "raw"), class_names.DIGITS)


def fashion_mnist(root: Path, split: str) -> LabeledData:
    """Return Fashion-MNIST from ``root``/fashion_mnist, /FashionMNIST/raw or /fashion-mnist, or Debian's package."""
    folders = (root / "fashion_mnist", root / "FashionMNIST" / "raw", root / "fashion-mnist", DEBIAN_FOLDER)
    return _load("fashion_mnist", root, split, folders, class_names.FASHION_MNIST)


def _load(name: str, root: Path, split: str, folders: tuple[Path, ...], classes: tuple[str, ...]) -> LabeledData:
    info = find_dataset(name)
    prefix = _PREFIX[info.check_split(split)]
    files = (f"{prefix}-images-idx3-ubyte", f"{prefix}-labels-idx1-ubyte")
    paths = find_files(info, root, folders, files, suffixes=("", ".gz"))
    pixels, labels = (read_idx(path) for path in paths)
    if pixels.ndim != 3 or labels.shape != pixels.shape[:1]:
        raise ValueError(
            f"{paths[0]} and {paths[1].name} do not match, shapes {pixels.shape} and {labels.shape}: get both again."
        )
    check_labels(labels.astype(np.int64), len(classes), paths[1], info.how_to_get(root))
    metadata = {"name": name, "split": split, "source": str(paths[0].parent), "files": [path.name for path in paths]}
    images = Images(torch.from_numpy(pixels[:, None]))
    ids = row_ids(split, len(labels))
    return LabeledData(images, torch.from_numpy(labels.astype(np.int64)), classes, ids, metadata)
