"""Human labels of CIFAR images: the files of CIFAR-10N and CIFAR-100N (Wei et al. 2022).

The files are pickles; they are read by a restricted unpickler that cannot run code.
"""

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from permll.data.pickles import read_torch
from permll.noise.class_maps import CIFAR100_SUPERCLASSES
from permll.noise.corruption import Corruption, Labels, read_labels, require_file
from permll.utils.messages import did_you_mean, format_list

TRAIN_SIZE = 50_000  # the published noise rates refer to the full training set
_RATE_TOLERANCE = 1e-4  # published rates are rounded to 0.01 %
_FAULTY_COARSE_CLASSES = 12  # number of superclasses in the coarse labels released before March 2023


class LabelSet(NamedTuple):
    """A label set of a CIFAR-N file."""

    data_set: str
    key: str  # key in the file
    num_classes: int
    noise_rate: float  # as published


LABEL_SETS: dict[str, LabelSet] = {
    "aggre": LabelSet("cifar10n", "aggre_label", 10, 0.0901),
    "random1": LabelSet("cifar10n", "random_label1", 10, 0.1723),
    "random2": LabelSet("cifar10n", "random_label2", 10, 0.1812),
    "random3": LabelSet("cifar10n", "random_label3", 10, 0.1764),
    "worst": LabelSet("cifar10n", "worse_label", 10, 0.4021),
    "fine": LabelSet("cifar100n", "noisy_label", 100, 0.4020),
    "coarse": LabelSet("cifar100n", "noisy_coarse_label", 20, 0.2640),
}


def read_cifar_n(path: Path | str, which: str, clean: ArrayLike) -> Corruption:
    """Read a CIFAR-N label set and check it against the clean labels of the data set.

    Args:
        path: ``CIFAR-10_human.pt`` or ``CIFAR-100_human.pt``.
        which: ``aggre``, ``random1``, ``random2``, ``random3``, ``worst`` (CIFAR-10), ``fine``, ``coarse`` (CIFAR-100),
            or a key of the file.
        clean: labels (N,) of the data set, in its order; superclasses for ``coarse``.
    """
    path, names = require_file(path, "CIFAR-N file"), {label_set.key: name for name, label_set in LABEL_SETS.items()}
    which = names.get(which, which)
    if which not in LABEL_SETS:
        hint = did_you_mean(which, [*LABEL_SETS, *names]) or "."
        raise ValueError(f"unknown CIFAR-N label set {which!r}{hint} Available: {', '.join(LABEL_SETS)}.")
    label_set = LABEL_SETS[which]
    clean = read_labels(clean, label_set.num_classes)
    file_clean, noisy = _read_columns(path, which)
    _check_order(file_clean, clean, path)
    num_present = len(np.unique(noisy))
    if which == "coarse" and num_present <= _FAULTY_COARSE_CLASSES < len(np.unique(clean)):
        raise ValueError(
            f"the coarse labels in {path} have only {num_present} of the 20 superclasses, as in the faulty release "
            "before March 2023: download the file again."
        )
    about = {"name": f"{label_set.data_set}:{which}", "file": path.name, "key": label_set.key}
    about["data_set"] = label_set.data_set.removesuffix("n")
    record = Corruption(clean, noisy, label_set.num_classes, None, about)
    if len(clean) == TRAIN_SIZE and abs(record.rate - label_set.noise_rate) > _RATE_TOLERANCE:
        warnings.warn(
            f"{path}: {100 * record.rate:.2f} % of {label_set.key} are wrong, but "
            f"{100 * label_set.noise_rate:.2f} % in the published file; the file may have been modified.",
            stacklevel=2,
        )
    return record


def fine_to_coarse() -> Labels:
    """Return the superclass, 0..19, of each class of CIFAR-100.

    Examples:
        >>> fine_to_coarse()[[4, 30, 0]]  # beaver, dolphin, apple
        array([0, 0, 4])
    """
    coarse = np.empty(100, dtype=np.int64)
    for superclass, members in enumerate(CIFAR100_SUPERCLASSES):
        coarse[list(members)] = superclass
    return coarse


def _read_columns(path: Path, which: str) -> tuple[Labels, Labels]:
    """Return the clean and the human labels of a file; both as superclasses for ``coarse``."""
    if path.suffix == ".npy":
        raise ValueError(f"{path} is in the order of TensorFlow Datasets: use the .pt file of CIFAR-N instead.")
    file, label_set = read_torch(path), LABEL_SETS[which]
    if not isinstance(file, dict):
        raise ValueError(f"{path} holds a {type(file).__name__}, not the label sets of a CIFAR-N file.")
    for key in ("clean_label", label_set.key):
        if key not in file:
            keys = ", ".join(sorted(map(str, file))) or "nothing"
            raise ValueError(f"{path} has no {key}, which label set {which} needs; it holds {keys}.")
    is_coarse = which == "coarse"
    clean = _check_column(file["clean_label"], 100 if is_coarse else label_set.num_classes, path, "clean_label")
    noisy = _check_column(file[label_set.key], label_set.num_classes, path, label_set.key)
    if len(clean) != len(noisy):
        raise ValueError(f"{path} is damaged: {len(clean):,} labels in clean_label, {len(noisy):,} in {label_set.key}.")
    # Clean superclasses in the file are ignored: the release with faulty noisy ones has faulty clean ones, too.
    return fine_to_coarse()[clean] if is_coarse else clean, noisy


def _check_column(values: Any, num_classes: int, path: Path, key: str) -> Labels:
    try:
        return read_labels(values, num_classes)
    except ValueError as error:
        raise ValueError(f"{path}: {key} is invalid: {error}") from None


def _check_order(file_clean: Labels, clean: Labels, path: Path) -> None:
    """Raise unless the file's clean labels equal those of the data set."""
    if len(file_clean) != len(clean):
        raise ValueError(
            f"{path} has {len(file_clean):,} labels, but the data set has {len(clean):,}: read the labels of the full "
            "training set, then split."
        )
    differ = np.flatnonzero(file_clean != clean)
    if len(differ):
        raise ValueError(
            f"the clean labels in {path} differ from the data set's at {format_list(differ.tolist(), 'position')}: "
            "the file uses the order of the original CIFAR batches, not that of TensorFlow Datasets."
        )
