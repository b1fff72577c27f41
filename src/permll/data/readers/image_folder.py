"""Reader of image folders with one sub-folder per class."""

import os
from pathlib import Path

import torch

from permll.data.decoding import FileOpener
from permll.data.inputs import LazyImages
from permll.data.readers.folder_history import HISTORY_FILE, read_history, reviewed_images
from permll.data.readers.image_files import SUFFIXES
from permll.data.readers.options import ReadOptions
from permll.data.readers.raw_data import RawData, left_out_entry
from permll.utils.messages import format_list

_SPLITS = {"train", "training", "val", "valid", "validation", "test", "testing", "dev"}


def read_image_folder(root: Path, options: ReadOptions) -> RawData:
    """Read the images in ``root``; the class is the first part of the relative path, which is the id.

    Labels that a person reviewed, by the ``decisions.csv`` of ``permll apply``, are gold.
    """
    options.reject("label", "text", "image", "features", "id", "labels", "ids", source="a folder of images")
    names, other_files = list_images(root)
    history = read_history(root)
    if history is not None:
        other_files.remove(HISTORY_FILE)
    if not names and {"dataset_info.json", "state.json"} <= set(other_files):
        raise ValueError(f"{root} is a saved Hugging Face dataset: pass datasets.load_from_disk({str(root)!r}).")
    if not names:
        files = format_list(other_files, "other file")
        other = f", only {files}: give the path of the file if one is a table" if other_files else ""
        raise ValueError(f"{root} contains no images ({', '.join(SUFFIXES)}){other}.")
    loose = [name for name in names if "/" not in name]
    if len(loose) == len(names):
        raise ValueError(
            f"{root} contains {format_list(loose, 'image')} but no class folders: sort them into one folder per class, "
            "or list them in a table with a label and an image column."
        )
    if loose and options.no_label is None:
        raise ValueError(
            f"{root} contains {format_list(loose, 'image')} outside the class folders: move each into a class folder, "
            'or pass no_label="" to leave them out.'
        )
    left_out = [left_out_entry("image", "outside the class folders", loose)] if loose else []
    left_out += [left_out_entry("file", "not an image file", other_files)] if other_files else []
    names = [name for name in names if "/" in name]
    classes = [name.split("/")[0] for name in names]
    _check_folders(root, sorted(set(classes)))
    metadata = {
        "name": root.absolute().name,
        "kind": "images",
        "source": str(root),
        "label": "the first folder of each path",
        "left_out": left_out,
    }
    images = LazyImages(FileOpener(root.absolute(), tuple(names)), torch.arange(len(names)))
    gold = None if history is None else reviewed_images(names, history)
    return RawData(images, classes, names, metadata, noun="image", gold=gold)


def list_images(root: Path) -> tuple[list[str], list[str]]:
    """Return the images in ``root`` as sorted relative posix paths, and the other files; hidden files are ignored.

    Examples:
        >>> import tempfile
        >>> root = Path(tempfile.mkdtemp())
        >>> for name in ("b.PNG", "a.jpg", ".c.png", "notes.txt"):
        ...     (root / name).touch()
        >>> list_images(root)
        (['a.jpg', 'b.PNG'], ['notes.txt'])
    """
    images: list[str] = []
    other_files: list[str] = []
    visited: set[str] = set()  # symbolic links may form a cycle
    for folder, folders, files in os.walk(root, followlinks=True):
        folders[:] = [
            name for name in folders if not _is_hidden(name) and os.path.realpath(Path(folder) / name) not in visited
        ]
        visited.update(os.path.realpath(Path(folder) / name) for name in [".", *folders])
        for name in files:
            if not _is_hidden(name):
                path = (Path(folder) / name).relative_to(root).as_posix()
                (images if path.lower().endswith(SUFFIXES) else other_files).append(path)
    return sorted(images), sorted(other_files)


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"  # macOS adds it to archives


def _check_folders(root: Path, classes: list[str]) -> None:
    """Raise for class folders without images, and for splits in place of classes."""
    folders = sorted(path.name for path in root.iterdir() if path.is_dir() and not _is_hidden(path.name))
    empty = [name for name in folders if name not in classes]
    if empty:
        raise ValueError(f"no images in {format_list(empty, 'class folder')} of {root}: fill or remove them.")
    if {name.lower() for name in classes} <= _SPLITS:
        raise ValueError(
            f"the folders of {root} are splits, not classes ({', '.join(classes)}): read one of them, "
            f"like {root / classes[0]}."
        )
