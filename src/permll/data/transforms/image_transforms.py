"""Steps of an image's view, each a small record that says what is done and, called with a batch and its keys, does it.

A view is called as ``view(batch, keys)``: the batch is (B, C, H, W), the keys (B,) are all the chance there is and stay
on the CPU wherever the batch is. A step that needs no chance ignores them. ``Chain`` puts steps one after the other and
is itself a view.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from permll.data.transforms.counter_rng import fold, uniform
from permll.data.transforms.geometry import Padding, mirror, pad, windows

Transform = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Chain:
    """Steps one after the other, each with draws of its own.

    Examples:
        >>> view = Chain(Crop(padding=4), Flip(), Normalize((0.5,), (0.25,)))
        >>> view(torch.zeros(2, 1, 28, 28, dtype=torch.uint8), torch.tensor([1, 2])).unique()
        tensor([-2.])
    """

    steps: tuple[Transform, ...]

    def __init__(self, *steps: Transform) -> None:
        object.__setattr__(self, "steps", steps)

    def __call__(self, batch: Tensor, keys: Tensor) -> Tensor:
        """Return the batch after all steps."""
        for number, step in enumerate(self.steps):
            batch = step(batch, fold(keys, number))
        return batch


@dataclass(frozen=True)
class Crop:
    """A window at random: of the image's own size after padding it, or ``size`` pixels square out of a larger image."""

    size: int | None = None
    padding: int = 0
    mode: Padding = "reflect"

    def __call__(self, batch: Tensor, keys: Tensor) -> Tensor:
        """Return (B, C, size, size)."""
        height, width = (self.size, self.size) if self.size else tuple(batch.shape[2:])
        batch = pad(batch, self.padding, self.mode)
        rooms = [have - want + 1 for have, want in zip(batch.shape[2:], (height, width), strict=True)]
        if min(rooms) < 1:
            raise ValueError(
                f"a crop of {height} x {width} does not fit into {batch.shape[2]} x {batch.shape[3]} pixels."
            )
        top, left = (uniform(keys, 2) * torch.tensor(rooms)).long().to(batch.device).unbind(1)
        return windows(batch, top, left, height, width)


@dataclass(frozen=True)
class CenterCrop:
    """The middle of the image, ``size`` pixels square."""

    size: int

    def __call__(self, batch: Tensor, keys: Tensor) -> Tensor:  # noqa: ARG002
        """Return (B, C, size, size)."""
        top, left = ((have - self.size) // 2 for have in batch.shape[2:])
        if min(top, left) < 0:
            raise ValueError(f"a crop of {self.size} pixels does not fit into {batch.shape[2]} x {batch.shape[3]}.")
        return batch[:, :, top : top + self.size, left : left + self.size]


@dataclass(frozen=True)
class Flip:
    """A mirror image, left for right, of a share ``chance`` of the images."""

    chance: float = 0.5

    def __call__(self, batch: Tensor, keys: Tensor) -> Tensor:
        """Return the batch, some of it mirrored."""
        return mirror(batch, (uniform(keys, 1)[:, 0] < self.chance).to(batch.device))


@dataclass(frozen=True)
class Cutout:
    """A square hole, ``size`` pixels wide, around a random pixel; at the border part of it falls outside.

    After ``Normalize`` a ``fill`` of 0 is the mean colour, as published.
    """

    size: int
    fill: float = 0.0

    def __call__(self, batch: Tensor, keys: Tensor) -> Tensor:
        """Return the batch with a hole in each image."""
        inside = []
        for draw, length in zip(uniform(keys, 2).to(batch.device).unbind(1), batch.shape[2:], strict=True):
            first = (draw[:, None] * length).long() - self.size // 2
            places = torch.arange(length, device=batch.device)
            inside.append((places >= first) & (places < first + self.size))
        hole = inside[0][:, None, :, None] & inside[1][:, None, None, :]
        return batch.masked_fill(hole, self.fill)


@dataclass(frozen=True)
class Normalize:
    """From uint8 to float32: (value / 255 - mean) / std, channel by channel."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, batch: Tensor, keys: Tensor) -> Tensor:  # noqa: ARG002
        """Return float32 (B, C, H, W)."""
        if batch.dtype != torch.uint8:
            raise TypeError(
                f"Normalize takes uint8 images, got {batch.dtype}: it comes once, and after all that need them."
            )
        mean, std = (torch.tensor(values, device=batch.device)[:, None, None] for values in (self.mean, self.std))
        return batch.to(torch.float32).mul_(1 / (255 * std)).sub_(mean / std)
