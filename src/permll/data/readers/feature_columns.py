"""Feature columns of a table: numbers and categories, without uninformative columns."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from permll.data.labels import RowRefs
from permll.data.readers.csv_types import find_missing_words, find_non_numeric
from permll.data.readers.raw_data import left_out_entry
from permll.utils.messages import format_list

if TYPE_CHECKING:
    import polars as pl

Column = NDArray[Any]
APPLY_COLUMNS = ("label_original", "label_source")  # added by permll apply; not features
_MIN_ROW_NUMBERS = 20  # consecutive integers, to be taken for row numbers
_UNITS_PER_DAY = {"ns": 86_400e9, "us": 86_400e6, "ms": 86_400e3}


class FeatureColumns(NamedTuple):
    """Informative columns, entries of ``left_out`` for the others, and the names of those that hold free text."""

    columns: dict[str, Column]
    left_out: list[dict[str, Any]]
    texts: list[str]


def drop_apply_columns(columns: Sequence["pl.Series"]) -> tuple[list["pl.Series"], list[dict[str, Any]]]:
    """Return the columns without those of ``permll apply``, and an entry of ``left_out``.

    Examples:
        >>> import polars as pl
        >>> columns, left_out = drop_apply_columns([pl.Series("size", [1, 2]), pl.Series("label_source", ["a", "b"])])
        >>> [column.name for column in columns], left_out[0]["names"]
        (['size'], ['label_source'])
    """
    names = [column.name for column in columns if column.name in APPLY_COLUMNS]
    left_out = [left_out_entry("column", "added by permll apply", names)] if names else []
    return [column for column in columns if column.name not in names], left_out


def to_features(
    columns: Sequence["pl.Series"], row_refs: RowRefs, *, keep_all: bool, decimal_comma: bool = False
) -> FeatureColumns:
    """Return features by name; ``keep_all`` also keeps columns that are constant or different in every row."""
    _check_missing_words(columns, row_refs)
    _check_numeric(columns, row_refs, decimal_comma=decimal_comma)
    arrays = {column.name: to_array(column) for column in columns}
    _check_finite(columns, row_refs)
    if keep_all:
        return FeatureColumns(arrays, [], [])
    reasons = {name: _why_uninformative(array) for name, array in arrays.items()}
    left_out = [
        left_out_entry("column", reason, [name for name in reasons if reasons[name] == reason])
        for reason in dict.fromkeys(reasons.values())
        if reason
    ]
    texts = [name for name, array in arrays.items() if array.dtype == object and reasons[name] and _is_prose(array)]
    return FeatureColumns({name: array for name, array in arrays.items() if not reasons[name]}, left_out, texts)


def to_array(column: "pl.Series") -> Column:
    """Return numbers as float64 (NaN if empty), dates as days since 1970, text as an object array ("" if empty).

    Examples:
        >>> import polars as pl
        >>> to_array(pl.Series("a", [True, None])), to_array(pl.Series("b", ["x", None]))
        (array([ 1., nan]), array(['x', ''], dtype=object))
    """
    import polars as pl

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


def _check_missing_words(columns: Sequence["pl.Series"], row_refs: RowRefs) -> None:
    import polars as pl

    rows = {column.name: find_missing_words(column) for column in columns if column.dtype == pl.String}
    cells = [f"{name!r} in {row_refs.format_list(found)}" for name, found in rows.items() if found]
    if cells:
        raise ValueError(
            f"words like NA stand for missing numbers in column {'; '.join(cells)}: leave those cells empty."
        )


def _check_numeric(columns: Sequence["pl.Series"], row_refs: RowRefs, *, decimal_comma: bool) -> None:
    """Raise for columns of numbers with a few other cells; columns declared as categories are accepted."""
    import polars as pl

    problems = []
    for column in columns:
        rows = find_non_numeric(column, decimal_comma=decimal_comma) if column.dtype == pl.String else []
        if rows:
            cells = [f"{row_refs.names[row]}: {column[row]!r}" for row in rows]
            problems.append(f"column {column.name!r} holds numbers except in {format_list(cells, row_refs.noun)}")
    if problems:
        raise ValueError(f"{'; '.join(problems)}: correct or empty those cells, or choose columns with features=.")


def _check_finite(columns: Sequence["pl.Series"], row_refs: RowRefs) -> None:
    """Raise for NaN and infinity; an empty cell is null, not NaN."""
    cells = []
    for column in columns:
        if column.dtype.is_float():
            rows = (~column.is_finite()).fill_null(False).arg_true().to_list()
            if rows:
                cells.append(f"{column.name!r} in {row_refs.format_list(rows)}")
    if cells:
        raise ValueError(f"NaN or infinity in column {'; '.join(cells)}: correct or empty those cells.")


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
