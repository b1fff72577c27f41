"""Tensors in a file: what is larger than memory stays on disk, and the pages in use come and go by themselves.

A file has a page of JSON at its head, which says what it holds, and then the tensors one after the other. The head is
written last: a file without it, or with another one, was left unfinished or is somebody else's, and is never touched.
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

PAGE, ALIGNED = 4096, 64
Layout = Mapping[str, tuple[tuple[int, ...], torch.dtype]]  # shape and dtype of each tensor


def map_tensors(path: Path, layout: Layout, about: Mapping[str, Any]) -> tuple[dict[str, Tensor], bool]:
    """Return the tensors that share their memory with a file, and whether they were there already.

    Args:
        path: of the file, which is made if there is none, full of zeros.
        layout: what it is to hold.
        about: what it must say of itself to be taken up again; ``finish`` writes it.
    """
    found = _head(path)
    if found is not None and found != _plain(about):
        differs = [key for key in {**found, **about} if found.get(key) != _plain(about).get(key)]
        raise ValueError(f"{path} holds other rows (other {', '.join(differs)}): delete it, or name another file.")
    places, end = {}, PAGE
    for name, (shape, dtype) in layout.items():
        places[name] = end
        end += -(-math.prod(shape) * dtype.itemsize // ALIGNED) * ALIGNED
    try:
        pages = _pages(path, end)
    except OSError as problem:
        raise OSError(
            f"{path} could not be made with {end:,} bytes ({problem}): name one where there is room."
        ) from None
    # Not torch.from_file: its tensors would be parts of one storage, which torch.save refuses if their dtypes differ.
    tensors = {
        name: torch.frombuffer(pages, dtype=dtype, count=math.prod(shape), offset=places[name]).view(shape)
        for name, (shape, dtype) in layout.items()
    }
    return tensors, found is not None


def finish(path: Path, about: Mapping[str, Any]) -> None:
    """Write the head of a file whose tensors have their first values."""
    with path.open("r+b") as file:
        file.write(json.dumps(about).encode().ljust(PAGE, b" "))
        file.flush()
        os.fsync(file.fileno())


def _pages(path: Path, size: int) -> mmap.mmap:
    """Return a file's bytes, made as many as needed: room on the disk is asked for now, since later it is a crash."""
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


def temporary_file() -> Path:
    """Return a new, empty file in the folder for temporary ones, which ``TMPDIR`` names."""
    descriptor, name = tempfile.mkstemp(prefix="permll-", suffix=".rows")
    os.close(descriptor)
    return Path(name)


def forget(path: Path) -> None:
    """Take a mapped file's name away: its pages go when nobody uses them any more, even after a crash."""
    try:
        path.unlink()
    except PermissionError:  # where a file in use keeps its name
        atexit.register(partial(path.unlink, missing_ok=True))


def _head(path: Path) -> dict[str, Any] | None:
    """Return what a file says of itself; nothing, if there is none or it is empty."""
    try:
        with path.open("rb") as file:
            page = file.read(PAGE)
    except FileNotFoundError:
        return None
    if not page:
        return None
    try:
        found = json.loads(page)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"{path} is no finished file of rows, and is not written over: delete it, or name another.")
    return found


def _plain(about: Mapping[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(about))
