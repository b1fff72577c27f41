"""From cells that are all text, as in a CSV file, to columns with a type."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

_WHOLE = r"^-?(0|[1-9][0-9]*)(\.0+)?$"
_DECIMAL_COMMA = r"^([+-]?[0-9]+),([0-9]+)$"
_NO_VALUE = ("na", "n/a", "#n/a", "null", "none", "?", "-", "missing")
_MOSTLY = 0.9  # of the cells that are not empty
_ENOUGH = 5  # numbers: among fewer, words are no exception
_TIMES = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M")


def typed(cells: "pl.Series", *, decimal_comma: bool = False) -> "pl.Series":
    """Return numbers, truth values or dates where every cell that is not empty is one, otherwise the text itself.

    With ``decimal_comma``, 3,5 is a number: where cells are separated by another sign, that is how some countries
    write it.

    Examples:
        >>> import polars as pl
        >>> typed(pl.Series("age", ["3", None, "4.5"])).to_list()
        [3.0, None, 4.5]
        >>> typed(pl.Series("color", ["red", "3"])).to_list()
        ['red', '3']
    """
    empty = cells.null_count()
    if empty == len(cells):
        return cells
    numbers = _numbers(cells, decimal_comma=decimal_comma)
    if numbers.null_count() == empty:
        return numbers
    words = cells.str.to_lowercase()
    if words.drop_nulls().is_in(["true", "false"]).all():
        return words == "true"
    dates = cells.str.to_date("%Y-%m-%d", strict=False)
    if dates.null_count() == empty:
        return dates
    for form in _TIMES:
        times = cells.str.to_datetime(form, strict=False)
        if times.null_count() == empty:
            return times
    return cells


def not_numbers(cells: "pl.Series", *, decimal_comma: bool = False) -> list[int]:
    """Return the rows that make text of a column which holds numbers otherwise, nearly everywhere; else nothing.

    Examples:
        >>> import polars as pl
        >>> not_numbers(pl.Series([*map(str, range(20)), "1.5x", None])), not_numbers(pl.Series(["red", "3"]))
        ([20], [])
    """
    numbers = _numbers(cells, decimal_comma=decimal_comma)
    there = len(cells) - cells.null_count()
    good = len(cells) - numbers.null_count()
    if good == there or good < _ENOUGH or good < _MOSTLY * there:
        return []
    return (numbers.is_null() & cells.is_not_null()).arg_true().to_list()


def no_value_words(cells: "pl.Series") -> list[int]:
    """Return the rows where a column of numbers says NA, ? or the like, which makes text of all of it; else nothing.

    Examples:
        >>> import polars as pl
        >>> no_value_words(pl.Series(["3", "NA", "4"])), no_value_words(pl.Series(["red", "NA", "4"]))
        ([1], [])
    """
    import polars as pl

    marked = cells.str.to_lowercase().is_in(list(_NO_VALUE)).fill_null(False)
    rest = cells.filter(~marked).drop_nulls()
    if not marked.any() or len(rest) == 0 or rest.cast(pl.Float64, strict=False).null_count():
        return []
    return marked.arg_true().to_list()


def label_values(cells: "pl.Series") -> list[object]:
    """Return whole numbers where every label is one, written plainly (01 stays text), otherwise numbers or text.

    Examples:
        >>> import polars as pl
        >>> label_values(pl.Series(["10", "9", None])), label_values(pl.Series(["01", "1"]))
        ([10, 9, None], ['01', '1'])
    """
    import polars as pl

    there = cells.drop_nulls()
    if len(there) and there.str.contains(_WHOLE).all():
        return cells.str.replace(r"\.0+$", "").cast(pl.Int64, strict=False).to_list()
    fractions = there.str.contains(r"^[+-]?[0-9]*\.[0-9]+([eE][+-]?[0-9]+)?$|^(?i:nan)$")
    if len(there) and there.cast(pl.Float64, strict=False).null_count() == 0 and fractions.any():
        return cells.cast(pl.Float64).to_list()
    return cells.to_list()


def _numbers(cells: "pl.Series", *, decimal_comma: bool) -> "pl.Series":
    """Return each cell as a number, null where it is none."""
    import polars as pl

    plain = cells.str.replace(_DECIMAL_COMMA, "$1.$2") if decimal_comma else cells
    return plain.cast(pl.Float64, strict=False)
