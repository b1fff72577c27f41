"""Sample previews as JSON: an image, a text, the cells of a table row, or the values of a vector."""

import math
from collections.abc import Mapping
from typing import Any

from permll.cleaning.thumbnails import to_image
from permll.data.inputs import Images, Inputs, LazyImages

MAX_TEXT, MAX_CELLS, MAX_VALUES = 20_000, 200, 512  # characters, cells and numbers of a full preview
SHORT_TEXT, SHORT_CELLS, SHORT_VALUES = 280, 4, 64  # of a short one


def preview_sample(inputs: Inputs, row: int, *, short: bool) -> dict[str, Any]:
    """Return the preview of a sample; images are not opened, the browser requests them separately.

    Args:
        inputs: samples of any kind.
        row: position of the sample.
        short: whether to truncate it for a list.

    Returns:
        ``kind``: image, text, cells, vector or none; the content; and ``more``, the truncated amount.
    """
    if isinstance(inputs, Images | LazyImages):
        return {"kind": "image"}
    return preview_value(inputs.get_sample(row), short=short)


def preview_value(value: Any, *, short: bool) -> dict[str, Any]:
    """Return the preview of a value.

    Examples:
        >>> preview_value("so <b>good</b>", short=True)
        {'kind': 'text', 'text': 'so <b>good</b>', 'more': 0}
        >>> preview_value({"age": 31.0, "town": "Ulm", "height": float("nan")}, short=True)["cells"]
        [['age', '31'], ['town', 'Ulm'], ['height', '']]
        >>> import torch
        >>> preview_value(torch.tensor([1.5, -2.0]), short=True)
        {'kind': 'vector', 'values': [1.5, -2.0], 'more': 0}
    """
    if isinstance(value, str):
        limit = SHORT_TEXT if short else MAX_TEXT
        return {"kind": "text", "text": value[:limit], "more": max(0, len(value) - limit)}
    if isinstance(value, Mapping):
        limit = SHORT_CELLS if short else MAX_CELLS
        cells = [[str(name), _cell(cell, short)] for name, cell in list(value.items())[:limit]]
        return {"kind": "cells", "cells": cells, "more": max(0, len(value) - limit)}
    if getattr(value, "ndim", 0) == 1:
        limit = SHORT_VALUES if short else MAX_VALUES
        values = [float(f"{number:.6g}") if math.isfinite(number) else 0.0 for number in value[:limit].tolist()]
        return {"kind": "vector", "values": values, "more": max(0, len(value) - limit)}
    if to_image(value) is not None:
        return {"kind": "image"}
    return preview_value(repr(value), short=short)


def _cell(value: Any, short: bool) -> str:
    """Return a cell as text: numbers with up to ten digits, NaN as empty."""
    if isinstance(value, float):
        return f"{value:.10g}" if math.isfinite(value) else "" if math.isnan(value) else str(value)
    return str(value)[: 80 if short else MAX_TEXT]
