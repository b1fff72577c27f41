"""The idx format of MNIST: a header with the shape, then the bytes."""

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
    """Return the array in an idx file of unsigned bytes, plain or gzipped (by its suffix).

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
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path} is truncated or damaged ({error}): get it again.") from None


def _read(file: BinaryIO, path: Path) -> NDArray[np.uint8]:
    magic = file.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] != _UNSIGNED_BYTE or not magic[3]:
        start = magic.hex(" ") or "nothing"
        raise ValueError(f"{path} is not an idx file of bytes: it begins with {start}; get it again.")
    sizes = file.read(4 * magic[3])
    if len(sizes) < 4 * magic[3]:
        raise ValueError(f"{path} is truncated in its header: get it again.")
    shape = struct.unpack(f">{magic[3]}I", sizes)
    expected = math.prod(shape)
    values = file.read(expected + 1)  # one more byte, to detect a file that is too long
    if len(values) != expected:
        header = 4 + len(sizes)
        actual = "more" if len(values) > expected else f"{header + len(values):,}"
        raise ValueError(
            f"{path} is truncated or damaged: its header announces {header + expected:,} bytes, it has {actual}; "
            "get it again."
        )
    return np.frombuffer(values, np.uint8).reshape(shape).copy()  # a copy, because bytes are read-only
