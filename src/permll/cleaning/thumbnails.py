"""Pictures of samples, as a browser wants them."""

import io
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

SMALL = 96  # up to so many pixels a side nothing is lost in the encoding


class Picture(NamedTuple):
    """An encoded picture."""

    content: bytes
    type: str


def to_image(value: Any) -> "Image | None":
    """Return a sample as a PIL image, upright and of 8 bits; None if it is none.

    Args:
        value: a PIL image, or a tensor (C, H, W) or (H, W) with one, three or four channels. Numbers that are not
            uint8 are stretched from their smallest to their largest.

    Examples:
        >>> import torch
        >>> to_image(torch.zeros(3, 20, 30, dtype=torch.uint8)).size
        (30, 20)
        >>> to_image("a text") is None
        True
    """
    from PIL import Image, ImageOps

    if isinstance(value, Image.Image):
        return _eight_bits(ImageOps.exif_transpose(value))
    if not hasattr(value, "ndim") or value.ndim not in (2, 3):
        return None
    pixels = np.asarray(value)
    if pixels.ndim == 3:
        if pixels.shape[0] not in (1, 3, 4):
            return None
        pixels = pixels[0] if pixels.shape[0] == 1 else pixels.transpose(1, 2, 0)
    return Image.fromarray(pixels if pixels.dtype == np.uint8 else _stretched(pixels))


def encode(image: "Image", side: int) -> Picture:
    """Encode an image so that it has at most ``side`` pixels a side; a small one is never made larger.

    Examples:
        >>> from PIL import Image
        >>> encode(Image.new("RGB", (2000, 1000)), 160).type, encode(Image.new("L", (28, 28)), 160).type
        ('image/jpeg', 'image/png')
    """
    from PIL import Image

    see_through = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
    image = image.convert("RGBA" if see_through else "L" if image.mode in ("L", "1") else "RGB")
    if max(image.size) > side:
        image.thumbnail((side, side), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    if see_through or max(image.size) <= SMALL:
        image.save(file, "PNG")
        return Picture(file.getvalue(), "image/png")
    image.save(file, "JPEG", quality=85)
    return Picture(file.getvalue(), "image/jpeg")


def _eight_bits(image: "Image") -> "Image":
    from PIL import Image

    return Image.fromarray(_stretched(np.asarray(image))) if image.mode[0] in "IF" else image


def _stretched(pixels: Any) -> Any:
    values = np.nan_to_num(pixels.astype(np.float64))
    low, high = (values.min(), values.max()) if values.size else (0.0, 0.0)
    return ((values - low) * (255 / (high - low) if high > low else 0)).astype(np.uint8)
