"""Images in files and in datasets of PIL images: opened by position, and loaded into memory if small."""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import torch

from permll.data.decoding import SMALL_IMAGE_SIZE as SMALL_IMAGE_SIZE
from permll.data.decoding import DecodedImages, FileOpener, ShrinkTo, decode_images, format_reasons
from permll.data.inputs import Images, LazyImages
from permll.utils.messages import format_list

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")


def check_readable(decoded: DecodedImages, names: Sequence[str], *, skip: bool) -> Mapping[str, str]:
    """Return the names of the images that cannot be read, with the reasons; raise if there are any, unless ``skip``."""
    errors = {names[row]: reason for row, reason in decoded.errors.items()}
    if errors and not skip:
        raise ValueError(
            f"{format_list(format_reasons(errors), 'image')} cannot be read: repair or replace them, or pass "
            "skip_unreadable=True to leave them out."
        )
    if errors and len(errors) == len(names):
        raise ValueError(f"none of the images can be read: {format_list(format_reasons(errors), 'image')}.")
    return errors


def load_small_images(
    images: LazyImages, names: Sequence[str], size: int | None = None, shrink_to: ShrinkTo = None
) -> Images | LazyImages:
    """Return images in memory if all have one size of at most 64 x 64, or are resized to it; otherwise ``images``.

    Each file is decoded once; the error names all images that cannot be read. Images that are all gray get one channel.
    """
    if images.small is not None and images.small.pixels.shape[2] == size:
        return images.small
    decoded = decode_images(images, size, shrink_to=shrink_to, stop_early=True)
    if decoded.pixels is not None or len(decoded.errors) == len(images):
        check_readable(decoded, names, skip=False)
    return decoded.select(range(len(images)))


def is_image(value: object) -> bool:
    """Return whether a value is a PIL image, without importing PIL."""
    return any(kind.__module__ == "PIL.Image" and kind.__name__ == "Image" for kind in type(value).__mro__)


def are_image_paths(values: Any) -> TypeGuard[Sequence[str | Path]]:
    """Return whether all values are paths of images, by their suffixes.

    Examples:
        >>> are_image_paths(["a.png", Path("b/c.JPG")]), are_image_paths(["a.png", "no path"])
        (True, False)
    """
    if not isinstance(values, list | tuple) or not values:
        return False
    return all(isinstance(value, str | Path) and str(value).lower().endswith(SUFFIXES) for value in values)


def image_files(root: Path, paths: Sequence[str], where: str = "") -> LazyImages:
    """Return the images at ``paths``; the error names all that do not exist.

    Args:
        root: absolute folder for relative paths.
        paths: N paths, relative or absolute.
        where: origin of the paths in the error message, like " of column 'file'".
    """
    files = tuple(str(Path(path).expanduser()) for path in paths)
    missing = [path for path, file in zip(paths, files, strict=True) if not (root / file).is_file()]
    if missing:
        raise FileNotFoundError(f"file not found for {format_list(missing, 'image')}{where}, relative to {root}.")
    return LazyImages(FileOpener(root, files), torch.arange(len(files)))


class ItemOpener:
    """Position -> PIL image, for a list or a dataset whose items hold the image under ``key``; picklable.

    Images are decoded in threads, but a dataset may not be thread-safe: it is accessed by one thread at a time.
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
        """Leave out the lock, which cannot be pickled."""
        return ItemOpener, (self.items, self.key)
