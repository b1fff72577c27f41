"""Clothing1M: a million shop photos with labels from their surrounding text, and a few that people checked."""

from pathlib import Path

from permll.data.dataset import LabeledData
from permll.data.datasets import class_names as names
from permll.data.datasets.image_lists import Fit, image_data, read_lines, split_lines
from permll.data.datasets.locate import below, find_files
from permll.data.registry import find
from permll.utils.messages import format_list

KEYS = {
    "train": "noisy_train_key_list.txt",
    "val": "clean_val_key_list.txt",
    "test": "clean_test_key_list.txt",
    "clean_train": "clean_train_key_list.txt",
}
_PREFIX = "images/"
_NUMBERS = {str(number): number for number in range(len(names.CLOTHING1M))}


def load(root: Path, split: str, *, size: int = 256, fit: Fit = "stretch") -> LabeledData:
    """Return a split; ``"train"`` has noisy labels, ``"val"`` and ``"test"`` clean ones.

    ``"clean_train"``, 47,570 images with clean labels, is there for those who ask for it by name. The text files lie in
    ``root`` or ``root``/annotations (or in ``root``/clothing1m); the images below images/ or, with that prefix left
    out, in folders 0..9. Ids are the paths as the key lists have them.

    The training set is what the key list names. The file of noisy labels holds more: images of the clean sets too.
    """
    info = find("clothing1m")
    keys_file = KEYS[info.known_split(split)]
    labels_file = "noisy_label_kv.txt" if split == "train" else "clean_label_kv.txt"
    homes = [
        folder
        for home in below(root, "clothing1m", "clothing1M", "Clothing1M")
        for folder in below(home, "annotations")
    ]
    keys_path, labels_path, *held_out = find_files(
        info, root, homes, (keys_file, labels_file, KEYS["val"], KEYS["test"])
    )
    keys = read_lines(keys_path)
    base = keys_path.parent.parent if keys_path.parent.name == "annotations" else keys_path.parent
    data = image_data(
        info,
        split,
        base,
        _files(base, keys),
        _labels(keys, labels_path),
        _classes(keys_path.parent),
        size=size,
        fit=fit,
        ids=keys,
        files=[keys_file, labels_file],
    )
    if split not in ("val", "test"):
        _disjoint(keys_path, keys, held_out)
    return data


def _files(base: Path, keys: list[str]) -> list[str]:
    """Return where below ``base`` the images are: under images/, or beside the lists without that prefix."""
    return keys if (base / "images").is_dir() else [key.removeprefix(_PREFIX) for key in keys]


def _labels(keys: list[str], path: Path) -> list[int | None]:
    """Return each key's label, None where the file has none in 0..13."""
    label_of = dict(split_lines(path))
    return [_NUMBERS.get(label_of.get(key, "")) for key in keys]


def _classes(folder: Path) -> tuple[str, ...]:
    """Return the names in the folder's own file, or the built-in ones if there is none."""
    path = folder / "category_names_eng.txt"
    classes = tuple(read_lines(path)) if path.is_file() else names.CLOTHING1M
    if len(set(classes)) != len(names.CLOTHING1M):
        raise ValueError(
            f"{path} must name {len(names.CLOTHING1M)} classes, it names {len(set(classes))}: copy it again."
        )
    return classes


def _disjoint(path: Path, keys: list[str], held_out: list[Path]) -> None:
    """Refuse a training list with images of the validation or the test set in it."""
    both = set(keys) & {key for other in held_out for key in read_lines(other)}
    if both:
        raise ValueError(
            f"{path} names {format_list(sorted(both), 'image')} of the validation or test set: training on them would "
            "spoil every result; copy the list again."
        )
