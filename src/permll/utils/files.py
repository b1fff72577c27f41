"""Atomic file writes: a reader sees the old file or the new one, never a part of it."""

import csv
import io
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` to write to; after the block it is synced to disk and renamed to ``path``.

    The block makes a file or a folder. One that raises leaves ``path`` as it was, and nothing temporary.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.part{path.suffix}")  # some writers look at the suffix
    _remove(partial)  # of a killed process with the same id
    try:
        yield partial
        _sync(partial)
        partial.replace(path)
    except BaseException:
        _remove(partial)
        raise
    _sync(path.parent)  # the new name survives a power loss, too


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file beside ``path`` for writing; see ``atomic_path``.

    Examples:
        >>> from tempfile import mkdtemp
        >>> path = Path(mkdtemp()) / "numbers.txt"
        >>> with atomic_write(path) as file:
        ...     _ = file.write(b"1 2 3")
        >>> path.read_text()
        '1 2 3'
    """
    with atomic_path(path) as partial, partial.open("wb") as file:
        yield file


def atomic_write_text(path: Path, content: str) -> None:
    """Write a UTF-8 text file with ``atomic_write``."""
    with atomic_write(path) as file:
        file.write(content.encode())


def to_csv(rows: Iterable[Iterable[object]]) -> str:
    r"""Return rows as the text of a CSV file.

    Examples:
        >>> to_csv([("id", "text"), (1, "one, two")])
        'id,text\n1,"one, two"\n'
    """
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue()


def is_partial(path: Path) -> bool:
    """Return whether this is a temporary file of ``atomic_path``, left behind by a process that was killed."""
    return re.fullmatch(r"\..+\.\d+\.part(\.\w+)?", path.name) is not None


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    if path.is_dir() and os.name != "posix":  # Windows cannot sync folders
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
