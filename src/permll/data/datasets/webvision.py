"""The first 50 classes of WebVision 1.0, its Google part: web photos whose label is the query that found them."""

from pathlib import Path

from permll.data.dataset import LabeledData
from permll.data.datasets.image_lists import Fit, image_data, read_lines, split_lines
from permll.data.datasets.locate import below, find_files
from permll.data.registry import find

LISTS = {"train": "info/train_filelist_google.txt", "val": "info/val_filelist.txt"}
_SYNSETS = "info/synsets.txt"
_VAL_FOLDERS = ("val_images_256", "val_images", "val")


def load(root: Path, split: str, *, size: int = 256, fit: Fit = "crop") -> LabeledData:
    """Return ``"train"`` (web labels) or ``"val"`` (checked ones) from ``root`` or ``root``/webvision.

    The lists in info/ name files and labels 0..999; those below 50 are kept. Training images lie where the list says,
    below google/; validation images in val_images_256 (resized) or val_images (as they were). Ids are the paths of the
    lists.
    """
    info = find("webvision_mini")
    homes = below(root, "webvision", "WebVision", "webvision_mini")
    path, synsets = find_files(info, root, homes, (LISTS[info.known_split(split)], _SYNSETS))
    home = path.parent.parent
    numbers = {str(number): number for number in range(info.num_classes)}
    kept = [(name, numbers[label]) for name, label in split_lines(path) if label in numbers]
    names, labels = [name for name, _ in kept], [label for _, label in kept]
    folder = home
    if split == "val":
        folder = home / next((name for name in _VAL_FOLDERS if (home / name).is_dir()), _VAL_FOLDERS[0])
    classes = _classes(synsets, info.num_classes)
    return image_data(info, split, folder, names, labels, classes, size=size, fit=fit, files=[path.name])


def _classes(path: Path, count: int) -> tuple[str, ...]:
    """Return the first word of each synset: "n01440764 tench, Tinca tinca" is called tench."""
    synsets = [line.split(None, 1)[-1].split(",")[0].strip() for line in read_lines(path)[:count]]
    if len(set(synsets)) != count:
        raise ValueError(f"{path} must begin with {count} different classes, it has {len(set(synsets))}: get it again.")
    return tuple(synsets)
