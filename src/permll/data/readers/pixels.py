"""Arrays that have the shape of images: whole numbers 0..255 as they are, fractions 0..1 made into such."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from permll.data.inputs import Images
from permll.utils.messages import format_list

Array = NDArray[Any]
ROUNDED = "values in [0, 1] are brightness: times 255 and rounded they are the pixels"
_CHANNELS = (1, 3)
_SLACK = 1e-6  # what resizing in float32 may go beyond


def looks_like_images(array: Array | Tensor) -> bool:
    """Return whether an array or tensor is (N, H, W, C) or (N, C, H, W) with one or three channels.

    Examples:
        >>> looks_like_images(np.zeros((5, 3, 8, 8))), looks_like_images(np.zeros((5, 8, 8)))
        (True, False)
    """
    return array.ndim == 4 and (array.shape[1] in _CHANNELS or array.shape[3] in _CHANNELS)


def from_bytes(array: Array, name: str) -> Images:
    """Return uint8 (N, H, W), or with channels first or last, as images."""
    if array.ndim == 4 and not looks_like_images(array):
        raise ValueError(f"{name} must be images of 1 or 3 channels, channels first or last, got shape {array.shape}.")
    return Images(torch.from_numpy(np.require(_channels_first(array), requirements=["C", "W"])))


def from_fractions(array: Array, name: str) -> Images:
    """Return values in [0, 1] of the shape of images as images; refuse others.

    Examples:
        >>> from_fractions(np.full((2, 1, 4, 4), 0.5), "x").pixels.unique()
        tensor([128], dtype=torch.uint8)
    """
    bad = np.flatnonzero(~np.isfinite(array).all((1, 2, 3))).tolist()
    if bad:
        raise ValueError(f"{name} holds NaN or infinity in {format_list(bad, 'row')}: mend or leave out those rows.")
    least, most = float(array.min()), float(array.max())
    if array.dtype.kind != "f" or least < -_SLACK or most > 1 + _SLACK:
        raise ValueError(
            f"{name} has the shape of images, {array.shape}, but holds {array.dtype} from {least:.4g} to {most:.4g}: "
            "give uint8 or fractions in [0, 1], or flatten it to (N, F) for vectors."
        )
    pixels = np.empty(array.shape, np.uint8)
    for row, image in enumerate(array):  # one at a time: a copy of all in floats may not fit
        np.rint(image.astype(np.float32) * 255, out=pixels[row], casting="unsafe")
    return from_bytes(pixels, name)


def _channels_first(array: Array) -> Array:
    if array.ndim == 3:
        return array[:, None]
    return array.transpose(0, 3, 1, 2) if array.shape[3] in _CHANNELS else array
