"""A folder of images, one sub-folder per class."""

import os
from pathlib import Path

import torch

from permll.data.decoding import OpenFile
from permll.data.inputs import LazyImages
from permll.data.readers.image_files import SUFFIXES
from permll.data.readers.types import RawData, ReadOptions, leave_out
from permll.utils.messages import format_list

_PARTS = {"train", "training", "val", "valid", "validation", "test", "testing", "dev"}


def find_folder(root: Path, asked: ReadOptions) -> RawData:
    """Return the images below ``root``; the class of each is the first part of its relative path, which is its id."""
    asked.refuse("label", "text", "image", "features", "id", "labels", "ids", what="a folder of images")
    names, others = image_names(root)
    if not names:
        _refuse_empty(root, others)
    loose = [name for name in names if "/" not in name]
    if len(loose) == len(names):
        raise ValueError(
            f"{root} holds {format_list(loose, 'image')} but no folder per class: sort them into folders named by class, or "
            "list them in a table with a label and an image column."
        )
    if loose and asked.no_label is None:
        raise ValueError(
            f"{root} holds {format_list(loose, 'image')} beside the class folders: move each into the folder of its class, "
            'or pass no_label="" to leave it out.'
        )
    left_out = [leave_out("image", "beside the class folders", loose)] if loose else []
    left_out += [leave_out("file", "no image, by its name", others)] if others else []
    if loose:
        names = [name for name in names if "/" in name]
    classes = [name.split("/")[0] for name in names]
    _refuse_folders(root, sorted(set(classes)))
    metadata = {
        "name": root.absolute().name,
        "kind": "images",
        "source": str(root),
        "label": "the first folder of each path",
        "left_out": left_out,
    }
    images = LazyImages(OpenFile(root.absolute(), tuple(names)), torch.arange(len(names)))
    return RawData(images, classes, names, metadata, noun="image")


def image_names(root: Path) -> tuple[list[str], list[str]]:
    """Return the images below ``root`` as sorted posix paths relative to it, and the other files; hidden ones never.

    Examples:
        >>> import tempfile
        >>> root = Path(tempfile.mkdtemp())
        >>> for name in ("b.PNG", "a.jpg", ".c.png", "notes.txt"):
        ...     (root / name).touch()
        >>> image_names(root)
        (['a.jpg', 'b.PNG'], ['notes.txt'])
    """
    images: list[str] = []
    others: list[str] = []
    seen: set[str] = set()  # links may lead in a circle
    for folder, folders, files in os.walk(root, followlinks=True):
        folders[:] = [
            name for name in folders if not _hidden(name) and os.path.realpath(Path(folder) / name) not in seen
        ]
        seen.update(os.path.realpath(Path(folder) / name) for name in [".", *folders])
        for name in files:
            if not _hidden(name):
                path = (Path(folder) / name).relative_to(root).as_posix()
                (images if path.lower().endswith(SUFFIXES) else others).append(path)
    return sorted(images), sorted(others)


def _hidden(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"  # what a Mac adds to archives


def _refuse_empty(root: Path, others: list[str]) -> None:
    if {"dataset_info.json", "state.json"} <= set(others):
        raise ValueError(
            f"{root} is a saved data set: load it with datasets.load_from_disk and pass what that returns."
        )
    there = f", only {format_list(others, 'other file')}: name the file itself if one is a table" if others else ""
    raise ValueError(f"{root} holds no images ({', '.join(SUFFIXES)}){there}.")


def _refuse_folders(root: Path, classes: list[str]) -> None:
    """Refuse class folders without images, and the parts of a data set taken for classes."""
    folders = sorted(path.name for path in root.iterdir() if path.is_dir() and not _hidden(path.name))
    empty = [name for name in folders if name not in classes]
    if empty:
        raise ValueError(f"there are no images in {format_list(empty, 'class folder')} of {root}: fill or remove them.")
    if {name.lower() for name in classes} <= _PARTS:
        raise ValueError(
            f"the folders of {root} are parts of a data set, not classes ({', '.join(classes)}): read one of them, "
            f"like {root / classes[0]}."
        )
