"""Types of table columns that are numbers for training only: booleans, dates and times."""

import math
from datetime import date, datetime, timedelta
from typing import Literal

ColumnType = Literal["boolean", "date", "datetime"]
MILLISECONDS_PER_DAY = 86_400_000


def to_source_type(value: float, type_: ColumnType | None) -> float | bool | date:
    """Return a number in the type that its column has in the source; NaN, an empty cell, stays.

    Args:
        value: number; of a date or time the days since 1970.
        type_: of the column; None for a column of numbers or texts, whose values stay.

    Examples:
        >>> to_source_type(1.0, "boolean"), to_source_type(365.0, "date")
        (True, datetime.date(1971, 1, 1))
        >>> to_source_type(0.25, "datetime").isoformat(), to_source_type(float("nan"), "date")
        ('1970-01-01T06:00:00', nan)
    """
    if type_ is None or math.isnan(value):
        return value
    if type_ == "boolean":
        return bool(value)
    try:
        moment = datetime(1970, 1, 1) + timedelta(milliseconds=round(value * MILLISECONDS_PER_DAY))
    except OverflowError:  # after the year 9999, which datetime does not know
        return value
    return moment.date() if type_ == "date" else moment
