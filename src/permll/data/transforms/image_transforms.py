"""Transforms of image batches.

A transform is called as ``transform(batch, keys)``: the batch is (B, C, H, W); the keys (B,), on the CPU, determine all
random draws. torchvision's transforms draw from global random state, one image at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from permll.data.transforms.counter_rng import fold_in, uniform
from permll.data.transforms.geometry import Padding, crop, horizontal_flip, pad

Transform = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Compose:
    """Transforms one after the other, with independent draws.

    Examples:
        >>> view = Compose(RandomCrop(padding=4), RandomHorizontalFlip(), Normalize((0.5,), (0.25,)))
        >>> view(torch.zeros(2, 1, 28, 28, dtype=torch.uint8), torch.tensor([1, 2])).unique()
        tensor([-2.])
    """

    steps: tuple[Transform, ...]

    def __init__(self, *steps: Transform) -> None:
        object.__setattr__(self, "steps", steps)

    def __call__(self, batch: Tensor, keys: Tensor) -> Tensor:
        """Return the batch after all transforms."""
        for number, step in enumerate(self.steps):
            batch = step(batch, fold_in(keys, number))
        return batch


@dataclass(frozen=True)
class RandomCrop:
    """Random crop of ``size`` x ``size`` pixels, or of the original size after padding."""

    size: int | None = None
    padding: int = 0
    mode: Padding = "reflect"

    def __call__(self, batch: Tensor, keys: Tensor) -> Tensor:
        """Return (B, C, size, size)."""
        height, width = (self.size, self.size) if self.size else tuple(batch.shape[2:])
        batch = pad(batch, self.padding, self.mode)
        choices = [length - size + 1 for length, size in zip(batch.shape[2:], (height, width), strict=True)]
        if min(choices) < 1:
            raise ValueError(f"a crop of {height} x {width} is larger than images of {_size(batch)} pixels.")
        top, left = (uniform(keys, 2) * torch.tensor(choices)).long().to(batch.device).unbind(1)
        return crop(batch, top, left, height, width)


@dataclass(frozen=True)
class CenterCrop:
    """Central crop of ``size`` x ``size`` pixels."""

    size: int

    def __call__(self, batch: Tensor, keys: Tensor) -> Tensor:  # noqa: ARG002
        """Return (B, C, size, size)."""
        top, left = ((length - self.size) // 2 for length in batch.shape[2:])
        if min(top, left) < 0:
            raise ValueError(f"a crop of {self.size} x {self.size} is larger than images of {_size(batch)} pixels.")
        return batch[:, :, top : top + self.size, left : left + self.size]


@dataclass(frozen=True)
class RandomHorizontalFlip:
    """Horizontal flip with probability ``p``."""

    p: float = 0.5

    def __call__(self, batch: Tensor, keys: Tensor) -> Tensor:
        """Return the batch with some images flipped."""
        return horizontal_flip(batch, (uniform(keys, 1)[:, 0] < self.p).to(batch.device))


@dataclass(frozen=True)
class Cutout:
    """Square of ``size`` pixels around a random pixel, filled with ``fill``; at the border part of it lies outside.

    After ``Normalize``, a ``fill`` of 0 is the mean color, as published.
    """

    size: int
    fill: float = 0.0

    def __call__(self, batch: Tensor, keys: Tensor) -> Tensor:
        """Return the batch with a filled square in each image."""
        masks = []
        for draw, length in zip(uniform(keys, 2).to(batch.device).unbind(1), batch.shape[2:], strict=True):
            first = (draw[:, None] * length).long() - self.size // 2
            positions = torch.arange(length, device=batch.device)
            masks.append((positions >= first) & (positions < first + self.size))
        return batch.masked_fill(masks[0][:, None, :, None] & masks[1][:, None, None, :], self.fill)


@dataclass(frozen=True)
class Normalize:
    """From uint8 to float32: (value / 255 - mean) / std, per channel."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, batch: Tensor, keys: Tensor) -> Tensor:  # noqa: ARG002
        """Return float32 (B, C, H, W)."""
        if batch.dtype != torch.uint8:
            raise TypeError(f"Normalize takes uint8 images, got {batch.dtype}: use it once, after uint8 transforms.")
        mean, std = (torch.tensor(values, device=batch.device)[:, None, None] for values in (self.mean, self.std))
        return batch.to(torch.float32).mul_(1 / (255 * std)).sub_(mean / std)


def _size(batch: Tensor) -> str:
    return f"{batch.shape[2]} x {batch.shape[3]}"
