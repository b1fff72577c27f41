"""The idx format of MNIST: a header that says how many bytes follow, then the bytes."""

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

_UNSIGNED_BYTE = 8


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Return the array in an idx file of unsigned bytes, plain or gzipped (by its ending).

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "labels-idx1-ubyte"
        >>> _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]))
        >>> read_idx(path)
        array([7, 9], dtype=uint8)
    """
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        try:
            return _read(cast(BinaryIO, file), path)
        except (EOFError, zlib.error, gzip.BadGzipFile) as broken:
            raise ValueError(f"{path} is truncated or damaged ({broken}): get it again.") from None


def _read(file: BinaryIO, path: Path) -> NDArray[np.uint8]:
    head = file.read(4)
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] != _UNSIGNED_BYTE or not head[3]:
        raise ValueError(f"{path} is no idx file of bytes: it begins with {head.hex(' ') or 'nothing'}; get it again.")
    sizes = file.read(4 * head[3])
    if len(sizes) < 4 * head[3]:
        raise ValueError(f"{path} is truncated in its header: get it again.")
    shape = struct.unpack(f">{head[3]}I", sizes)
    expected = math.prod(shape)
    values = file.read(expected + 1)  # one more than there should be, to see whether there is more
    if len(values) != expected:
        begin = 4 + len(sizes)
        found = "more" if len(values) > expected else f"{begin + len(values):,}"
        raise ValueError(
            f"{path} is truncated or damaged: its header announces {begin + expected:,} bytes, it has {found}; "
            "get it again."
        )
    return np.frombuffer(values, np.uint8).reshape(shape).copy()  # a copy, because bytes cannot be written to
