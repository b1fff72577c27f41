"""Thumbnails of samples in formats that browsers show."""

import io
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_LOSSLESS_SIDE = 96  # pixels; larger images are encoded as JPEG


class Thumbnail(NamedTuple):
    """An encoded image and its MIME type."""

    content: bytes
    type: str


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
        return _to_8_bit(ImageOps.exif_transpose(value))
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


def _to_8_bit(image: "Image") -> "Image":
    from PIL import Image

    return Image.fromarray(_scale_to_8_bit(np.asarray(image))) if image.mode[0] in "IF" else image


def _scale_to_8_bit(pixels: Any) -> Any:
    values = np.nan_to_num(pixels.astype(np.float64))
    low, high = (values.min(), values.max()) if values.size else (0.0, 0.0)
    return ((values - low) * (255 / (high - low) if high > low else 0)).astype(np.uint8)
