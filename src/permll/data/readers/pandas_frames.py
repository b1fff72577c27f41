"""From a pandas frame to a polars one, column by column, where NaN means an empty cell."""

from typing import TYPE_CHECKING, Any

import numpy as np

from permll.data.labels import in_order, is_missing
from permll.data.readers.types import row_numbers
from permll.utils.messages import format_list

if TYPE_CHECKING:
    import polars as pl


def from_pandas(frame: Any) -> tuple["pl.DataFrame", list[str]]:
    """Return the frame and its ids: the index where it names every row once, otherwise row numbers."""
    import polars as pl

    names = [str(name) for name in frame.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"the frame has columns of the same name: {format_list(twice, 'name')}; rename them.")
    columns = [_column(name, frame.iloc[:, place]) for place, name in enumerate(names)]
    unique = frame.index.nlevels == 1 and frame.index.is_unique and not frame.index.hasnans
    ids = [str(name) for name in frame.index] if unique else list(row_numbers(len(frame)))
    return pl.DataFrame(columns), ids


def _column(name: str, series: Any) -> "pl.Series":
    import polars as pl

    ordered = in_order(series)
    if ordered is not None:
        return pl.Series(name, ordered[0], dtype=pl.Enum(list(ordered[1])))
    kind = series.dtype.kind
    if kind in "iuf":
        if series.isna().any() or kind == "f":
            return pl.Series(name, series.to_numpy(dtype=np.float64, na_value=np.nan)).fill_nan(None)
        return pl.Series(name, series.to_numpy())
    if kind in "Mm" and isinstance(series.dtype, np.dtype):
        return pl.Series(name, series.to_numpy())
    values = [None if is_missing(value) and not isinstance(value, str) else value for value in series.tolist()]
    category = hasattr(series.dtype, "categories")
    for type_, dtype in ((str, pl.Categorical if category else pl.String), (bool, pl.Boolean)):
        if all(value is None or isinstance(value, type_) for value in values):
            return pl.Series(name, values, dtype=dtype)
    return pl.Series(name, values, dtype=pl.Object)
