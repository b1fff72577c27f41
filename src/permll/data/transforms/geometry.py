"""Where pixels go: windows, mirror images and affine maps of whole batches (B, C, H, W), one for each image."""

from typing import Literal

import numpy as np
import torch
from torch import Tensor

Padding = Literal["zero", "reflect"]


def pad(x: Tensor, width: int, mode: Padding) -> Tensor:
    """Return (B, C, H + 2 width, W + 2 width), the border black or a mirror image without the edge pixels.

    Examples:
        >>> pad(torch.tensor([[[[1, 2, 3]] * 3]]), 1, "reflect")[0, 0, 1]
        tensor([2, 1, 2, 3, 2])
    """
    if width == 0:
        return x
    if mode == "reflect" and width >= min(x.shape[2:]):
        raise ValueError(f"reflect padding of {width} needs larger images than {x.shape[2]} x {x.shape[3]} pixels.")
    padded = x.new_zeros(*x.shape[:2], x.shape[2] + 2 * width, x.shape[3] + 2 * width)
    padded[:, :, width:-width, width:-width] = x
    if mode == "reflect":
        for axis in (3, 2):  # the upper and lower border then mirror the left and right ones too
            side, last = padded.transpose(3, axis), padded.shape[axis] - 1
            side[..., :width] = side[..., width + 1 : 2 * width + 1].flip(3)
            side[..., last - width + 1 :] = side[..., last - 2 * width : last - width].flip(3)
    return padded


def windows(x: Tensor, top: Tensor, left: Tensor, height: int, width: int) -> Tensor:
    """Return from each image its window (height, width) whose upper left corner is at ``top``, ``left`` (B,).

    Examples:
        >>> windows(torch.arange(9).reshape(1, 1, 3, 3), torch.tensor([1]), torch.tensor([0]), 2, 2).flatten().tolist()
        [3, 4, 6, 7]
    """
    sliding = x.unfold(2, height, 1).unfold(3, width, 1)  # (B, C, tops, lefts, height, width), a view
    if x.device.type == "cpu":  # NumPy moves whole lines here, several times as fast as torch's indexing
        return torch.from_numpy(sliding.numpy()[np.arange(len(x)), :, top.numpy(), left.numpy()])
    return sliding[torch.arange(len(x), device=x.device), :, top, left]


def mirror(x: Tensor, which: Tensor) -> Tensor:
    """Return the batch with the images where ``which`` (B,) is true flipped left to right."""
    both = torch.cat([x, x.flip(3)])
    return both.index_select(0, torch.arange(len(x), device=x.device) + len(x) * which)


def affine(x: Tensor, matrix: Tensor, fill: int) -> Tensor:
    """Move pixels by the nearest neighbour: the value at (x, y) comes from ``matrix`` (B, 2, 3) times (x, y, 1).

    Coordinates count from the upper left corner of the image, a pixel's centre lies at half numbers. What comes from
    outside becomes ``fill``.
    """
    height, width = x.shape[2:]
    ys, xs = torch.meshgrid(
        torch.arange(height, device=x.device) + 0.5, torch.arange(width, device=x.device) + 0.5, indexing="ij"
    )
    grid = torch.stack([xs.flatten(), ys.flatten(), torch.ones(height * width, device=x.device)])
    source = (matrix.float() @ grid).floor().long()  # (B, 2, H W)
    column, row = source[:, 0], source[:, 1]
    outside = (column < 0) | (column >= width) | (row < 0) | (row >= height)
    place = (row * width + column).masked_fill_(outside, height * width)  # one pixel more, that holds the fill
    pixels = torch.cat([x.flatten(2), x.new_full((*x.shape[:2], 1), fill)], 2)
    return pixels.gather(2, place[:, None].expand(-1, x.shape[1], -1)).view_as(x)


def shear_matrix(across: Tensor, down: Tensor) -> Tensor:
    """Return matrices (B, 2, 3) that shear about the upper left corner: x + across * y, y + down * x."""
    one, zero = torch.ones_like(across), torch.zeros_like(across)
    return torch.stack([torch.stack([one, across, zero], -1), torch.stack([down, one, zero], -1)], 1)


def shift_matrix(right: Tensor, down: Tensor) -> Tensor:
    """Return matrices (B, 2, 3) that move an image left by ``right`` and up by ``down`` pixels."""
    one, zero = torch.ones_like(right), torch.zeros_like(right)
    return torch.stack([torch.stack([one, zero, right], -1), torch.stack([zero, one, down], -1)], 1)


def turn_matrix(degrees: Tensor, height: int, width: int) -> Tensor:
    """Return matrices (B, 2, 3) that turn an image about its middle, against the clock for positive ``degrees``."""
    angle = torch.deg2rad(degrees)
    cos, sin = angle.cos(), angle.sin()
    x, y = width / 2, height / 2
    across = torch.stack([cos, -sin, x - cos * x + sin * y], -1)
    down = torch.stack([sin, cos, y - sin * x - cos * y], -1)
    return torch.stack([across, down], 1)
