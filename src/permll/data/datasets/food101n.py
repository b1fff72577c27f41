"""Food-101N: web photos of 101 dishes; its test split is that of Food-101."""

from pathlib import Path

from permll.data.dataset import LabeledData
from permll.data.datasets.dataset_files import candidate_folders, check_class_count, find_files, image_data, read_lines
from permll.data.inputs import Fit
from permll.data.registry import find_dataset

FOLDERS = ("Food-101N_release", "Food-101N", "food101n", "food-101n")
_CLASSES_FILE = "meta/classes.txt"


def load(root: Path, split: str, *, size: int = 256, fit: Fit = "crop") -> LabeledData:
    """Return ``"train"`` (web labels), or ``"test"``: that of Food-101, in ``root``/food-101 or the like.

    Labels are the folders of the images, in alphabetical order. Ids are paths in images/.
    """
    info = find_dataset("food101n")
    homes = candidate_folders(root, *FOLDERS)
    if info.check_split(split) == "train":
        path, classes_path = find_files(info, root, homes, ("meta/imagelist.tsv", _CLASSES_FILE))
        names = _skip_header(read_lines(path), "class_name/key")
    else:
        food101 = [home / name for home in homes for name in ("food-101", "food101")]
        path, classes_path = find_files(info, root, food101, ("meta/test.txt", _CLASSES_FILE))
        names = [f"{line}.jpg" for line in read_lines(path)]
    classes = sorted(_skip_header(read_lines(classes_path), "class_name"))
    check_class_count(classes_path, classes, info.num_classes)
    numbers = {name: number for number, name in enumerate(classes)}
    labels = [numbers.get(name.partition("/")[0]) for name in names]
    folder = path.parent.parent / "images"
    return image_data(info, split, folder, names, labels, classes, size=size, fit=fit, files=[path.name])


def _skip_header(lines: list[str], header: str) -> list[str]:
    return lines[1:] if lines and lines[0] == header else lines
