"""Where a new data set may go, and how it gets there whole or not at all."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def changes_path(out: Path) -> Path:
    """Return where the list of changes goes: beside the new data set, so that it goes where that goes.

    Examples:
        >>> changes_path(Path("fixed.csv")).name
        'fixed.csv.changes.csv'
    """
    return out.with_name(f"{out.name}.changes.csv")


def refuse_place(out: Path, beside: Path, source: Path | None, suffix: str) -> None:
    """Refuse a place that is taken, is the source or lies in it, or does not end as the form asks.

    Args:
        out: where the new data set is to go.
        beside: another file that will be written.
        source: where the data come from; None if that is no file.
        suffix: how the name must end; "" for a folder.
    """
    if not out.name:
        raise ValueError(f"{out} is no name for a new data set: add one.")
    parent = out.absolute().parent
    if not parent.is_dir():
        raise FileNotFoundError(f"there is no folder {parent} to write {out.name} to: make it first.")
    if source is not None and out.exists() and out.samefile(source):
        raise FileExistsError(f"{out} is the data set itself, which is never changed: choose another name.")
    for path in (out, beside):
        refuse_taken(path)
    if source is not None and source.is_dir() and parent.resolve().is_relative_to(source.resolve()):
        raise ValueError(f"{out} lies inside {source}, which is never changed: choose a place outside of it.")
    if suffix and out.suffix.lower() != suffix:
        raise ValueError(f"{out} will hold {suffix} data: let its name end in {suffix}.")


def refuse_taken(path: Path) -> None:
    """Refuse a name that something has already, also a link that leads nowhere."""
    if os.path.lexists(path):
        raise FileExistsError(f"{path} is there already: choose another name, or remove it.")


@contextmanager
def atomic_output(out: Path) -> Iterator[Path]:
    """Yield a hidden place beside ``out`` to build a file or a folder in; at the end it gets its name, at once.

    After an error, or Ctrl-C, nothing stays behind.
    """
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    _remove(part)
    try:
        yield part
        if part.is_file():
            with part.open("rb+") as file:
                os.fsync(file.fileno())
        refuse_taken(out)  # somebody may have been faster
        part.rename(out)
    finally:
        _remove(part)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
