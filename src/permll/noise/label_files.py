"""Label files: one label for each sample, as .npz, .npy, a column of a CSV file, or a line each."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from permll.noise._paths import existing
from permll.noise.class_names import is_text, name_record, number_labels, published_names
from permll.noise.corruption import Corruption, read_labels
from permll.noise.label_columns import choose, read_column

# What labels are called in files that hold more than labels; the first that is there is taken, in any case.
NAMES = ("labels", "label", "y", "y_train", "train_labels", "targets", "clean", "clean_label")
NOISY_NAMES = ("noisy", "noisy_labels", "noisy_label", *NAMES)


class CleanLabels(NamedTuple):
    """Labels that noise is made for."""

    labels: NDArray[Any]  # (N,) class numbers
    num_classes: int
    classes: tuple[str, ...] | None = None  # names, where there are any


def label_file(
    path: Path | str,
    clean: ArrayLike,
    *,
    num_classes: int | None = None,
    key: str | None = None,
    classes: Sequence[str] | None = None,
) -> Corruption:
    r"""Return the record of noisy labels that somebody else made, one for each of the ``clean`` labels (N,).

    Args:
        path: .npz, .npy, .csv or .tsv with class numbers or names, or text with one of them in each line.
        clean: the labels of the data set, in the same order, as class numbers.
        num_classes: c; by default as many as there are ``classes``, else one more than the highest clean label.
        key: the array or column that holds the labels, where a name does not tell.
        classes: c names, in the order of their numbers: what labels in words are looked up in.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "noisy.txt"
        >>> _ = path.write_text("cat\ndog\ndog\n")
        >>> record = label_file(path, [0, 1, 0], classes=["cat", "dog"])
        >>> record.noisy, record.noise["name"]
        (array([0, 1, 1]), 'file:noisy.txt')
    """
    path = existing(path, "label file")
    clean = np.asarray(clean)
    if num_classes is None:
        num_classes = len(classes) if classes is not None else count_classes(clean)
    clean = read_labels(clean, num_classes)
    try:
        values = read_label_file(path, key=key, names=NOISY_NAMES)
        if classes is None and is_text(values):
            raise ValueError(
                "the labels are words: say what the classes are called, in their order, with classes=; on the command "
                "line, give the clean labels in words too."
            )
        noisy = read_labels(number_labels(values, classes).labels, num_classes)
    except ValueError as problem:
        raise ValueError(str(problem) if str(path) in str(problem) else f"{path}: {problem}") from None
    if len(noisy) != len(clean):
        raise ValueError(
            f"{path} has {len(noisy):,} labels and the data set {len(clean):,}: it must have one for each sample."
        )
    record = Corruption(clean, noisy, num_classes, None, {"name": f"file:{path.name}", "file": path.name})
    return name_record(record, classes)


def clean_file(
    path: Path | str, *, num_classes: int | None = None, key: str | None = None, data_set: str | None = None
) -> CleanLabels:
    r"""Return the clean labels in a file, words as numbers: sorted, or in the order of a published ``data_set``.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "clean.txt"
        >>> _ = path.write_text("dog\ncat\ndog\n")
        >>> clean_file(path)
        CleanLabels(labels=array([1, 0, 1]), num_classes=2, classes=('cat', 'dog'))
    """
    path = existing(path, "label file")
    values = read_label_file(path, key=key)
    if not is_text(values):
        return CleanLabels(values, num_classes or count_classes(values, "--classes "))
    try:
        labels, classes = number_labels(values, published_names(data_set))
    except ValueError as problem:
        raise ValueError(f"{path}: {problem}") from None
    found = len(classes or ())
    if found < 2:
        raise ValueError(f"{path} has one class only, {', '.join(classes or ())}: noise needs two.")
    if num_classes not in (None, found):
        raise ValueError(f"{path} names {found} classes, not {num_classes}: words need no number: leave it out.")
    return CleanLabels(labels, found, classes)


def count_classes(labels: NDArray[Any], option: str = "num_classes=") -> int:
    """Return one more than the highest label, at least two: what c is where nothing else says.

    Labels that count from 1 are refused: they would make a class 0 that nothing belongs to, and noise would fill it.

    Args:
        labels: (N,) class numbers.
        option: how the caller is told to say the number.

    Examples:
        >>> count_classes(np.array([0, 4, 2]))
        5
    """
    if labels.dtype.kind not in "iu" or labels.size == 0:
        return 2
    lowest, highest = int(labels.min()), int(labels.max())
    if lowest > 0:
        raise ValueError(
            f"labels run from {lowest} to {highest}: count from 0, or say how many classes there are "
            f"({option}{highest + 1} if class 0 is real)."
        )
    return max(highest, 1) + 1


def read_label_file(path: Path | str, *, key: str | None = None, names: Sequence[str] = NAMES) -> NDArray[Any]:
    """Return the labels in a file, numbers or words, unchecked but for their being there; no code in it can run.

    Args:
        path: see ``label_file``.
        key: the array or column to read.
        names: what it may be called if ``key`` does not say; a single array may be called anything.
    """
    path = existing(path, "label file")
    labels = (_from_numpy if path.suffix in (".npy", ".npz") else read_column)(path, key, names)
    if labels.dtype.kind == "f" and (np.abs(labels) <= 2**53).all() and (labels == np.floor(labels)).all():
        labels = labels.astype(np.int64)
    return labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels


def _from_numpy(path: Path, key: str | None, names: Sequence[str]) -> NDArray[Any]:
    try:
        with path.open("rb") as file:  # NumPy leaves a broken file open if it opens it itself
            read = np.load(file, allow_pickle=False)
            if isinstance(read, np.ndarray):
                return read
            labels: NDArray[Any] = read[choose(read.files, key, names, path)]
            return labels
    except (zipfile.BadZipFile, EOFError) as broken:
        raise ValueError(f"{path} is damaged: {broken or 'it ends too early'}.") from None
    except ValueError as problem:
        if "allow_pickle" not in str(problem):
            raise
        raise ValueError(f"{path} holds no plain numbers but Python objects, or is no NumPy file: not read.") from None
