"""Memory-mapped tensors in one file, for per-sample state larger than memory.

A file starts with a JSON header that describes its content, followed by the tensors. The header is written last. A file
with a missing or different header is incomplete or belongs to something else, and is never overwritten.
"""

import atexit
import json
import math
import mmap
import os
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

HEADER_SIZE, ALIGNMENT = 4096, 64  # bytes
Layout = Mapping[str, tuple[tuple[int, ...], torch.dtype]]  # shape and dtype of each tensor


def map_tensors(path: Path, layout: Layout, metadata: Mapping[str, Any]) -> tuple[dict[str, Tensor], bool]:
    """Return tensors backed by a file, and whether the file already held them.

    Args:
        path: the file, which is created with zeros if it does not exist.
        layout: shape and dtype of each tensor.
        metadata: expected header of an existing file; ``write_header`` writes it to a new one.
    """
    header = _read_header(path)
    if header is not None and header != _to_json(metadata):
        differs = [key for key in {**header, **metadata} if header.get(key) != _to_json(metadata).get(key)]
        raise ValueError(
            f"{path} was written for another table (different {', '.join(differs)}): delete it or use another path."
        )
    offsets, size = {}, HEADER_SIZE
    for name, (shape, dtype) in layout.items():
        offsets[name] = size
        size += -(-math.prod(shape) * dtype.itemsize // ALIGNMENT) * ALIGNMENT
    try:
        buffer = _map_file(path, size)
    except OSError as error:
        raise OSError(
            f"{path} could not be created with {size:,} bytes ({error}): use a disk with more free space."
        ) from None
    # Not torch.from_file: its tensors share one storage, which torch.save refuses if dtypes differ.
    tensors = {
        name: torch.frombuffer(buffer, dtype=dtype, count=math.prod(shape), offset=offsets[name]).view(shape)
        for name, (shape, dtype) in layout.items()
    }
    return tensors, header is not None


def write_header(path: Path, metadata: Mapping[str, Any]) -> None:
    """Mark a file as complete, after its tensors were initialized."""
    with path.open("r+b") as file:
        file.write(json.dumps(metadata).encode().ljust(HEADER_SIZE, b" "))
        file.flush()
        os.fsync(file.fileno())


def temporary_file() -> Path:
    """Return a new, empty file in the directory for temporary files (``TMPDIR``)."""
    descriptor, name = tempfile.mkstemp(prefix="permll-", suffix=".rows")
    os.close(descriptor)
    return Path(name)


def unlink_mapped(path: Path) -> None:
    """Remove a mapped file's name, so that the system frees it when the process ends, even after a crash."""
    try:
        path.unlink()
    except PermissionError:  # Windows cannot unlink an open file
        atexit.register(partial(path.unlink, missing_ok=True))


def _map_file(path: Path, size: int) -> mmap.mmap:
    """Map a file of ``size`` bytes. Disk space is allocated now, since running out of it later crashes the process."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if os.fstat(descriptor).st_size < size:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, 0, size)
            else:
                os.ftruncate(descriptor, size)
        return mmap.mmap(descriptor, size)
    finally:
        os.close(descriptor)


def _read_header(path: Path) -> dict[str, Any] | None:
    """Return the header of a file; None if the file is missing or empty."""
    try:
        with path.open("rb") as file:
            page = file.read(HEADER_SIZE)
    except FileNotFoundError:
        return None
    if not page:
        return None
    try:
        header = json.loads(page)
    except ValueError:
        header = None
    if not isinstance(header, dict):
        raise ValueError(
            f"{path} is not a complete file of rows and is not overwritten: delete it or use another path."
        )
    return header


def _to_json(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(metadata))
