"""MNIST and Fashion-MNIST, in their idx files, plain or gzipped."""

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import torch
from numpy.typing import NDArray

from permll.data.dataset import LabeledData
from permll.data.datasets import class_names
from permll.data.datasets.dataset_files import find_files, row_ids
from permll.data.inputs import Images
from permll.data.registry import find_dataset
from permll.utils.validation import check_class_labels

DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")  # of the package dataset-fashion-mnist
_PREFIX = {"train": "train", "test": "t10k"}
_UNSIGNED_BYTE = 8


def mnist(root: Path, split: str) -> LabeledData:
    """Return MNIST from ``root``/mnist or ``root``/MNIST/raw."""
    return _load("mnist", root, split, (root / "mnist", root / "MNIST" / "raw"), class_names.DIGITS)


def fashion_mnist(root: Path, split: str) -> LabeledData:
    """Return Fashion-MNIST from ``root``/fashion_mnist, /FashionMNIST/raw or /fashion-mnist, or Debian's package."""
    folders = (root / "fashion_mnist", root / "FashionMNIST" / "raw", root / "fashion-mnist", DEBIAN_FOLDER)
    return _load("fashion_mnist", root, split, folders, class_names.FASHION_MNIST)


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Return the array in an idx file of unsigned bytes, plain or gzipped (by its suffix).

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "labels-idx1-ubyte"
        >>> _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]))
        >>> read_idx(path)
        array([7, 9], dtype=uint8)
    """
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        try:
            return _read(cast(BinaryIO, file), path)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path} is truncated or damaged ({error}): get it again.") from None


def _read(file: BinaryIO, path: Path) -> NDArray[np.uint8]:
    """Read a header with the shape, then the bytes."""
    magic = file.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] != _UNSIGNED_BYTE or not magic[3]:
        start = magic.hex(" ") or "nothing"
        raise ValueError(f"{path} is not an idx file of bytes: it begins with {start}; get it again.")
    sizes = file.read(4 * magic[3])
    if len(sizes) < 4 * magic[3]:
        raise ValueError(f"{path} is truncated in its header: get it again.")
    shape = struct.unpack(f">{magic[3]}I", sizes)
    expected = math.prod(shape)
    values = file.read(expected + 1)  # one more byte, to detect a file that is too long
    if len(values) != expected:
        header = 4 + len(sizes)
        actual = "more" if len(values) > expected else f"{header + len(values):,}"
        raise ValueError(
            f"{path} is truncated or damaged: its header announces {header + expected:,} bytes, it has {actual}; "
            "get it again."
        )
    return np.frombuffer(values, np.uint8).reshape(shape).copy()  # a copy, because bytes are read-only


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
    where = f"{paths[1]} is damaged: labels"
    check_class_labels(labels, len(classes), name=where, noun="record", hint=info.how_to_get(root))
    metadata = {"name": name, "split": split, "source": str(paths[0].parent), "files": [path.name for path in paths]}
    images, ids = Images(torch.from_numpy(pixels[:, None])), row_ids(split, len(labels))
    return LabeledData(images, torch.from_numpy(labels.astype(np.int64)), classes, ids, metadata)
