"""Conversion of pandas frames to polars, column by column; NaN becomes an empty cell.

Not ``polars.from_pandas``, which needs pyarrow.
"""

from typing import Any

import numpy as np
import polars as pl

from permll.data.labels import is_missing, ordered_categories
from permll.data.readers.raw_data import default_ids
from permll.utils.messages import format_list


def from_pandas(frame: Any) -> tuple[pl.DataFrame, list[str]]:
    """Return the frame and its ids: the index if it is unique, otherwise row numbers."""
    names = [str(name) for name in frame.columns]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"column names must be unique; repeated: {format_list(repeated, 'name')}.")
    columns = [_to_series(name, frame.iloc[:, i]) for i, name in enumerate(names)]
    is_unique = frame.index.nlevels == 1 and frame.index.is_unique and not frame.index.hasnans
    ids = [str(name) for name in frame.index] if is_unique else list(default_ids(len(frame)))
    return pl.DataFrame(columns), ids


def _to_series(name: str, series: Any) -> pl.Series:
    ordered = ordered_categories(series)
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
    is_categorical = hasattr(series.dtype, "categories")
    for type_, dtype in ((str, pl.Categorical if is_categorical else pl.String), (bool, pl.Boolean)):
        if all(value is None or isinstance(value, type_) for value in values):
            return pl.Series(name, values, dtype=dtype)
    return pl.Series(name, values, dtype=pl.Object)
