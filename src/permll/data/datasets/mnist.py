"""MNIST and Fashion-MNIST, in their idx files, plain or gzipped."""

from pathlib import Path

import numpy as np
import torch

from permll.data.dataset import LabeledData
from permll.data.datasets import class_names as names
from permll.data.datasets.idx import read_idx
from permll.data.datasets.locate import check_range, find_files, row_ids
from permll.data.inputs import Images
from permll.data.registry import find

DEBIAN = Path("/usr/share/datasets/fashion-mnist")  # where the package dataset-fashion-mnist puts the files
_STEM = {"train": "train", "test": "t10k"}


def mnist(root: Path, split: str) -> LabeledData:
    """Return handwritten digits from ``root``/mnist or ``root``/MNIST/raw."""
    return _load("mnist", root, split, (root / "mnist", root / "MNIST" / "raw"), names.DIGITS)


def fashion_mnist(root: Path, split: str) -> LabeledData:
    """Return clothes from ``root``/fashion_mnist, /FashionMNIST/raw or /fashion-mnist, else Debian's package."""
    folders = (root / "fashion_mnist", root / "FashionMNIST" / "raw", root / "fashion-mnist", DEBIAN)
    return _load("fashion_mnist", root, split, folders, names.FASHION_MNIST)


def _load(name: str, root: Path, split: str, folders: tuple[Path, ...], classes: tuple[str, ...]) -> LabeledData:
    info = find(name)
    stem = _STEM[info.known_split(split)]
    files = (f"{stem}-images-idx3-ubyte", f"{stem}-labels-idx1-ubyte")
    paths = find_files(info, root, folders, files, endings=("", ".gz"))
    pixels, given = (read_idx(path) for path in paths)
    if pixels.ndim != 3 or given.shape != pixels.shape[:1]:
        raise ValueError(
            f"{paths[0]} and {paths[1].name} do not fit, shapes {pixels.shape} and {given.shape}: get both again."
        )
    labels = given.astype(np.int64)
    check_range(labels, len(classes), paths[1], info.how_to_get(root))
    metadata = {"name": name, "split": split, "source": str(paths[0].parent), "files": [path.name for path in paths]}
    return LabeledData(
        Images(torch.from_numpy(pixels[:, None])),
        torch.from_numpy(labels),
        classes,
        row_ids(split, len(labels)),
        metadata,
    )
