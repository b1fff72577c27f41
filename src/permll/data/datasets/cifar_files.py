"""Files of CIFAR in the python layout (pickles) and in the binary layout."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from permll.data.datasets.locate import check_labels
from permll.data.pickles import UnsafePickleError, read_pickle

NUM_PIXELS = 3 * 32 * 32
ImagesAndLabels = tuple[NDArray[np.uint8], NDArray[np.int64]]


def read_binary(path: Path, count: int, columns: Sequence[int], column: int, hint: str) -> ImagesAndLabels:
    """Return pixels (count, 3, 32, 32) and labels (count,) of a .bin file.

    Args:
        path: file of records: one byte per label column, then 3,072 bytes of pixels.
        count: expected number of records.
        columns: number of classes of each label column.
        column: label column to return; all are checked.
        hint: what to do if the file is damaged.
    """
    width = len(columns) + NUM_PIXELS
    size = path.stat().st_size
    if size != count * width:
        raise ValueError(
            f"{path} is truncated or damaged: expected {count * width:,} bytes ({count:,} records of {width:,}), "
            f"got {size:,}; {hint}."
        )
    records = np.fromfile(path, np.uint8).reshape(count, width)
    for number, num_classes in enumerate(columns):
        check_labels(records[:, number].astype(np.int64), num_classes, path, hint)
    return records[:, len(columns) :].reshape(count, 3, 32, 32), records[:, column].astype(np.int64)


def read_python(path: Path, count: int, key: str, num_classes: int, hint: str) -> ImagesAndLabels:
    """Return pixels (count, 3, 32, 32) and labels (count,) of a pickled batch; ``key`` is that of the labels."""
    try:
        batch = read_pickle(path)
    except UnsafePickleError as error:
        size, expected = path.stat().st_size, count * NUM_PIXELS
        truncated = f"it has {size:,} bytes, a complete one more than {expected:,}; " if size < expected else ""
        raise UnsafePickleError(f"{str(error).rstrip('.')}; {truncated}{hint}.") from None
    data, labels = (batch.get(name) if isinstance(batch, dict) else None for name in ("data", key))
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape != (count, NUM_PIXELS):
        actual = f"{data.dtype} {data.shape}" if isinstance(data, np.ndarray) else type(data).__name__
        raise ValueError(
            f"{path} is not a CIFAR batch: data must be uint8 {(count, NUM_PIXELS)}, got {actual}; {hint}."
        )
    numbers = _to_integers(labels)
    if numbers is None or numbers.shape != (count,):
        actual = f"{len(labels):,} values" if isinstance(labels, list) else type(labels).__name__
        raise ValueError(f"{path} is not a CIFAR batch: {key} must be {count:,} integers, got {actual}; {hint}.")
    check_labels(numbers, num_classes, path, hint)
    return data.reshape(count, 3, 32, 32), numbers


def _to_integers(labels: Any) -> NDArray[np.int64] | None:
    if not isinstance(labels, list | np.ndarray):
        return None
    try:
        numbers = np.asarray(labels)
    except ValueError:  # nested lists
        return None
    return numbers.astype(np.int64) if numbers.dtype.kind in "iu" else None
