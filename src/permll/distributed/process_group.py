"""Process group: which process this is, and the collectives that training needs.

Process r of R takes the rows r, r + R, r + 2R, ... of a batch. Together the processes compute what one process would,
up to the order of floating-point additions.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function


class LostRankError(ConnectionError):
    """Another process of the group is gone."""


class ProcessGroup:
    """Rank and size of the group, and its collectives; with one process they do nothing.

    Args:
        rank: of this process, from 0.
        size: number of processes.
        device: of this process.

    Examples:
        >>> ProcessGroup().gather_rows(torch.arange(3), 3)
        tensor([0, 1, 2])
    """

    def __init__(self, rank: int = 0, size: int = 1, device: torch.device | str = "cpu") -> None:
        self.rank, self.size, self.device = rank, size, torch.device(device)

    @property
    def is_single(self) -> bool:
        """Whether there is only one process."""
        return self.size == 1

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0, which writes files and prints."""
        return self.rank == 0

    @property
    def local_rows(self) -> slice:
        """The rows of this process in a batch or table of all processes."""
        return slice(self.rank, None, self.size)

    def gather_rows(self, local: Tensor, total: int) -> Tensor:
        """Return all ``total`` rows in order, from the local rows of each process; differentiable.

        The gradient of a row goes to the process that passed it. That is correct where every process computes the same
        loss from the gathered rows: summed over the processes, weight gradients are then those of that loss.
        """
        if self.is_single:
            return local
        return _GatherRows.apply(local, total, self.rank, self.size)

    def all_reduce(self, values: Tensor) -> Tensor:
        """Return the sum over the processes, without a gradient."""
        if not self.is_single:
            values = values.detach().to(self.device, copy=True)
            dist.all_reduce(values)
        return values

    def barrier(self) -> None:
        """Wait for all processes."""
        if not self.is_single:
            dist.barrier()


def all_gather(local: Tensor, size: int, group: Any = None) -> Tensor:
    """Return the tensors (n, ...) of all processes concatenated, (size * n, ...); all have the same shape."""
    gathered = local.new_empty(size * len(local), *local.shape[1:])
    # Newer versions of PyTorch renamed the function and deprecate the old name.
    collect = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    collect(gathered, local.contiguous(), group=group)
    return gathered


def is_main_process() -> bool:
    """Return whether this is the only process, or rank 0 of the default process group."""
    return not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0


class _GatherRows(Function):
    @staticmethod
    def forward(ctx: Any, local: Tensor, total: int, rank: int, size: int) -> Tensor:
        ctx.local_rows = slice(rank, None, size)
        max_rows = -(-total // size)
        padded = local
        if len(local) < max_rows:
            padded = torch.cat([local, local.new_zeros(max_rows - len(local), *local.shape[1:])])
        return all_gather(padded, size).unflatten(0, (size, max_rows)).transpose(0, 1).flatten(0, 1)[:total]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return gradient[ctx.local_rows], None, None, None
