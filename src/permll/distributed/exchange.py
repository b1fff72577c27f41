"""Rows of a batch from all processes, for per-sample state that every process holds in full."""

import json
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from permll.distributed.process_group import all_gather

HEADER_BYTES = 512


class SharedProcessGroup:
    """A process group of ``torch.distributed`` that copies of its owner share; None stands for all processes.

    Args:
        group: the group. It cannot be pickled: a pickled owner gets the group of all processes.
    """

    def __init__(self, group: Any = None) -> None:
        self.group = group

    def __deepcopy__(self, memo: dict[int, Any]) -> "SharedProcessGroup":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return SharedProcessGroup, ()

    @property
    def is_single(self) -> bool:
        """Whether there is no other process."""
        if not (dist.is_available() and dist.is_initialized()):
            return True
        size: int = dist.get_world_size(self.group)
        return size == 1


def gather_batches(tensors: Sequence[Tensor], group: Any = None) -> list[Tensor]:
    """Return tensors (n, ...) of all processes, concatenated in the order of ranks; a collective call.

    The number of rows may differ between processes. A process without rows passes no tensors. Each call exchanges a
    header of 512 bytes and the rows, as bytes, padded to the largest number.

    Args:
        tensors: (n, ...) each, the same number of tensors with the same dtypes and row shapes on all processes.
        group: process group of ``torch.distributed``; default: all processes.
    """
    size, device = dist.get_world_size(group), _device(group)
    rows = len(tensors[0]) if tensors else 0
    spec = [[str(tensor.dtype).removeprefix("torch."), list(tensor.shape[1:])] for tensor in tensors]
    header = json.dumps([rows, spec]).encode().ljust(HEADER_BYTES)
    gathered = all_gather(torch.frombuffer(bytearray(header), dtype=torch.uint8)[None].to(device), size, group)
    headers = [json.loads(bytes(one)) for one in gathered.cpu().numpy()]
    counts = [count for count, _ in headers]
    specs = [one for count, one in headers if count]
    if any(one != specs[0] for one in specs):
        raise ValueError(f"processes have rows of different dtypes or shapes: {specs}.")
    if not specs:
        return []
    shapes = [(getattr(torch, dtype), torch.Size(shape)) for dtype, shape in specs[0]]
    widths = [dtype.itemsize * shape.numel() for dtype, shape in shapes]
    local = torch.zeros(max(counts), sum(widths), dtype=torch.uint8, device=device)
    if rows:
        parts = [tensor.detach().reshape(rows, -1).contiguous().view(torch.uint8) for tensor in tensors]
        local[:rows] = torch.cat([part.to(device) for part in parts], 1)
    blocks = all_gather(local, size, group).unflatten(0, (size, max(counts)))
    table = torch.cat([block[:count] for block, count in zip(blocks, counts, strict=True)])
    return [
        part.contiguous().view(dtype).reshape(len(table), *shape)
        for part, (dtype, shape) in zip(table.split(widths, 1), shapes, strict=True)
    ]


def _device(group: Any) -> torch.device:
    """Return the device of tensors that the group's backend exchanges."""
    if "nccl" in dist.get_backend(group) and torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")
