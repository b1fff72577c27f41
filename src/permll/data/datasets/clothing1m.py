"""Clothing1M: a million shop photos with labels from the surrounding text, and some with verified labels."""

from pathlib import Path

from permll.data.dataset import LabeledData
from permll.data.datasets import class_names
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
from permll.utils.messages import format_list

KEY_LISTS = {
    "train": "noisy_train_key_list.txt",
    "val": "clean_val_key_list.txt",
    "test": "clean_test_key_list.txt",
    "clean_train": "clean_train_key_list.txt",
}
_PREFIX = "images/"
_NUMBERS = {str(number): number for number in range(len(class_names.CLOTHING1M))}


def load(root: Path, split: str, *, size: int = 256, fit: Fit = "stretch") -> LabeledData:
    """Return a split; ``"train"`` has noisy labels, ``"val"`` and ``"test"`` clean ones.

    ``"clean_train"``, 47,570 images with clean labels, is only loaded by name. The text files are in ``root`` or
    ``root``/annotations (or in ``root``/clothing1m); the images are in images/, or, without that prefix, in folders
    0..9. Ids are the paths in the key lists.

    The training set is the key list; the file of noisy labels also contains images of the clean splits.
    """
    info = find_dataset("clothing1m")
    keys_file = KEY_LISTS[info.check_split(split)]
    labels_file = "noisy_label_kv.txt" if split == "train" else "clean_label_kv.txt"
    folders = [
        folder
        for home in candidate_folders(root, "clothing1m", "clothing1M", "Clothing1M")
        for folder in candidate_folders(home, "annotations")
    ]
    keys_path, labels_path, *held_out = find_files(
        info, root, folders, (keys_file, labels_file, KEY_LISTS["val"], KEY_LISTS["test"])
    )
    keys = read_lines(keys_path)
    label_of = dict(split_lines(labels_path))
    base = keys_path.parent.parent if keys_path.parent.name == "annotations" else keys_path.parent
    names = keys if (base / "images").is_dir() else [key.removeprefix(_PREFIX) for key in keys]
    labels = [_NUMBERS.get(label_of.get(key, "")) for key in keys]
    names_path = keys_path.parent / "category_names_eng.txt"
    classes = tuple(read_lines(names_path)) if names_path.is_file() else class_names.CLOTHING1M
    check_class_count(names_path, classes, info.num_classes)
    files = [keys_file, labels_file]
    data = image_data(info, split, base, names, labels, classes, size=size, fit=fit, ids=keys, files=files)
    if split not in ("val", "test"):
        _check_disjoint(keys_path, keys, held_out)
    return data


def _check_disjoint(path: Path, keys: list[str], held_out: list[Path]) -> None:
    """Raise if a training list contains images of the validation or test split."""
    shared = set(keys) & {key for other in held_out for key in read_lines(other)}
    if shared:
        raise ValueError(
            f"{path} contains {format_list(sorted(shared), 'image')} of the validation or test split, which would "
            "leak into training: copy the list again."
        )
