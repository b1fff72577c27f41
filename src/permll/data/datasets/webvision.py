"""WebVision 1.0, Google part, first 50 classes: web photos labeled by their search query."""

from pathlib import Path

from permll.data.dataset import LabeledData
from permll.data.datasets.dataset_files import (
    candidate_folders,
    check_class_count,
    find_files,
    image_data,
    read_lines,
    split_lines,
)
from permll.data.inputs import Fit
from permll.data.registry import find_dataset

LISTS = {"train": "info/train_filelist_google.txt", "val": "info/val_filelist.txt"}
_SYNSETS = "info/synsets.txt"
_VAL_FOLDERS = ("val_images_256", "val_images", "val")


def load(root: Path, split: str, *, size: int = 256, fit: Fit = "crop") -> LabeledData:
    """Return ``"train"`` (web labels) or ``"val"`` (verified labels) from ``root`` or ``root``/webvision.

    The lists in info/ hold files and labels 0..999; labels below 50 are used. Training images are in google/, as
    listed; validation images in val_images_256 (resized) or val_images (original). Ids are the listed paths.
    """
    info = find_dataset("webvision_mini")
    homes = candidate_folders(root, "webvision", "WebVision", "webvision_mini")
    path, synsets = find_files(info, root, homes, (LISTS[info.check_split(split)], _SYNSETS))
    home = path.parent.parent
    numbers = {str(number): number for number in range(info.num_classes)}
    rows = [(name, numbers[label]) for name, label in split_lines(path) if label in numbers]
    names, labels = [name for name, _ in rows], [label for _, label in rows]
    folder = home
    if split == "val":
        folder = home / next((name for name in _VAL_FOLDERS if (home / name).is_dir()), _VAL_FOLDERS[0])
    # The first word of each synset: "n01440764 tench, Tinca tinca" becomes tench.
    classes = [line.split(None, 1)[-1].split(",")[0].strip() for line in read_lines(synsets)[: info.num_classes]]
    check_class_count(synsets, classes, info.num_classes)
    return image_data(info, split, folder, names, labels, classes, size=size, fit=fit, files=[path.name])
