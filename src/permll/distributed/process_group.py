"""Ranks: processes that train one method together, and the few things they tell each other.

Rank r of R takes the rows r, r + R, r + 2R, ... of whatever is dealt out. Together they do what one process would do,
to within the order in which floating-point numbers are added up.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function


class LostRankError(ConnectionError):
    """Another rank is gone."""


class Ranks:
    """Which process this is, of how many.

    Args:
        rank: this process, from 0.
        size: how many there are.
        device: where this one computes.

    Examples:
        >>> Ranks().join(torch.arange(3), 3)
        tensor([0, 1, 2])
    """

    def __init__(self, rank: int = 0, size: int = 1, device: torch.device | str = "cpu") -> None:
        self.rank, self.size, self.device = rank, size, torch.device(device)

    @property
    def alone(self) -> bool:
        """Whether this process trains by itself."""
        return self.size == 1

    @property
    def first(self) -> bool:
        """Whether this is the process that writes, and talks to people."""
        return self.rank == 0

    @property
    def own(self) -> slice:
        """Which rows are this rank's, of any that are dealt out."""
        return slice(self.rank, None, self.size)

    def join(self, own: Tensor, total: int) -> Tensor:
        """Return all ``total`` rows of which each rank has its own, in order; gradients go back to whoever had a row.

        That a row's gradient stays with its rank is right where every rank goes on with the same rows to the same
        loss: summed over the ranks, the gradients of weights are then those of that loss.
        """
        if self.alone:
            return own
        joined: Tensor = _Join.apply(own, total, self.rank, self.size)
        return joined

    def total(self, values: Tensor) -> Tensor:
        """Return the sum over the ranks of tensors of one shape, without a gradient."""
        if not self.alone:
            values = values.detach().to(self.device, copy=True)
            dist.all_reduce(values)
        return values

    def wait(self) -> None:
        """Go on when all ranks are here."""
        if not self.alone:
            dist.barrier()


def gather(own: Tensor, size: int) -> Tensor:
    """Return the tensors of all ranks one after another, (size * n, ...) of (n, ...); all have the same shape."""
    every = own.new_empty(size * len(own), *own.shape[1:])
    # Newer versions of PyTorch have it under another name, and warn of the old one.
    collect = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    collect(every, own.contiguous())
    return every


def this_is_first() -> bool:
    """Return whether this process is the only one, or the first of several that trained together."""
    return not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0


class _Join(Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, total: int, rank: int, size: int) -> Tensor:
        ctx.own = slice(rank, None, size)
        most = -(-total // size)
        padded = own
        if len(own) < most:
            padded = torch.cat([padded, padded.new_zeros(most - len(own), *own.shape[1:])])
        return gather(padded, size).unflatten(0, (size, most)).transpose(0, 1).flatten(0, 1)[:total]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return gradient[ctx.own], None, None, None
