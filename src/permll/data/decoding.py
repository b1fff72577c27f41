"""From a PIL image, or a file of one, to pixels."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image


class OpenFile:
    """Position -> PIL image, for files below a folder. Small enough to be sent to workers."""

    def __init__(self, root: Path, names: tuple[str, ...]) -> None:
        self.root, self.names = root, names

    def __call__(self, position: int) -> "Image":
        """Open a file; decoding waits until the pixels are asked for."""
        from PIL import Image, UnidentifiedImageError

        path = self.root / self.names[position]
        try:
            return Image.open(path)
        except UnidentifiedImageError:
            raise ValueError(f"{path} is not an image that can be read.") from None

    def __repr__(self) -> str:
        return f"files in {self.root}"


def read_pixels(
    open_image: "Callable[[int], Image]", position: int, size: int, fit: Literal["stretch", "crop"]
) -> NDArray[np.uint8]:
    """Open and decode the image at ``position``; one that fails is named."""
    try:
        with open_image(position) as image:
            return to_pixels(image, size, fit)
    except (OSError, ValueError, SyntaxError) as broken:  # Pillow's decoders raise all of these
        names = getattr(open_image, "names", None)
        which = names[position] if names else f"number {position}"
        raise ValueError(f"image {which} of {open_image} cannot be read: {broken}.") from None


def to_pixels(image: "Image", size: int | None, fit: Literal["stretch", "crop"] = "stretch") -> NDArray[np.uint8]:
    """Decode to uint8 RGB (3, size, size), or as large as it is if ``size`` is None; upright as its EXIF data say.

    Examples:
        >>> from PIL import Image
        >>> to_pixels(Image.new("L", (30, 20), 7), 10, "crop").shape
        (3, 10, 10)
    """
    from PIL import Image, ImageOps

    if size is not None and image.format in ("JPEG", "MPO"):  # phones write the latter
        image.draft("RGB", (2 * size, 2 * size))  # decodes at a fraction of the size where that is still twice enough
    image = _eight_bits(ImageOps.exif_transpose(image)).convert("RGB")
    if size is not None and fit == "crop":
        image = ImageOps.fit(image, (size, size), Image.Resampling.BILINEAR)
    elif size is not None and image.size != (size, size):
        image = image.resize((size, size), Image.Resampling.BILINEAR)
    return np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1))


def _eight_bits(image: "Image") -> "Image":
    """Return an image of 8 bits a channel; of more bits the highest are kept, where it is known which those are."""
    from PIL import Image

    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise ValueError(f"its values are of mode {image.mode}, whose range nobody knows: save it with 8 or 16 bits")
    return image
