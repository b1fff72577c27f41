"""Files of tensors in the safetensors format, written in pieces: a table as large as memory needs no second one."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

PIECE = 64 * 2**20  # bytes that are under way at once
_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def write_tensors(file: IO[bytes], tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors as ``safetensors`` reads them: a head in JSON, then the bytes of each, the widest types first.

    Args:
        file: open for writing.
        tensors: by name, on any device, contiguous or not; two may share their memory.
        metadata: for the head.
    """
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))  # so that all begin aligned
    head: dict[str, Any] = {"__metadata__": dict(metadata)}
    begin = 0
    for name in order:
        tensor = tensors[name]
        end = begin + tensor.numel() * tensor.element_size()
        head[name] = {"dtype": _name_of(name, tensor), "shape": list(tensor.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for name in order:
        for piece in pieces(tensors[name].detach()):
            file.write(piece.numpy().data)


def pieces(tensor: Tensor, size: int = PIECE) -> Iterator[Tensor]:
    """Yield the bytes of a tensor in order, uint8 in the memory of the host, at most ``size`` at a time.

    Examples:
        >>> [len(piece) for piece in pieces(torch.zeros(5, 2), size=16)]
        [16, 16, 8]
    """
    if tensor.ndim == 0:
        tensor = tensor[None]
    if tensor.numel() == 0:
        return
    row = tensor[0].numel() * tensor.element_size()
    if row > size and tensor.ndim > 1:
        for part in tensor:
            yield from pieces(part, size)
        return
    rows = max(size // row, 1)
    for start in range(0, len(tensor), rows):
        yield tensor[start : start + rows].cpu().contiguous().flatten().view(torch.uint8)


def _name_of(name: str, tensor: Tensor) -> str:
    if tensor.dtype not in _NAMES:
        raise TypeError(f"{name} holds {tensor.dtype}, which no file of tensors can.")
    return _NAMES[tensor.dtype]


def write_file(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write a file of tensors, and wait until it is on the disk."""
    with path.open("wb") as file:
        write_tensors(file, tensors, metadata)
        file.flush()
        os.fsync(file.fileno())
