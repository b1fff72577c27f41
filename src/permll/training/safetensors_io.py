"""Writer of the safetensors format in chunks: a table as large as memory is written without a second copy of it.

``safetensors.torch.save`` would build the whole file in memory, and refuses tensors that share it.
"""

import json
from collections.abc import Iterator, Mapping
from typing import IO, Any

import torch
from torch import Tensor

CHUNK_SIZE = 64 * 2**20  # bytes
_DTYPES = {
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
    """Write a safetensors file: a JSON header, then the bytes of each tensor, widest types first.

    Args:
        file: open for writing.
        tensors: by name, on any device, contiguous or not; they may share memory.
        metadata: of the header.
    """
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))  # keeps every tensor aligned
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    begin = 0
    for name in order:
        tensor = tensors[name]
        if tensor.dtype not in _DTYPES:
            raise TypeError(f"{name} has the type {tensor.dtype}, which safetensors does not support.")
        end = begin + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": _DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for name in order:
        for chunk in chunks(tensors[name].detach()):
            file.write(chunk.numpy().data)


def chunks(tensor: Tensor, size: int = CHUNK_SIZE) -> Iterator[Tensor]:
    """Yield the bytes of a tensor in order, as uint8 tensors on the CPU of at most ``size`` bytes.

    Examples:
        >>> [len(chunk) for chunk in chunks(torch.zeros(5, 2), size=16)]
        [16, 16, 8]
    """
    for part in tensor.flatten().split(max(size // tensor.element_size(), 1)):
        yield part.cpu().contiguous().view(torch.uint8)
