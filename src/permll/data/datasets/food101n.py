"""Food-101N: web photos of 101 dishes. Its test set is that of Food-101, which shares the classes."""

from pathlib import Path

from permll.data.dataset import LabeledData
from permll.data.datasets.image_lists import Fit, image_data, read_lines, split_lines
from permll.data.datasets.locate import below, find_files
from permll.data.registry import find
from permll.utils.messages import format_list

HOMES = ("Food-101N_release", "Food-101N", "food101n", "food-101n")
_CLASSES = "meta/classes.txt"
_IMAGES_HEADER = "class_name/key"
_CLASSES_HEADER = "class_name"


def load(root: Path, split: str, *, size: int = 256, fit: Fit = "crop") -> LabeledData:
    """Return ``"train"`` (web labels), or ``"test"``: that of Food-101, from ``root``/food-101 or the like.

    Labels are the folders that images lie in, in alphabetical order. What people verified is no label: see
    ``verified``. Ids are paths below images/.
    """
    info = find("food101n")
    if info.known_split(split) == "train":
        path, classes_path = find_files(info, root, below(root, *HOMES), ("meta/imagelist.tsv", _CLASSES))
        names = _without_header(read_lines(path), _IMAGES_HEADER)
    else:
        path, classes_path = find_files(info, root, _food101(root), ("meta/test.txt", _CLASSES))
        names = [f"{line}.jpg" for line in read_lines(path)]
    classes = sorted(_without_header(read_lines(classes_path), _CLASSES_HEADER))
    if len(set(classes)) != info.num_classes:
        raise ValueError(
            f"{classes_path} must name {info.num_classes} classes, it names {len(set(classes))}: get it again."
        )
    numbers = {name: number for number, name in enumerate(classes)}
    labels = [numbers.get(name.partition("/")[0]) for name in names]
    folder = path.parent.parent / "images"
    return image_data(info, split, folder, names, labels, classes, size=size, fit=fit, files=[path.name])


def verified(root: Path) -> dict[str, dict[str, bool]]:
    """Return what people said of some training labels: part (train, val) -> id -> whether the label is right.

    For judging a method, or for one that asks for trusted samples; ``load`` never looks at it.
    """
    info = find("food101n")
    files = {part: f"meta/verified_{part}.tsv" for part in ("train", "val")}
    paths = find_files(info, root, below(root, *HOMES), tuple(files.values()))
    return {part: _bits(path) for part, path in zip(files, paths, strict=True)}


def _bits(path: Path) -> dict[str, bool]:
    rows = [row for row in split_lines(path, "\t") if row[0] != _IMAGES_HEADER]
    strange = [name for name, bit in rows if bit.strip() not in ("0", "1")]
    if strange:
        raise ValueError(f"{path} has neither 0 nor 1 for {format_list(strange, 'image')}: get it again.")
    return {name: bit.strip() == "1" for name, bit in rows}


def _food101(root: Path) -> tuple[Path, ...]:
    """Return where Food-101 may be: beside Food-101N or inside its folder."""
    return tuple(home / name for home in below(root, *HOMES) for name in ("food-101", "food101"))


def _without_header(lines: list[str], header: str) -> list[str]:
    return lines[1:] if lines and lines[0] == header else lines
