"""Labels that people gave to CIFAR images: the files of CIFAR-10N and CIFAR-100N (Wei et al. 2022).

The files are pickles; they are read by a reader that can run no code.
"""

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from permll.data.pickles import read_torch
from permll.noise._paths import existing
from permll.noise.corruption import Corruption, read_labels
from permll.noise.maps import CIFAR100_SUPERCLASSES
from permll.utils.messages import did_you_mean, format_list

FULL = 50_000  # only the whole training part has a published rate
_TOLERANCE = 1e-4  # published rates are rounded to a hundredth of a per cent
_BROKEN_COARSE = 12  # so many of the 20 superclasses occur in the coarse labels released before March 2023


class LabelSet(NamedTuple):
    """One column of a file: its key there, its number of classes, and its published share of wrong labels."""

    data_set: str
    key: str
    num_classes: int
    published: float


SETS: dict[str, LabelSet] = {
    "aggre": LabelSet("cifar10n", "aggre_label", 10, 0.0901),
    "random1": LabelSet("cifar10n", "random_label1", 10, 0.1723),
    "random2": LabelSet("cifar10n", "random_label2", 10, 0.1812),
    "random3": LabelSet("cifar10n", "random_label3", 10, 0.1764),
    "worst": LabelSet("cifar10n", "worse_label", 10, 0.4021),
    "fine": LabelSet("cifar100n", "noisy_label", 100, 0.4020),
    "coarse": LabelSet("cifar100n", "noisy_coarse_label", 20, 0.2640),
}


def human_labels(path: Path | str, which: str, clean: ArrayLike) -> Corruption:
    """Return the record of a CIFAR-N label set, checked against the data set it is meant for.

    Args:
        path: ``CIFAR-10_human.pt`` or ``CIFAR-100_human.pt``.
        which: ``aggre``, ``random1``, ``random2``, ``random3``, ``worst`` (CIFAR-10), ``fine``, ``coarse`` (CIFAR-100),
            or the key in the file.
        clean: the labels (N,) of the data set, in its order: superclasses for ``coarse``, classes otherwise.
    """
    path, which = existing(path, "file of human labels"), _set_name(which)
    label_set = SETS[which]
    clean = read_labels(clean, label_set.num_classes)
    truth, noisy = _columns(path, which)
    _check_order(truth, clean, path)
    if which == "coarse":
        _check_coarse(noisy, clean, path)
    about = {"name": f"{label_set.data_set}:{which}", "file": path.name, "key": label_set.key}
    about["data_set"] = label_set.data_set.removesuffix("n")
    record = Corruption(clean, noisy, label_set.num_classes, None, about)
    if len(clean) == FULL and abs(record.rate - label_set.published) > _TOLERANCE:
        warnings.warn(
            f"{100 * record.rate:.2f} % of {label_set.key} in {path} are wrong, but {100 * label_set.published:.2f} % "
            "in the released file: this is another one, or was changed.",
            stacklevel=2,
        )
    return record


def superclasses() -> NDArray[np.int64]:
    """Return the superclass, 0..19, of each of CIFAR-100's classes.

    Examples:
        >>> superclasses()[[4, 30, 0]]  # beaver, dolphin, apple
        array([0, 0, 4])
    """
    home = np.empty(100, dtype=np.int64)
    for number, group in enumerate(CIFAR100_SUPERCLASSES):
        home[list(group)] = number
    return home


def _set_name(which: str) -> str:
    names = {name: name for name in SETS} | {label_set.key: name for name, label_set in SETS.items()}
    if which not in names:
        raise ValueError(
            f"{which!r} is no set of human labels{did_you_mean(which, names) or '.'} There are {', '.join(SETS)}."
        )
    return names[which]


def _columns(path: Path, which: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the clean and the human labels of a file; for ``coarse`` both as superclasses."""
    if path.suffix == ".npy":
        raise ValueError(f"{path} is in the order of TensorFlow Datasets: use the file of that set that ends in .pt.")
    file, label_set = read_torch(path), SETS[which]
    if not isinstance(file, dict):
        raise ValueError(f"{path} holds a {type(file).__name__}, not the label sets of a CIFAR-N file.")
    for key in ("clean_label", label_set.key):
        if key not in file:
            has = ", ".join(sorted(str(name) for name in file)) or "nothing"
            raise ValueError(f"{path} has no {key}, which {which} needs; it holds {has}.")
    coarse = which == "coarse"
    truth = _column(file["clean_label"], 100 if coarse else label_set.num_classes, path, "clean_label")
    noisy = _column(file[label_set.key], label_set.num_classes, path, label_set.key)
    if len(truth) != len(noisy):
        raise ValueError(f"{path} is damaged: {len(truth):,} labels in clean_label, {len(noisy):,} in {label_set.key}.")
    # Some releases have clean superclasses too, but those were wrong as long as the noisy ones were.
    return superclasses()[truth] if coarse else truth, noisy


def _column(values: Any, num_classes: int, path: Path, key: str) -> NDArray[np.int64]:
    try:
        return read_labels(values, num_classes)
    except ValueError as problem:
        raise ValueError(f"{key} in {path} cannot be used: {problem}") from None


def _check_order(truth: NDArray[np.int64], clean: NDArray[np.int64], path: Path) -> None:
    """Raise unless the file was written for these images in this order."""
    if len(truth) != len(clean):
        raise ValueError(
            f"{path} has {len(truth):,} labels and the data set {len(clean):,}: read the file for the whole training "
            "part, then split."
        )
    differ = np.flatnonzero(truth != clean)
    if len(differ):
        raise ValueError(
            f"the clean labels in {path} differ from the data set's at {format_list(differ.tolist(), 'position')}: the file "
            "follows the order of CIFAR's own batches; that of TensorFlow Datasets is another."
        )


def _check_coarse(noisy: NDArray[np.int64], clean: NDArray[np.int64], path: Path) -> None:
    present = len(np.unique(noisy))
    if present <= _BROKEN_COARSE < len(np.unique(clean)):
        raise ValueError(
            f"the coarse labels in {path} know only {present} of the 20 superclasses: it is the faulty release, from "
            "before March 2023; get the file again."
        )
