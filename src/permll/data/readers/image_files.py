"""Images behind a position: whether they open, and the small ones into memory."""

import math
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from permll.data.decoding import to_pixels
from permll.data.inputs import Images, LazyImages
from permll.data.verify import unreadable, with_reasons
from permll.utils.messages import format_list
from permll.utils.progress import progress

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
SMALL = 64
_MOST_BYTES = 2 << 30  # beyond that, small images too are opened when they are needed
_GREY = ("L", "1")
_CHUNK = 4096


def broken(images: LazyImages, names: Sequence[str], *, skip: bool) -> dict[str, str]:
    """Return the names of the images that cannot be read, with why; refuse them in one sentence unless ``skip``."""
    bad = unreadable(images, names)
    if bad and not skip:
        raise ValueError(
            f"{format_list(with_reasons(bad), 'image')} cannot be read: mend or replace each, or pass skip_unreadable=True "
            "to go on without."
        )
    if bad and len(bad) == len(names):
        raise ValueError(f"none of the images can be read: {format_list(with_reasons(bad), 'image')}.")
    return bad


def small(images: LazyImages, names: Sequence[str], size: int | None = None) -> Images | LazyImages:
    """Return the images decoded into memory if all have one size of at most 64 x 64, or are to be resized to one.

    Images that are all grey keep their one channel. An image of another size sends all of them back as they came.
    """

    def decode(row: int) -> tuple[NDArray[np.uint8], bool]:
        try:
            with images.open(int(images.rows[row])) as image:
                gray = image.mode in _GREY
                return to_pixels(image, size, images.fit), gray
        except (OSError, ValueError, SyntaxError) as problem:  # Pillow's decoders raise all of these
            raise ValueError(f"image {names[row]} cannot be read: {problem}; check=True lists all of these.") from None

    shape = decode(0)[0].shape
    if max(shape) > SMALL or len(images) * math.prod(shape) > _MOST_BYTES:
        return images
    pixels = np.empty((len(images), *shape), np.uint8)

    def fill(row: int) -> bool | None:
        decoded, gray = decode(row)
        if decoded.shape != shape:
            return None
        pixels[row] = decoded
        return gray

    gray = _each(fill, len(images), "reading images")
    if None in gray:
        return images
    return Images(torch.from_numpy(pixels[:, :1].copy() if all(gray) else pixels))


def is_image(value: object) -> bool:
    """Return whether a value is a PIL image; PIL is not imported to find out."""
    return any(kind.__module__ == "PIL.Image" and kind.__name__ == "Image" for kind in type(value).__mro__)


class OpenItem:
    """Position -> PIL image, for anything with items: a list, or a data set whose items hold it under ``key``.

    Images are opened in threads, which a data set of somebody else's may not be made for: it is asked for one item at
    a time.
    """

    def __init__(self, items: Any, key: int | str | None = None) -> None:
        self.items, self.key, self.lock = items, key, threading.Lock()

    def __call__(self, position: int) -> "Image":
        """Return the image of an item."""
        with self.lock:
            item = self.items[position]
        return item if self.key is None else item[self.key]

    def __repr__(self) -> str:
        return f"a {type(self.items).__name__}"

    def __reduce__(self) -> tuple[type, tuple[Any, int | str | None]]:
        """Leave the lock behind: it cannot be sent to workers, and each makes its own."""
        return OpenItem, (self.items, self.key)


def _each(work: Callable[[int], bool | None], count: int, what: str) -> list[bool | None]:
    """Run ``work`` on 0..count-1 in threads, with a bar; end early after a None."""
    results: list[bool | None] = []
    with progress(what, count) as advance, ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for start in range(0, count, _CHUNK):  # a million tasks at once would be a gigabyte of them
            for result in pool.map(work, range(start, min(start + _CHUNK, count))):
                results.append(result)
                advance()
            if None in results[start:]:
                break
    return results
