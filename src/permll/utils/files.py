"""Atomic file writes: a reader sees the old file or the new one, never a part of it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """Write a file through a temporary one beside it, synced to disk before it takes the name ``path``.

    A block that raises leaves ``path`` as it was, and no temporary file.

    Examples:
        >>> from tempfile import mkdtemp
        >>> path = Path(mkdtemp()) / "numbers.txt"
        >>> with atomic_write(path) as file:
        ...     _ = file.write(b"1 2 3")
        >>> path.read_text()
        '1 2 3'
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def atomic_write_text(path: Path, content: str) -> None:
    """Write a UTF-8 text file with ``atomic_write``."""
    with atomic_write(path) as file:
        file.write(content.encode())
