"""ANIMAL-10N: ten animals that are easily mistaken for one another in pairs, labelled by people in a hurry."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from permll.data.dataset import LabeledData
from permll.data.datasets import class_names as names
from permll.data.datasets.locate import below, find_files
from permll.data.decoding import OpenFile
from permll.data.inputs import Images, LazyImages
from permll.data.registry import find
from permll.data.verify import UnreadableError, unreadable
from permll.utils.messages import format_list

FOLDERS = {"train": "training", "test": "testing"}
SIDE = 64
_FILE = re.compile(r"(\d)_(\d+)\.jpe?g", re.IGNORECASE)


def load(root: Path, split: str) -> LabeledData:
    """Return ``"train"`` (people's labels) or ``"test"`` (cleaner), decoded into memory.

    Images lie in ``root``/training and ``root``/testing (or in ``root``/animal10n); the digit that a file name begins
    with is the label. Ids are paths, in the order of the number that follows.
    """
    info = find("animal10n")
    name = FOLDERS[info.known_split(split)]
    homes = below(root, "animal10n", "ANIMAL-10N", "Animal-10N", "raw_image")
    (folder,) = find_files(info, root, homes, (name,), there=Path.is_dir)
    files = _files(folder)
    pixels = _decode(folder, [file for file, _ in files])
    labels = torch.tensor([label for _, label in files])
    metadata = {"name": info.name, "split": split, "source": str(folder.parent), "files": [name]}
    ids = tuple(f"{name}/{file}" for file, _ in files)
    return LabeledData(Images(pixels), labels, names.ANIMAL10N, ids, metadata)


def _files(folder: Path) -> list[tuple[str, int]]:
    """Return file names and labels, in the order of the files' numbers."""
    present = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    parts = [(file, _FILE.fullmatch(file)) for file in present]
    strange = [file for file, match in parts if match is None]
    if strange or not present:
        what = format_list(strange, "file") if strange else "nothing"
        raise ValueError(f"{folder} must hold images called label_number.jpg, it holds {what}: unpack it again.")
    found = [(int(match[2]), file, int(match[1])) for file, match in parts if match is not None]
    return [(file, label) for _, file, label in sorted(found)]


def _decode(folder: Path, files: list[str]) -> torch.Tensor:
    """Return all images as uint8 (N, 3, 64, 64); what cannot be read, or has another size, is listed."""
    pixels = np.empty((len(files), 3, SIDE, SIDE), np.uint8)
    other: list[int] = []

    def keep(row: int, image: NDArray[Any]) -> None:
        if image.shape == pixels.shape[1:]:
            pixels[row] = image
        else:
            other.append(row)

    images = LazyImages(OpenFile(folder, tuple(files)), torch.arange(len(files)), SIDE)
    broken = unreadable(images, files, keep=keep)
    if broken:
        raise UnreadableError(folder, broken)
    if other:
        sizes = format_list([files[row] for row in sorted(other)], "image")
        raise ValueError(
            f"{folder} must hold images of {SIDE} x {SIDE}, but there is another size in {sizes}: unpack it again."
        )
    return torch.from_numpy(pixels)
