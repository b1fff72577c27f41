"""From the columns of a table to features: numbers and categories, without those that can teach nothing."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from permll.data.readers.csv_types import no_value_words, not_numbers
from permll.data.readers.types import RowRefs, leave_out
from permll.utils.messages import format_list

if TYPE_CHECKING:
    import polars as pl

Column = NDArray[Any]
MARKS = ("label_original", "label_source")  # what permll apply adds: other forms of the label, nothing to learn from
_COUNTING = 20  # so many numbers, each one more than the last, are no accident
_DAY = {"ns": 86_400e9, "us": 86_400e6, "ms": 86_400e3}


class Sorted(NamedTuple):
    """Columns that can teach something, notes about the others, and those of the others that hold free text."""

    columns: dict[str, Column]
    notes: list[dict[str, Any]]
    texts: list[str]


def set_marks_aside(columns: Sequence["pl.Series"]) -> tuple[list["pl.Series"], list[dict[str, Any]]]:
    """Return the columns without the marks of ``permll apply``, and a note of those.

    Examples:
        >>> import polars as pl
        >>> columns, notes = set_marks_aside([pl.Series("size", [1, 2]), pl.Series("label_source", ["given", "auto"])])
        >>> [column.name for column in columns], notes[0]["names"]
        (['size'], ['label_source'])
    """
    marks = [column.name for column in columns if column.name in MARKS]
    notes = [leave_out("column", "says what the label was", marks)] if marks else []
    return [column for column in columns if column.name not in marks], notes


def to_features(
    columns: Sequence["pl.Series"], places: RowRefs, *, keep_all: bool, decimal_comma: bool = False
) -> Sorted:
    """Return features by name; ``keep_all`` keeps also those that are the same or different in every row."""
    _refuse_no_value_words(columns, places)
    _refuse_not_numbers(columns, places, decimal_comma=decimal_comma)
    arrays = {column.name: to_array(column) for column in columns}
    _refuse_not_finite(columns, places)
    if keep_all:
        return Sorted(arrays, [], [])
    why = {name: _useless(array) for name, array in arrays.items()}
    reasons = list(dict.fromkeys(reason for reason in why.values() if reason))
    notes = [leave_out("column", reason, [name for name in why if why[name] == reason]) for reason in reasons]
    texts = [name for name, array in arrays.items() if array.dtype == object and why[name] and _is_prose(array)]
    return Sorted({name: array for name, array in arrays.items() if not why[name]}, notes, texts)


def to_array(column: "pl.Series") -> Column:
    """Return numbers as float64, NaN where empty, dates as days since 1970; text as objects of str, "" where empty.

    Examples:
        >>> import polars as pl
        >>> to_array(pl.Series("a", [True, None])), to_array(pl.Series("b", ["x", None]))
        (array([ 1., nan]), array(['x', ''], dtype=object))
    """
    import polars as pl

    kind = column.dtype
    if kind == pl.String or kind == pl.Categorical or kind == pl.Enum:
        words = np.empty(len(column), dtype=object)
        words[:] = column.cast(pl.String).fill_null("").to_list()
        return words
    if kind == pl.Null or kind == pl.Boolean or kind.is_numeric():
        numbers = column.cast(pl.Float64)
    elif kind == pl.Date:
        numbers = column.cast(pl.Int64).cast(pl.Float64)
    elif kind.is_temporal():
        numbers = column.cast(pl.Int64) / _DAY[getattr(kind, "time_unit", "ns")]
    else:
        raise ValueError(
            f"column {column.name!r} holds {_words(kind)}, which is neither a number nor a category: choose other "
            "columns with features=."
        )
    return numbers.fill_null(float("nan")).to_numpy().astype(np.float64)


def _words(kind: "pl.DataType") -> str:
    return "values of several types" if str(kind) == "Object" else str(kind)


def _refuse_no_value_words(columns: Sequence["pl.Series"], places: RowRefs) -> None:
    import polars as pl

    rows = {column.name: no_value_words(column) for column in columns if column.dtype == pl.String}
    found = [f"{name!r} in {places.format_list(own)}" for name, own in rows.items() if own]
    if found:
        raise ValueError(
            f"there are numbers but for a word that seems to mean no value in column {'; '.join(found)}: empty those "
            "cells."
        )


def _refuse_not_numbers(columns: Sequence["pl.Series"], places: RowRefs, *, decimal_comma: bool) -> None:
    """Refuse columns that a few cells keep from being numbers; a column that is declared as categories may."""
    import polars as pl

    found = []
    for column in columns:
        rows = not_numbers(column, decimal_comma=decimal_comma) if column.dtype == pl.String else []
        if rows:
            cells = [f"{places.names[row]}: {column[row]!r}" for row in rows]
            found.append(f"column {column.name!r} holds numbers but for {format_list(cells, places.noun)}")
    if found:
        raise ValueError(f"{'; '.join(found)}: mend them, or empty the cells, or leave the column out with features=.")


def _refuse_not_finite(columns: Sequence["pl.Series"], places: RowRefs) -> None:
    """Refuse NaN and infinity that stand in cells; an empty cell is null and was never NaN."""
    found = []
    for column in columns:
        if column.dtype.is_float():
            rows = (~column.is_finite()).fill_null(False).arg_true().to_list()
            if rows:
                found.append(f"{column.name!r} in {places.format_list(rows)}")
    if found:
        raise ValueError(f"there is NaN or infinity in column {'; '.join(found)}: empty those cells or mend them.")


def _useless(array: Column) -> str | None:
    """Say why a column can teach nothing, if so."""
    if array.dtype == object:
        words = array[array != ""]
        different = len(set(words.tolist()))
        if different <= 1 and (different == 0 or len(words) == len(array)):
            return "the same in every row"
        if different == len(words):
            return "a different text in every row"
        return "free text" if 2 * different > len(words) and _is_prose(array) else None
    there = array[~np.isnan(array)]
    if len(there) == 0 or (len(there) == len(array) and (there == there[0]).all()):
        return "the same in every row"
    return "counts the rows" if len(array) >= _COUNTING and (np.diff(array) == 1).all() else None


def _is_prose(words: Column) -> bool:
    return 2 * sum(" " in word for word in words.tolist()) > len(words)
