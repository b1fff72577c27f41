"""Decoding of images: from PIL images, in files or datasets, to uint8 pixels."""

import math
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from permll.data.inputs import Fit, Images, LazyImages
from permll.utils.messages import format_list
from permll.utils.progress_bar import progress

ShrinkTo = int | Callable[[], int | None] | None  # side of downscaled images, or a function that returns it

if TYPE_CHECKING:
    from PIL.Image import Image

SMALL_IMAGE_SIZE = 64  # images up to this side are kept in memory
MAX_BYTES = 2 << 30  # of images in memory
_GRAY_MODES = ("L", "1")
_UNKNOWN_RANGE_MODES = ("I", "F")  # 32-bit modes without a defined range of values
_OPEN_ERRORS = {
    "FileNotFoundError": "file not found",
    "PermissionError": "permission denied",
    "UnidentifiedImageError": "not an image",
    "DecompressionBombError": "too large",
}
_CHUNK = 64  # images per task: one task per image would need too much memory for a million images


class FileOpener:
    """Position -> PIL image, for files in a folder; picklable."""

    def __init__(self, root: Path, names: tuple[str, ...]) -> None:
        self.root, self.names = root, names

    def __call__(self, position: int) -> "Image":
        """Open a file; Pillow decodes it when its pixels are read."""
        from PIL import Image, UnidentifiedImageError

        path = self.root / self.names[position]
        try:
            return Image.open(path)
        except UnidentifiedImageError:
            raise ValueError(f"{path} is not an image.") from None

    def __repr__(self) -> str:
        return f"files in {self.root}"


class UnreadableImagesError(ValueError):
    """Images of a dataset that cannot be decoded; ``names`` holds all of them."""

    def __init__(self, folder: Path, errors: Mapping[str, str]) -> None:
        super().__init__(f"{format_list(format_reasons(errors), 'image')} in {folder} cannot be read: copy each again.")
        self.names = tuple(errors)


def to_pixels(image: "Image", size: int | None, fit: Fit = "stretch") -> NDArray[np.uint8]:
    """Decode to uint8 RGB (3, size, size), in the original size if ``size`` is None; EXIF rotation is applied.

    Examples:
        >>> from PIL import Image
        >>> to_pixels(Image.new("L", (30, 20), 7), 10, "crop").shape
        (3, 10, 10)
    """
    from PIL import Image, ImageOps

    if size is not None and image.format in ("JPEG", "MPO"):  # phones write the latter
        image.draft("RGB", (2 * size, 2 * size))  # decodes at a reduced scale, at least twice the target size
    image = _to_8_bit(ImageOps.exif_transpose(image)).convert("RGB")
    if size is not None and fit == "crop":
        image = ImageOps.fit(image, (size, size), Image.Resampling.BILINEAR)
    elif size is not None and image.size != (size, size):
        image = image.resize((size, size), Image.Resampling.BILINEAR)
    return np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1))


def decode_image(open_image: "Callable[[int], Image]", position: int, size: int, fit: Fit) -> NDArray[np.uint8]:
    """Open and decode the image at ``position``; the error message names an image that cannot be read."""
    try:
        with open_image(position) as image:
            return to_pixels(image, size, fit)
    except (OSError, ValueError, SyntaxError) as error:  # Pillow's decoders raise all of these
        names = getattr(open_image, "names", None)
        name = names[position] if names else f"number {position}"
        raise ValueError(f"image {name} of {open_image} cannot be read: {error}.") from None


@dataclass(frozen=True, eq=False)
class DecodedImages:
    """Result of decoding N images once.

    ``pixels`` are uint8 (N, 3, H, W), undefined where an image cannot be read; None if the images differ in size or are
    too large or too many to keep.
    """

    images: LazyImages
    size: int | None  # side to which they were resized; None for their original size
    sizes: NDArray[np.int32]  # (N, 2) height and width after resizing; 0 where an image cannot be read
    is_gray: NDArray[np.bool_]  # (N,) whether an image has one channel
    errors: Mapping[int, str]  # row -> why the image cannot be read, "" if unknown
    pixels: NDArray[np.uint8] | None
    is_shrunk: bool = False  # whether the pixels are those of downscaled images, to be kept beside the original ones

    def select(self, rows: Sequence[int]) -> Images | LazyImages:
        """Return readable images at ``rows``: in memory if they are small and of one size, otherwise lazily.

        Images that are all gray have one channel in memory.
        """
        pixels, images = self.pixels, self.images.take(torch.tensor(rows, dtype=torch.int64))
        if self.is_shrunk and len(rows) < len(self.sizes) and _are_small(images):
            return decode_images(images).select(range(len(rows)))  # only the other rows were large
        if pixels is None:
            sizes = self.sizes[rows]
            is_small = bool((sizes == sizes[0]).all()) and _fits(len(rows), sizes[0].tolist())
            if self.is_shrunk or len(rows) == len(self.sizes) or not is_small:
                return images
            return decode_images(images, self.size).select(range(len(rows)))  # only the other rows differed in size
        pixels = pixels if len(rows) == len(pixels) else pixels[rows]
        in_memory = Images(torch.from_numpy(pixels[:, :1].copy() if self.is_gray[rows].all() else pixels))
        return replace(images, small=in_memory) if self.is_shrunk else in_memory


