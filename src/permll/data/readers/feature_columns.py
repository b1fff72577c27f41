"""Columns of a table: their types in a CSV file, where all cells are text, and features without uninformative columns.

polars converts the cells. Its schema inference is not used: it would turn the label 01 into 1, and a column of numbers
with one typo into text without an error.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from permll.data.column_types import ColumnType
from permll.data.labels import RowRefs
from permll.data.readers.raw_data import APPLY_COLUMNS, left_out_entry
from permll.utils.messages import format_list

Column = NDArray[Any]
_MIN_ROW_NUMBERS = 20  # consecutive integers, to be taken for row numbers
_INTEGER = r"^-?(0|[1-9][0-9]*)(\.0+)?$"
_DECIMAL_COMMA = r"^([+-]?[0-9]+),([0-9]+)$"
_MISSING_WORDS = ("na", "n/a", "#n/a", "null", "none", "?", "-", "missing")
_MIN_FRACTION = 0.9  # of the non-empty cells, for a column of numbers
_MIN_NUMBERS = 5
_DATETIME_FORMATS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M")
_UNITS_PER_DAY = {"ns": 86_400e9, "us": 86_400e6, "ms": 86_400e3}


class FeatureColumns(NamedTuple):
    """Features of a table.

    Args:
        columns: informative columns by name.
        left_out: entries of ``left_out`` for the others.
        texts: names of those that hold free text.
        types: type of the columns that are numbers here only, by name.
    """

    columns: dict[str, Column]
    left_out: list[dict[str, Any]]
    texts: list[str]
    types: dict[str, ColumnType]


def drop_apply_columns(columns: Sequence[pl.Series]) -> tuple[list[pl.Series], list[dict[str, Any]]]:
    """Return the columns without those of ``permll apply``, and an entry of ``left_out``.

    Examples:
        >>> columns, left_out = drop_apply_columns([pl.Series("size", [1, 2]), pl.Series("label_source", ["a", "b"])])
        >>> [column.name for column in columns], left_out[0]["names"]
        (['size'], ['label_source'])
    """
    names = [column.name for column in columns if column.name in APPLY_COLUMNS]
    left_out = [left_out_entry("column", "added by permll apply", names)] if names else []
    return [column for column in columns if column.name not in names], left_out


def to_features(
    columns: Sequence[pl.Series], row_refs: RowRefs, *, keep_all: bool, decimal_comma: bool = False
) -> FeatureColumns:
    """Return features by name; ``keep_all`` also keeps columns that are constant or different in every row."""
    _check_cells(columns, row_refs, decimal_comma=decimal_comma)
    arrays = {column.name: to_array(column) for column in columns}
    types = {column.name: kind for column in columns if (kind := _type_of(column))}
    if keep_all:
        return FeatureColumns(arrays, [], [], types)
    reasons = {name: _why_uninformative(array) for name, array in arrays.items()}
    left_out = [
        left_out_entry("column", reason, [name for name in reasons if reasons[name] == reason])
        for reason in dict.fromkeys(reasons.values())
        if reason
    ]
    texts = [name for name, array in arrays.items() if array.dtype == object and reasons[name] and _is_prose(array)]
    kept = {name: array for name, array in arrays.items() if not reasons[name]}
    return FeatureColumns(kept, left_out, texts, {name: kind for name, kind in types.items() if name in kept})


def _type_of(column: pl.Series) -> ColumnType | None:
    """Return the type of a column that becomes a number only for training; moments in a time zone stay numbers."""
    if column.dtype == pl.Boolean:
        return "boolean"
    if column.dtype == pl.Date:
        return "date"
    return "datetime" if column.dtype == pl.Datetime and getattr(column.dtype, "time_zone", None) is None else None


def to_array(column: pl.Series) -> Column:
    """Return numbers as float64 (NaN if empty), dates as days since 1970, text as an object array ("" if empty).

    Examples:
        >>> to_array(pl.Series("a", [True, None])), to_array(pl.Series("b", ["x", None]))
        (array([ 1., nan]), array(['x', ''], dtype=object))
    """
    dtype = column.dtype
    if dtype == pl.String or dtype == pl.Categorical or dtype == pl.Enum:
        words = np.empty(len(column), dtype=object)
        words[:] = column.cast(pl.String).fill_null("").to_list()
        return words
    if dtype == pl.Null or dtype == pl.Boolean or dtype.is_numeric():
        numbers = column.cast(pl.Float64)
    elif dtype == pl.Date:
        numbers = column.cast(pl.Int64).cast(pl.Float64)
    elif dtype.is_temporal():
        numbers = column.cast(pl.Int64) / _UNITS_PER_DAY[getattr(dtype, "time_unit", "ns")]
    else:
        content = "values of several types" if str(dtype) == "Object" else str(dtype)
        raise ValueError(
            f"column {column.name!r} holds {content}, neither numbers nor categories: choose other columns with "
            "features=."
        )
    return numbers.fill_null(float("nan")).to_numpy().astype(np.float64)


def _check_cells(columns: Sequence[pl.Series], row_refs: RowRefs, *, decimal_comma: bool) -> None:
    """Raise for words like NA, for a few other cells in a column of numbers, and for NaN (an empty cell is null).

    Columns declared as categories are accepted.
    """
    words, typos, not_finite = [], [], []
    for column in columns:
        if column.dtype == pl.String:
            if rows := find_missing_words(column):
                words.append(f"{column.name!r} in {row_refs.format_list(rows)}")
            if rows := find_non_numeric(column, decimal_comma=decimal_comma):
                cells = format_list([f"{row_refs.names[row]}: {column[row]!r}" for row in rows], row_refs.noun)
                typos.append(f"column {column.name!r} holds numbers except in {cells}")
        elif column.dtype.is_float() and (rows := (~column.is_finite()).fill_null(False).arg_true().to_list()):
            not_finite.append(f"{column.name!r} in {row_refs.format_list(rows)}")
    if words:
        raise ValueError(
            f"words like NA stand for missing numbers in column {'; '.join(words)}: leave those cells empty."
        )
    if typos:
        raise ValueError(f"{'; '.join(typos)}: correct or empty those cells, or choose columns with features=.")
    if not_finite:
        raise ValueError(f"NaN or infinity in column {'; '.join(not_finite)}: correct or empty those cells.")


def _why_uninformative(array: Column) -> str | None:
    if array.dtype == object:
        words = array[array != ""]
        num_unique = len(set(words.tolist()))
        if num_unique <= 1 and (num_unique == 0 or len(words) == len(array)):
            return "the same in every row"
        if num_unique == len(words):
            return "a different text in every row"
        return "free text" if 2 * num_unique > len(words) and _is_prose(array) else None
    values = array[~np.isnan(array)]
    if len(values) == 0 or (len(values) == len(array) and (values == values[0]).all()):
        return "the same in every row"
    return "row numbers" if len(array) >= _MIN_ROW_NUMBERS and (np.diff(array) == 1).all() else None


def _is_prose(words: Column) -> bool:
    return 2 * sum(" " in word for word in words.tolist()) > len(words)


def infer_type(cells: pl.Series, *, decimal_comma: bool = False) -> pl.Series:
    """Return numbers, booleans or dates if every non-empty cell is one, otherwise the text.

    With ``decimal_comma``, 3,5 is a number, as in files of some countries with another separator than the comma.

    Examples:
        >>> infer_type(pl.Series("age", ["3", None, "4.5"])).to_list()
        [3.0, None, 4.5]
        >>> infer_type(pl.Series("color", ["red", "3"])).to_list()
        ['red', '3']
    """
    num_empty = cells.null_count()
    if num_empty == len(cells):
        return cells
    numbers = _to_numbers(cells, decimal_comma=decimal_comma)
    if numbers.null_count() == num_empty:
        return numbers
    words = cells.str.to_lowercase()
    if words.drop_nulls().is_in(["true", "false"]).all():
        return words == "true"
    dates = cells.str.to_date("%Y-%m-%d", strict=False)
    if dates.null_count() == num_empty:
        return dates
    for form in _DATETIME_FORMATS:
        times = cells.str.to_datetime(form, strict=False)
        if times.null_count() == num_empty:
            return times
    return cells


def find_non_numeric(cells: pl.Series, *, decimal_comma: bool = False) -> list[int]:
    """Return the few rows that are not numbers in a column of numbers; [] for other columns.

    Examples:
        >>> find_non_numeric(pl.Series([*map(str, range(20)), "1.5x", None])), find_non_numeric(pl.Series(["red", "3"]))
        ([20], [])
    """
    numbers = _to_numbers(cells, decimal_comma=decimal_comma)
    num_cells = len(cells) - cells.null_count()
    num_numbers = len(cells) - numbers.null_count()
    if num_numbers == num_cells or num_numbers < _MIN_NUMBERS or num_numbers < _MIN_FRACTION * num_cells:
        return []
    return (numbers.is_null() & cells.is_not_null()).arg_true().to_list()


def find_missing_words(cells: pl.Series) -> list[int]:
    """Return the rows of a column of numbers that hold NA, ? or the like; [] for other columns.

    Examples:
        >>> find_missing_words(pl.Series(["3", "NA", "4"])), find_missing_words(pl.Series(["red", "NA", "4"]))
        ([1], [])
    """
    is_word = cells.str.to_lowercase().is_in(list(_MISSING_WORDS)).fill_null(False)
    others = cells.filter(~is_word).drop_nulls()
    if not is_word.any() or len(others) == 0 or others.cast(pl.Float64, strict=False).null_count():
        return []
    return is_word.arg_true().to_list()


def parse_labels(cells: pl.Series) -> list[object]:
    """Return integers if every label is a plain one (01 stays text), otherwise floats or text.

    Examples:
        >>> parse_labels(pl.Series(["10", "9", None])), parse_labels(pl.Series(["01", "1"]))
        ([10, 9, None], ['01', '1'])
    """
    labels = cells.drop_nulls()
    if len(labels) and labels.str.contains(_INTEGER).all():
        return cells.str.replace(r"\.0+$", "").cast(pl.Int64, strict=False).to_list()
    is_float = labels.str.contains(r"^[+-]?[0-9]*\.[0-9]+([eE][+-]?[0-9]+)?$|^(?i:nan)$")
    if len(labels) and labels.cast(pl.Float64, strict=False).null_count() == 0 and is_float.any():
        return cells.cast(pl.Float64).to_list()
    return cells.to_list()


def _to_numbers(cells: pl.Series, *, decimal_comma: bool) -> pl.Series:
    """Return each cell as a number, null if it is not one."""
    texts = cells.str.replace(_DECIMAL_COMMA, "$1.$2") if decimal_comma else cells
    return texts.cast(pl.Float64, strict=False)
