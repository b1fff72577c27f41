"""Types of CSV columns, inferred from cells that are all text.

polars converts the cells. Its schema inference is not used: it would turn the label 01 into 1, and a column of numbers
with one typo into text without an error.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

_INTEGER = r"^-?(0|[1-9][0-9]*)(\.0+)?$"
_DECIMAL_COMMA = r"^([+-]?[0-9]+),([0-9]+)$"
_MISSING_WORDS = ("na", "n/a", "#n/a", "null", "none", "?", "-", "missing")
_MIN_FRACTION = 0.9  # of the non-empty cells, for a column of numbers
_MIN_NUMBERS = 5
_DATETIME_FORMATS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M")


def infer_type(cells: "pl.Series", *, decimal_comma: bool = False) -> "pl.Series":
    """Return numbers, booleans or dates if every non-empty cell is one, otherwise the text.

    With ``decimal_comma``, 3,5 is a number, as in files of some countries with another separator than the comma.

    Examples:
        >>> import polars as pl
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


def find_non_numeric(cells: "pl.Series", *, decimal_comma: bool = False) -> list[int]:
    """Return the few rows that are not numbers in a column of numbers; [] for other columns.

    Examples:
        >>> import polars as pl
        >>> find_non_numeric(pl.Series([*map(str, range(20)), "1.5x", None])), find_non_numeric(pl.Series(["red", "3"]))
        ([20], [])
    """
    numbers = _to_numbers(cells, decimal_comma=decimal_comma)
    num_cells = len(cells) - cells.null_count()
    num_numbers = len(cells) - numbers.null_count()
    if num_numbers == num_cells or num_numbers < _MIN_NUMBERS or num_numbers < _MIN_FRACTION * num_cells:
        return []
    return (numbers.is_null() & cells.is_not_null()).arg_true().to_list()


def find_missing_words(cells: "pl.Series") -> list[int]:
    """Return the rows of a column of numbers that hold NA, ? or the like; [] for other columns.

    Examples:
        >>> import polars as pl
        >>> find_missing_words(pl.Series(["3", "NA", "4"])), find_missing_words(pl.Series(["red", "NA", "4"]))
        ([1], [])
    """
    import polars as pl

    is_word = cells.str.to_lowercase().is_in(list(_MISSING_WORDS)).fill_null(False)
    others = cells.filter(~is_word).drop_nulls()
    if not is_word.any() or len(others) == 0 or others.cast(pl.Float64, strict=False).null_count():
        return []
    return is_word.arg_true().to_list()


def parse_labels(cells: "pl.Series") -> list[object]:
    """Return integers if every label is a plain one (01 stays text), otherwise floats or text.

    Examples:
        >>> import polars as pl
        >>> parse_labels(pl.Series(["10", "9", None])), parse_labels(pl.Series(["01", "1"]))
        ([10, 9, None], ['01', '1'])
    """
    import polars as pl

    labels = cells.drop_nulls()
    if len(labels) and labels.str.contains(_INTEGER).all():
        return cells.str.replace(r"\.0+$", "").cast(pl.Int64, strict=False).to_list()
    is_float = labels.str.contains(r"^[+-]?[0-9]*\.[0-9]+([eE][+-]?[0-9]+)?$|^(?i:nan)$")
    if len(labels) and labels.cast(pl.Float64, strict=False).null_count() == 0 and is_float.any():
        return cells.cast(pl.Float64).to_list()
    return cells.to_list()


def _to_numbers(cells: "pl.Series", *, decimal_comma: bool) -> "pl.Series":
    """Return each cell as a number, null if it is not one."""
    import polars as pl

    texts = cells.str.replace(_DECIMAL_COMMA, "$1.$2") if decimal_comma else cells
    return texts.cast(pl.Float64, strict=False)
