"""Sample previews for a browser: an image, a text, the cells of a table row, or the values of a vector."""

import io
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from permll.data.dataset import LabeledData
from permll.data.inputs import Images, Inputs, LazyImages, Texts

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_TEXT, MAX_CELLS, MAX_VALUES = 20_000, 200, 512  # characters, cells and numbers of a full preview
SHORT_TEXT, SHORT_CELLS, SHORT_VALUES = 280, 4, 64  # of a short one
MAX_EXCERPT = 200  # characters of a text in the findings
MAX_LOSSLESS_SIDE = 96  # pixels; larger images are encoded as JPEG


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


def text_excerpts(data: LabeledData, ids: Iterable[str]) -> tuple[str, ...]:
    """Return the first characters of the texts of samples, without line breaks; () for other samples."""
    if not isinstance(data.inputs, Texts):
        return ()
    texts = dict(zip(data.ids, data.inputs.texts, strict=True))
    return tuple(" ".join(texts[name][: 2 * MAX_EXCERPT].split())[:MAX_EXCERPT] for name in ids)


def _cell(value: Any, short: bool) -> str:
    """Return a cell as text: numbers with up to ten digits, NaN as empty, true and false, dates as in ISO 8601.

    Examples:
        >>> from datetime import datetime
        >>> _cell(True, short=False), _cell(datetime(2024, 5, 1, 10, 30), short=False), _cell(2.0, short=False)
        ('true', '2024-05-01 10:30:00', '2')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.10g}" if math.isfinite(value) else "" if math.isnan(value) else str(value)
    return str(value)[: 80 if short else MAX_TEXT]


class Thumbnail(NamedTuple):
    """An encoded image and its MIME type."""

    content: bytes
    type: str


def open_image(inputs: Inputs, row: int) -> "Image | None":
    """Return a sample as ``to_image`` does; None also if it cannot be decoded."""
    try:
        return to_image(inputs.get_sample(row))
    except Exception:  # damaged images raise all kinds of errors
        return None


def to_image(value: Any) -> "Image | None":
    """Return a sample as an upright 8-bit PIL image; None if it is not an image.

    Args:
        value: a PIL image, or a tensor (C, H, W) or (H, W) with one, three or four channels. Values other
            than uint8 are scaled from their range to 0..255.

    Examples:
        >>> import torch
        >>> to_image(torch.zeros(3, 20, 30, dtype=torch.uint8)).size
        (30, 20)
        >>> to_image("a text") is None
        True
    """
    from PIL import Image, ImageOps

    if isinstance(value, Image.Image):
        image = ImageOps.exif_transpose(value)
        return Image.fromarray(_scale_to_8_bit(np.asarray(image))) if image.mode[0] in "IF" else image
    if not hasattr(value, "ndim") or value.ndim not in (2, 3):
        return None
    pixels = np.asarray(value)
    if pixels.ndim == 3:
        if pixels.shape[0] not in (1, 3, 4):
            return None
        pixels = pixels[0] if pixels.shape[0] == 1 else pixels.transpose(1, 2, 0)
    return Image.fromarray(pixels if pixels.dtype == np.uint8 else _scale_to_8_bit(pixels))


def encode_thumbnail(image: "Image", side: int) -> Thumbnail:
    """Encode an image with at most ``side`` pixels a side; a small one is not enlarged.

    Examples:
        >>> from PIL import Image
        >>> [encode_thumbnail(Image.new("RGB", size), 160).type for size in ((2000, 1000), (28, 28))]
        ['image/jpeg', 'image/png']
    """
    from PIL import Image

    has_alpha = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
    image = image.convert("RGBA" if has_alpha else "L" if image.mode in ("L", "1") else "RGB")
    if max(image.size) > side:
        image.thumbnail((side, side), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    if has_alpha or max(image.size) <= MAX_LOSSLESS_SIDE:
        image.save(file, "PNG")
        return Thumbnail(file.getvalue(), "image/png")
    image.save(file, "JPEG", quality=85)
    return Thumbnail(file.getvalue(), "image/jpeg")


def _scale_to_8_bit(pixels: Any) -> Any:
    values = np.nan_to_num(pixels.astype(np.float64))
    low, high = (values.min(), values.max()) if values.size else (0.0, 0.0)
    return ((values - low) * (255 / (high - low) if high > low else 0)).astype(np.uint8)
