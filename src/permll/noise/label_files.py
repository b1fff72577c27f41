"""Label files: .npz, .npy, a column of a CSV file, or text with one label per line."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from permll.noise._paths import require_file
from permll.noise.class_names import encode_labels, is_text, published_class_names, with_class_names
from permll.noise.corruption import Corruption, infer_num_classes, read_labels
from permll.noise.label_file_columns import read_column, select_name

# Names of label arrays or columns, matched without case; the first one in the file is read.
LABEL_NAMES = ("labels", "label", "y", "y_train", "train_labels", "targets", "clean", "clean_label")
NOISY_LABEL_NAMES = ("noisy", "noisy_labels", "noisy_label", *LABEL_NAMES)


class CleanLabels(NamedTuple):
    """Clean labels of a data set."""

    labels: NDArray[Any]  # (N,) class numbers
    num_classes: int
    classes: tuple[str, ...] | None = None  # class names, if known


def read_noisy_labels(
    path: Path | str,
    clean: ArrayLike,
    *,
    num_classes: int | None = None,
    key: str | None = None,
    classes: Sequence[str] | None = None,
) -> Corruption:
    r"""Read noisy labels from a file, one for each of the ``clean`` labels (N,).

    Args:
        path: .npz, .npy, .csv or .tsv file with class numbers or names, or text with one label per line.
        clean: labels of the data set in the same order, as class numbers.
        num_classes: c. Default: number of ``classes``, otherwise highest clean label + 1.
        key: array or column with the labels, if its name is not a usual one.
        classes: c class names in the order of their numbers, required for text labels.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "noisy.txt"
        >>> _ = path.write_text("cat\ndog\ndog\n")
        >>> record = read_noisy_labels(path, [0, 1, 0], classes=["cat", "dog"])
        >>> record.noisy, record.noise["name"]
        (array([0, 1, 1]), 'file:noisy.txt')
    """
    path = require_file(path, "label file")
    clean = np.asarray(clean)
    if num_classes is None:
        num_classes = len(classes) if classes is not None else infer_num_classes(clean)
    clean = read_labels(clean, num_classes)
    try:
        values = read_label_file(path, key=key, names=NOISY_LABEL_NAMES)
        if classes is None and is_text(values):
            raise ValueError(
                "text labels need the class names in order (classes= in Python; on the command line, clean labels "
                "as text)."
            )
        noisy = read_labels(encode_labels(values, classes).labels, num_classes)
    except ValueError as error:
        raise ValueError(str(error) if str(path) in str(error) else f"{path}: {error}") from None
    if len(noisy) != len(clean):
        raise ValueError(
            f"{path} has {len(noisy):,} labels, but the data set has {len(clean):,}: give one label per sample."
        )
    record = Corruption(clean, noisy, num_classes, None, {"name": f"file:{path.name}", "file": path.name})
    return with_class_names(record, classes)


def read_clean_labels(
    path: Path | str, *, num_classes: int | None = None, key: str | None = None, data_set: str | None = None
) -> CleanLabels:
    r"""Read clean labels from a file; text labels are numbered in sorted order, or as in a published ``data_set``.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "clean.txt"
        >>> _ = path.write_text("dog\ncat\ndog\n")
        >>> read_clean_labels(path)
        CleanLabels(labels=array([1, 0, 1]), num_classes=2, classes=('cat', 'dog'))
    """
    path = require_file(path, "label file")
    values = read_label_file(path, key=key)
    if not is_text(values):
        return CleanLabels(values, num_classes or infer_num_classes(values, "--classes "))
    try:
        labels, classes = encode_labels(values, published_class_names(data_set))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    classes = classes or ()
    if len(classes) < 2:
        raise ValueError(f"{path} has a single class, {', '.join(classes)}: label noise needs at least two.")
    if num_classes not in (None, len(classes)):
        raise ValueError(
            f"{path} has {len(classes)} classes, not {num_classes}: omit the number of classes for text labels."
        )
    return CleanLabels(labels, len(classes), classes)


def read_label_file(path: Path | str, *, key: str | None = None, names: Sequence[str] = LABEL_NAMES) -> NDArray[Any]:
    """Return the labels in a file, numbers or text, unchecked; nothing is unpickled.

    Args:
        path: see ``read_noisy_labels``.
        key: array or column to read.
        names: accepted names without ``key``; a single array may have any name.
    """
    path = require_file(path, "label file")
    labels = (_read_numpy if path.suffix in (".npy", ".npz") else read_column)(path, key, names)
    if labels.dtype.kind == "f" and (np.abs(labels) <= 2**53).all() and (labels == np.floor(labels)).all():
        labels = labels.astype(np.int64)
    return labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels


def _read_numpy(path: Path, key: str | None, names: Sequence[str]) -> NDArray[Any]:
    try:
        with path.open("rb") as file:  # np.load leaves a broken file open if it opens the file itself
            content = np.load(file, allow_pickle=False)
            if isinstance(content, np.ndarray):
                return content
            labels: NDArray[Any] = content[select_name(content.files, key, names, path)]
            return labels
    except (zipfile.BadZipFile, EOFError) as error:
        raise ValueError(f"{path} is damaged: {error or 'unexpected end of file'}.") from None
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise ValueError(f"{path} contains Python objects or is not a NumPy file, so it was not read.") from None
