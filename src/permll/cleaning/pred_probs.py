"""``PredProbs``: predicted probabilities from an array, a data frame or a file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from permll.data.readers.arrays import get_array, open_arrays
from permll.utils.messages import format_list

ARRAY_NAMES = ("pred_probs", "probs", "probabilities", "predictions", "proba")
ID_COLUMN = "id"
INDEX_NAMES = ("", "Unnamed: 0", "__index_level_0__")  # of an index that pandas wrote into a file
SUFFIXES = (".npy", ".npz", ".csv", ".tsv", ".parquet")


class PredProbs(NamedTuple):
    """Predicted probabilities.

    Args:
        values: (N, c) array or tensor, not checked.
        name: of the probabilities in messages.
        classes: names of the columns; None if they have none.
        ids: sample ids of the rows; None for none.
        row_index: row numbers or sample ids of the rows; None for all rows in order.
    """

    values: Any
    name: str = "pred_probs"
    classes: tuple[str, ...] | None = None
    ids: tuple[str, ...] | None = None
    row_index: tuple[str, ...] | None = None


class Columns(NamedTuple):
    """The columns of a table as lists, and the ids or the index of its rows."""

    values: dict[str, list[Any]]
    ids: tuple[str, ...] | None
    row_index: tuple[str, ...] | None


def read_pred_probs(pred_probs: Any) -> PredProbs:
    """Return the probabilities in an array, a data frame, or a file of one.

    A column ``id`` of a data frame holds sample ids, the others are classes. An index other than 0, 1, ... also counts.
    A .npz file has one array, or one that is named pred_probs, and may have ``classes`` and ``ids``.

    Examples:
        >>> import pandas as pd
        >>> read_pred_probs(pd.DataFrame({"id": ["a"], "cat": [0.9], "dog": [0.1]}))[2:4]
        (('cat', 'dog'), ('a',))
    """
    name = "pred_probs"
    if isinstance(pred_probs, str | Path):
        path = Path(pred_probs).expanduser()
        name = str(pred_probs)
        check_file(path, SUFFIXES)
        if path.suffix.lower() in (".npy", ".npz"):
            return _read_arrays(path, name)
        return _from_columns(read_columns(path), name)
    if is_frame(pred_probs):
        return _from_columns(frame_columns(pred_probs), name)
    if isinstance(pred_probs, torch.Tensor | np.ndarray):
        return PredProbs(pred_probs, name)
    return PredProbs(np.asarray(pred_probs), name)


def check_file(path: Path, suffixes: Sequence[str]) -> None:
    """Refuse a file that does not exist or is of another type."""
    if path.suffix.lower() not in suffixes:
        raise ValueError(f"unsupported file type: {path}; supported are {', '.join(suffixes)}.")
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")


def is_frame(value: object) -> bool:
    """Return whether a value is a data frame of pandas or polars."""
    return type(value).__name__ == "DataFrame" and hasattr(value, "columns")


def frame_columns(frame: Any) -> Columns:
    """Return the columns of a data frame of pandas or polars.

    Examples:
        >>> import pandas as pd
        >>> frame_columns(pd.DataFrame({"quality": [0.1, 0.2]}, index=[7, 3]))
        Columns(values={'quality': [0.1, 0.2]}, ids=None, row_index=('7', '3'))
    """
    values = {str(name): frame[name].to_list() for name in frame.columns}
    index = tuple(map(str, frame.index)) if hasattr(frame, "index") else None
    return _split_ids(values, index)


def read_columns(path: Path) -> Columns:
    """Return the columns of a CSV, TSV or Parquet file; the cells of CSV are text."""
    from permll.data.readers.tables import open_table

    frame, _ = open_table(path)
    return _split_ids({name: frame[name].to_list() for name in frame.columns}, None)


def to_numbers(values: Sequence[Any]) -> NDArray[np.float64] | None:
    """Return numbers, or text that holds them, as an array; None if there is anything else.

    Examples:
        >>> to_numbers(["0.5", "1e-3"]), to_numbers(["0.5", "cat"])
        (array([0.5  , 0.001]), None)
    """
    try:
        return np.array(values, np.float64)
    except (TypeError, ValueError):
        return None


def _split_ids(values: dict[str, list[Any]], index: tuple[str, ...] | None) -> Columns:
    """Take the ids and the index out of columns; an index 0, 1, ... says nothing."""
    ids = values.pop(ID_COLUMN, None)
    for name in INDEX_NAMES:
        index = tuple(map(str, values.pop(name))) if name in values else index
    is_trivial = index is not None and index == tuple(map(str, range(len(index))))
    return Columns(values, None if ids is None else tuple(map(str, ids)), None if is_trivial else index)


def _from_columns(columns: Columns, name: str) -> PredProbs:
    numbers = {key: to_numbers(values) for key, values in columns.values.items()}
    bad = [key for key, values in numbers.items() if values is None]
    if bad or not numbers:
        found = f"; there are no numbers in {format_list(bad, 'column')}" if bad else ""
        raise ValueError(f"{name} must have a column of probabilities for each class, and may have a column id{found}.")
    values = np.stack([column for column in numbers.values() if column is not None], axis=1)
    return PredProbs(values, name, tuple(numbers), columns.ids, columns.row_index)


def _read_arrays(path: Path, name: str) -> PredProbs:
    with open_arrays(path) as arrays:
        if path.suffix.lower() == ".npy":
            return PredProbs(arrays[path.stem], name)
        key = _array_name(arrays, name)
        return PredProbs(
            get_array(arrays, key, name), name, _names(arrays, "classes", name), _names(arrays, "ids", name)
        )


def _array_name(arrays: Mapping[str, Any], where: str) -> str:
    others = [key for key in arrays if key not in ("classes", "ids")]
    named = [key for key in ARRAY_NAMES if key in others] or others
    if len(named) != 1:
        raise ValueError(f"{where} has {format_list(others, 'array')}: name the one of probabilities pred_probs.")
    return named[0]


def _names(arrays: Mapping[str, Any], key: str, where: str) -> tuple[str, ...] | None:
    return tuple(map(str, get_array(arrays, key, where).tolist())) if key in arrays else None
