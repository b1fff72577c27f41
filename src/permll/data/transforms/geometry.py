"""Geometric operations on whole batches (B, C, H, W): padding, crops, flips and affine maps, one per image."""

from typing import Literal

import numpy as np
import torch
from torch import Tensor

Padding = Literal["zero", "reflect"]


def pad(x: Tensor, width: int, mode: Padding) -> Tensor:
    """Return (B, C, H + 2 width, W + 2 width), padded with zeros or by reflection without the edge pixels.

    The reflection of ``torch.nn.functional.pad`` supports uint8 only in recent versions and on the CPU.

    Examples:
        >>> pad(torch.tensor([[[[1, 2, 3]] * 3]]), 1, "reflect")[0, 0, 1]
        tensor([2, 1, 2, 3, 2])
    """
    if width == 0:
        return x
    if mode == "reflect" and width >= min(x.shape[2:]):
        raise ValueError(f"reflect padding of {width} needs larger images than {x.shape[2]} x {x.shape[3]} pixels.")
    padded = torch.nn.functional.pad(x, (width, width, width, width))
    if mode == "reflect":
        for axis in (3, 2):  # the upper and lower border then reflect the left and right ones too
            side, last = padded.transpose(3, axis), padded.shape[axis] - 1
            side[..., :width] = side[..., width + 1 : 2 * width + 1].flip(3)
            side[..., last - width + 1 :] = side[..., last - 2 * width : last - width].flip(3)
    return padded


def crop(x: Tensor, top: Tensor, left: Tensor, height: int, width: int) -> Tensor:
    """Return from each image the crop (height, width) whose upper left corner is at ``top``, ``left`` (B,).

    Examples:
        >>> crop(torch.arange(9).reshape(1, 1, 3, 3), torch.tensor([1]), torch.tensor([0]), 2, 2).flatten().tolist()
        [3, 4, 6, 7]
    """
    windows = x.unfold(2, height, 1).unfold(3, width, 1)  # (B, C, tops, lefts, height, width), a view
    if x.device.type == "cpu":  # NumPy copies whole lines, several times as fast as torch's indexing
        return torch.from_numpy(windows.numpy()[np.arange(len(x)), :, top.numpy(), left.numpy()])
    return windows[torch.arange(len(x), device=x.device), :, top, left]


def horizontal_flip(x: Tensor, mask: Tensor) -> Tensor:
    """Return the batch with the images where ``mask`` (B,) is true flipped left to right."""
    both = torch.cat([x, x.flip(3)])
    return both.index_select(0, torch.arange(len(x), device=x.device) + len(x) * mask)


def affine(x: Tensor, matrix: Tensor, fill: int) -> Tensor:
    """Apply affine maps by nearest neighbor: the value at (x, y) comes from ``matrix`` (B, 2, 3) times (x, y, 1).

    Coordinates start at the upper left corner of the image; pixel centers are at half-integers. Pixels from outside the
    image become ``fill``.
    """
    height, width = x.shape[2:]
    ys, xs = torch.meshgrid(
        torch.arange(height, device=x.device) + 0.5, torch.arange(width, device=x.device) + 0.5, indexing="ij"
    )
    grid = torch.stack([xs.flatten(), ys.flatten(), torch.ones(height * width, device=x.device)])
    source = (matrix.float() @ grid).floor().long()  # (B, 2, H W)
    column, row = source[:, 0], source[:, 1]
    outside = (column < 0) | (column >= width) | (row < 0) | (row >= height)
    position = (row * width + column).masked_fill_(outside, height * width)  # of one more pixel, which is the fill
    pixels = torch.cat([x.flatten(2), x.new_full((*x.shape[:2], 1), fill)], 2)
    return pixels.gather(2, position[:, None].expand(-1, x.shape[1], -1)).view_as(x)


def shear_matrix(x_shear: Tensor, y_shear: Tensor) -> Tensor:
    """Return matrices (B, 2, 3) that shear about the upper left corner: x + x_shear * y, y + y_shear * x."""
    one, zero = torch.ones_like(x_shear), torch.zeros_like(x_shear)
    return torch.stack([one, x_shear, zero, y_shear, one, zero], -1).unflatten(-1, (2, 3))


def translation_matrix(x_shift: Tensor, y_shift: Tensor) -> Tensor:
    """Return matrices (B, 2, 3) that shift an image left by ``x_shift`` and up by ``y_shift`` pixels."""
    one, zero = torch.ones_like(x_shift), torch.zeros_like(x_shift)
    return torch.stack([one, zero, x_shift, zero, one, y_shift], -1).unflatten(-1, (2, 3))


def rotation_matrix(degrees: Tensor, height: int, width: int) -> Tensor:
    """Return matrices (B, 2, 3) that rotate an image about its center, counterclockwise for positive ``degrees``."""
    angle = torch.deg2rad(degrees)
    cos, sin = angle.cos(), angle.sin()
    x, y = width / 2, height / 2
    rows = [cos, -sin, x - cos * x + sin * y, sin, cos, y - sin * x - cos * y]
    return torch.stack(rows, -1).unflatten(-1, (2, 3))