def decode_images(
    images: LazyImages,
    size: int | None = None,
    *,
    shrink_to: ShrinkTo = None,
    max_side: int = SMALL_IMAGE_SIZE,
    max_bytes: int = MAX_BYTES,
    stop_early: bool = False,
) -> DecodedImages:
    """Decode every image once, in threads: find those that cannot be read, and keep the pixels of small ones.

    Args:
        images: N images; their ``fit`` is used.
        size: side to resize to; default the original size.
        shrink_to: side to resize to if ``size`` is None, unless all images are small and of one size; or a function
            that returns it, called only if it matters.
        max_side: largest side of images whose pixels are kept.
        max_bytes: largest total size of the pixels that are kept.
        stop_early: stop as soon as it is known that the pixels cannot be kept.
    """
    count = len(images)
    sizes, is_gray = np.zeros((count, 2), np.int32), np.zeros(count, np.bool_)
    errors: dict[int, str] = {}
    pixels: NDArray[np.uint8] | None = None
    can_keep, lock = max_side > 0, threading.Lock()
    is_shrunk = False
    if size is None and shrink_to is not None and not _are_small(images):
        size = shrink_to() if callable(shrink_to) else shrink_to
        is_shrunk = size is not None

    def decode(start: int) -> None:
        for row in range(start, min(start + _CHUNK, count)):
            if stop_early and not can_keep:
                return
            mode = ""
            try:
                with images.open_image(row) as image:
                    mode = image.mode
                    decoded = to_pixels(image, size, images.fit)
            except Exception as error:  # a damaged image can raise anything
                errors[row] = _reason(error, mode)
            else:
                sizes[row], is_gray[row] = decoded.shape[1:], mode in _GRAY_MODES
                keep(row, decoded)

    def keep(row: int, decoded: NDArray[np.uint8]) -> None:
        nonlocal pixels, can_keep
        with lock:
            if can_keep and pixels is None and _fits(count, decoded.shape[1:], max_side, max_bytes):
                pixels = np.empty((count, *decoded.shape), np.uint8)
            if pixels is None or decoded.shape != pixels.shape[1:]:
                pixels, can_keep = None, False
            else:
                pixels[row] = decoded

    starts = range(0, count, _CHUNK)
    threads = min(32, (os.cpu_count() or 1) + 4)
    with progress("decoding images", count) as advance, ThreadPoolExecutor(threads) as pool:
        try:
            for start, _ in zip(starts, pool.map(decode, starts), strict=True):
                advance(min(_CHUNK, count - start))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # Ctrl-C must not wait for a million images
            raise
    return DecodedImages(images, size, sizes, is_gray, dict(sorted(errors.items())), pixels, is_shrunk)


def find_unreadable(images: LazyImages, names: Sequence[str]) -> dict[str, str]:
    """Decode every image and return the names (N) of those that cannot be read, each with the reason or ""."""
    return {names[row]: reason for row, reason in decode_images(images, max_side=0).errors.items()}


def format_reasons(errors: Mapping[str, str]) -> list[str]:
    """Return names with their reasons.

    Examples:
        >>> format_reasons({"a.jpg": "damaged", "b.jpg": ""})
        ['a.jpg: damaged', 'b.jpg']
    """
    return [f"{name}: {reason}" if reason else name for name, reason in errors.items()]


def _fits(count: int, shape: Sequence[int], max_side: int = SMALL_IMAGE_SIZE, max_bytes: int = MAX_BYTES) -> bool:
    return max(shape) <= max_side and 3 * count * math.prod(shape) <= max_bytes


def _are_small(images: LazyImages) -> bool:
    """Return whether all images are small and of one size; only headers are read, up to the first other image."""
    sizes = set()
    for row in range(len(images)):
        try:
            with images.open_image(row) as image:
                sizes.add(tuple(sorted(image.size)))  # EXIF rotation may exchange width and height
        except Exception:  # found again when it is decoded
            continue
        if len(sizes) > 1 or max(image.size) > SMALL_IMAGE_SIZE:
            return False
    return True


def _reason(error: Exception, mode: str) -> str:
    """Return why an image cannot be read; ``mode`` is its mode if it could be opened."""
    if mode:
        is_mode_error = isinstance(error, ValueError) and mode in _UNKNOWN_RANGE_MODES
        return f"unsupported mode {mode}" if is_mode_error else "damaged"
    if reason := _OPEN_ERRORS.get(type(error).__name__):
        return reason
    if isinstance(error, ValueError):  # raised by FileOpener for a file that is not an image
        return "not an image"
    return "damaged" if isinstance(error, OSError | SyntaxError | EOFError) else ""


def _to_8_bit(image: "Image") -> "Image":
    """Return an image with 8 bits per channel; of 16 bits the highest 8 are used."""
    from PIL import Image

    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in _UNKNOWN_RANGE_MODES:
        raise ValueError(f"mode {image.mode} has no defined range of values; save the image with 8 or 16 bits")
    return image
