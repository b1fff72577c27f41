"""What a sample looks like, as JSON: an image by its address, a text, the cells of a row, the values of a vector."""

import math
from collections.abc import Mapping
from typing import Any

from permll.cleaning.thumbnails import to_image
from permll.data.inputs import Images, Inputs, LazyImages

TEXT, CELLS, VALUES = 20_000, 200, 512  # how much of a sample is shown alone: characters, cells, numbers
SHORT_TEXT, SHORT_CELLS, SHORT_VALUES = 280, 4, 64  # and beside others


def look_at(inputs: Inputs, row: int, *, short: bool) -> dict[str, Any]:
    """Return how the sample at a position looks; images are not opened for it, as the browser asks for them itself.

    Args:
        inputs: the samples, of any kind.
        row: which one.
        short: for a place among others.

    Returns:
        ``kind``: image, text, cells, vector or none; the content; and ``more``, how much of it was left out.
    """
    if isinstance(inputs, Images | LazyImages):
        return {"kind": "image"}
    return look_of(inputs.get_sample(row), short=short)


def look_of(value: Any, *, short: bool) -> dict[str, Any]:
    """Return how a sample looks.

    Examples:
        >>> look_of("so <b>good</b>", short=True)
        {'kind': 'text', 'text': 'so <b>good</b>', 'more': 0}
        >>> look_of({"age": 31.0, "town": "Ulm", "height": float("nan")}, short=True)["cells"]
        [['age', '31'], ['town', 'Ulm'], ['height', '']]
        >>> import torch
        >>> look_of(torch.tensor([1.5, -2.0]), short=True)
        {'kind': 'vector', 'values': [1.5, -2.0], 'more': 0}
    """
    if isinstance(value, str):
        limit = SHORT_TEXT if short else TEXT
        return {"kind": "text", "text": value[:limit], "more": max(0, len(value) - limit)}
    if isinstance(value, Mapping):
        limit = SHORT_CELLS if short else CELLS
        cells = [[str(name), _cell(cell, short)] for name, cell in list(value.items())[:limit]]
        return {"kind": "cells", "cells": cells, "more": max(0, len(value) - limit)}
    if getattr(value, "ndim", 0) == 1:
        limit = SHORT_VALUES if short else VALUES
        values = [float(f"{number:.6g}") if math.isfinite(number) else 0.0 for number in value[:limit].tolist()]
        return {"kind": "vector", "values": values, "more": max(0, len(value) - limit)}
    if to_image(value) is not None:
        return {"kind": "image"}
    return look_of(repr(value), short=short)


def _cell(value: Any, short: bool) -> str:
    """Return a cell as text: numbers without needless digits, empty ones empty."""
    if isinstance(value, float):
        return f"{value:.10g}" if math.isfinite(value) else "" if math.isnan(value) else str(value)
    return str(value)[: 80 if short else TEXT]
