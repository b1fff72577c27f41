"""One CIFAR file -> pixels and labels, in the official python layout (pickles) or the official binary one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from permll.data.datasets.locate import check_range
from permll.data.pickles import RefusedPickleError, read_pickle

PIXELS = 3 * 32 * 32
Batch = tuple[NDArray[np.uint8], NDArray[np.int64]]


def read_binary(path: Path, count: int, columns: Sequence[int], column: int, again: str) -> Batch:
    """Return pixels (count, 3, 32, 32) and labels (count,) of a .bin file.

    Args:
        path: the file: records of one byte per column of labels, then 3,072 bytes of pixels.
        count: how many records it must hold.
        columns: how many classes each column of labels knows.
        column: which of them to return; all are checked.
        again: what to do if the file is broken.
    """
    width = len(columns) + PIXELS
    size = path.stat().st_size
    if size != count * width:
        raise ValueError(
            f"{path} is truncated or damaged: it must have {count * width:,} bytes ({count:,} records of {width:,}), "
            f"it has {size:,}; {again}."
        )
    records = np.fromfile(path, np.uint8).reshape(count, width)
    for place, classes in enumerate(columns):
        check_range(records[:, place].astype(np.int64), classes, path, again)
    return records[:, len(columns) :].reshape(count, 3, 32, 32), records[:, column].astype(np.int64)


def read_python(path: Path, count: int, key: str, classes: int, again: str) -> Batch:
    """Return pixels (count, 3, 32, 32) and labels (count,) of a pickled batch; ``key`` names the labels in it."""
    try:
        batch = read_pickle(path)
    except RefusedPickleError as refused:
        size, least = path.stat().st_size, count * PIXELS
        short = f"it has {size:,} bytes, a whole one has more than {least:,}; " if size < least else ""
        raise RefusedPickleError(f"{str(refused).rstrip('.')}; {short}{again}.") from None
    data, labels = (batch.get(name) if isinstance(batch, dict) else None for name in ("data", key))
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape != (count, PIXELS):
        found = f"{data.dtype} {data.shape}" if isinstance(data, np.ndarray) else type(data).__name__
        raise ValueError(f"{path} is no CIFAR batch: data must be uint8 {(count, PIXELS)}, it is {found}; {again}.")
    numbers = _whole(labels)
    if numbers is None or numbers.shape != (count,):
        found = f"{len(labels):,} values" if isinstance(labels, list) else type(labels).__name__
        raise ValueError(f"{path} is no CIFAR batch: {key} must be {count:,} whole numbers, it is {found}; {again}.")
    check_range(numbers, classes, path, again)
    return data.reshape(count, 3, 32, 32), numbers


def _whole(labels: Any) -> NDArray[np.int64] | None:
    if not isinstance(labels, list | np.ndarray):
        return None
    try:
        numbers = np.asarray(labels)
    except ValueError:  # lists inside the list
        return None
    return numbers.astype(np.int64) if numbers.dtype.kind in "iu" else None
