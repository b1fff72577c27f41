"""Arrays with the shape of images: uint8, or floats in [0, 1]."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from permll.data.inputs import Images
from permll.utils.messages import format_list

Array = NDArray[Any]
ROUNDED = "values in [0, 1] were multiplied by 255 and rounded to pixels"
_CHANNELS = (1, 3)
_TOLERANCE = 1e-6  # of resizing in float32


def has_image_shape(array: Array | Tensor) -> bool:
    """Return whether an array is (N, H, W, C) or (N, C, H, W) with one or three channels.

    Examples:
        >>> has_image_shape(np.zeros((5, 3, 8, 8))), has_image_shape(np.zeros((5, 8, 8)))
        (True, False)
    """
    return array.ndim == 4 and (array.shape[1] in _CHANNELS or array.shape[3] in _CHANNELS)


def from_uint8(array: Array, name: str) -> Images:
    """Return uint8 (N, H, W), or with channels first or last, as images."""
    if array.ndim == 4 and not has_image_shape(array):
        raise ValueError(f"{name} must be images of 1 or 3 channels, channels first or last, got shape {array.shape}.")
    if array.ndim == 3:
        array = array[:, None]
    elif array.shape[3] in _CHANNELS:
        array = array.transpose(0, 3, 1, 2)
    return Images(torch.from_numpy(np.require(array, requirements=["C", "W"])))


def from_fractions(array: Array, name: str) -> Images:
    """Return floats in [0, 1] with the shape of images as images.

    Examples:
        >>> from_fractions(np.full((2, 1, 4, 4), 0.5), "x").pixels.unique()
        tensor([128], dtype=torch.uint8)
    """
    bad = np.flatnonzero(~np.isfinite(array).all((1, 2, 3))).tolist()
    if bad:
        raise ValueError(f"{name} holds NaN or infinity in {format_list(bad, 'row')}: correct or remove those rows.")
    low, high = float(array.min()), float(array.max())
    if array.dtype.kind != "f" or low < -_TOLERANCE or high > 1 + _TOLERANCE:
        raise ValueError(
            f"{name} has the shape of images, {array.shape}, but holds {array.dtype} from {low:.4g} to {high:.4g}: "
            "give uint8 or floats in [0, 1], or flatten it to (N, F) for vectors."
        )
    pixels = np.empty(array.shape, np.uint8)
    for row, image in enumerate(array):  # one at a time: a float32 copy of all may not fit in memory
        np.rint(image.astype(np.float32) * 255, out=pixels[row], casting="unsafe")
    return from_uint8(pixels, name)
