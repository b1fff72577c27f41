"""ANIMAL-10N: five pairs of animals that are easily confused, with noisy human labels."""

import re
from pathlib import Path

import torch

from permll.data.dataset import LabeledData
from permll.data.datasets import class_names
from permll.data.datasets.dataset_files import candidate_folders, find_files
from permll.data.decoding import FileOpener, UnreadableImagesError, decode_images
from permll.data.inputs import Images, LazyImages
from permll.data.registry import find_dataset
from permll.utils.messages import format_list

FOLDERS = {"train": "training", "test": "testing"}
SIZE = 64
_FILE_NAME = re.compile(r"(\d)_(\d+)\.jpe?g", re.IGNORECASE)


def load(root: Path, split: str) -> LabeledData:
    """Return ``"train"`` (noisy labels) or ``"test"`` (cleaner labels), decoded into memory.

    Images are in ``root``/training and ``root``/testing (or in ``root``/animal10n); the first digit of a file name is
    the label. Ids are paths, ordered by the number that follows.
    """
    info = find_dataset("animal10n")
    name = FOLDERS[info.check_split(split)]
    homes = candidate_folders(root, "animal10n", "ANIMAL-10N", "Animal-10N", "raw_image")
    (folder,) = find_files(info, root, homes, (name,), exists=Path.is_dir)
    files = _list_files(folder)
    pixels = _decode(folder, [file for file, _ in files])
    labels = torch.tensor([label for _, label in files])
    metadata = {"name": info.name, "split": split, "source": str(folder.parent), "files": [name]}
    ids = tuple(f"{name}/{file}" for file, _ in files)
    return LabeledData(Images(pixels), labels, class_names.ANIMAL10N, ids, metadata)


def _list_files(folder: Path) -> list[tuple[str, int]]:
    """Return file names and labels, ordered by the number in the name."""
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    matches = [(file, _FILE_NAME.fullmatch(file)) for file in names]
    unexpected = [file for file, match in matches if match is None]
    if unexpected or not names:
        content = format_list(unexpected, "file") if unexpected else "nothing"
        raise ValueError(f"{folder} must contain images named label_number.jpg, but has {content}: extract it again.")
    files = [(int(match[2]), file, int(match[1])) for file, match in matches if match is not None]
    return [(file, label) for _, file, label in sorted(files)]


def _decode(folder: Path, files: list[str]) -> torch.Tensor:
    """Return all images as uint8 (N, 3, 64, 64)."""
    images = LazyImages(FileOpener(folder, tuple(files)), torch.arange(len(files)), SIZE)
    decoded = decode_images(images, max_side=SIZE, max_bytes=3 * SIZE * SIZE * len(files))
    if decoded.errors:
        raise UnreadableImagesError(folder, {files[row]: reason for row, reason in decoded.errors.items()})
    other_sizes = (decoded.sizes != SIZE).any(1).nonzero()[0].tolist()
    if other_sizes or decoded.pixels is None:
        names = format_list([files[row] for row in other_sizes], "image")
        raise ValueError(
            f"{folder} must contain images of {SIZE} x {SIZE}, got another size for {names}: extract it again."
        )
    return torch.from_numpy(decoded.pixels)
