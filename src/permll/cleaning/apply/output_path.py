"""Output paths: checks before writing, and atomic writes that never replace anything."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from permll.utils.files import atomic_path


def changes_path(out: Path) -> Path:
    """Return the path of the list of changes, beside the output.

    Examples:
        >>> changes_path(Path("fixed.csv")).name
        'fixed.csv.changes.csv'
    """
    return out.with_name(f"{out.name}.changes.csv")


def dropped_path(out: Path) -> Path:
    """Return the path of the folder of dropped images, beside the output.

    Examples:
        >>> dropped_path(Path("fixed")).name
        'fixed.dropped'
    """
    return out.with_name(f"{out.name}.dropped")


def check_output_path(out: Path, others: Sequence[Path], source: Path | None, suffix: str) -> None:
    """Refuse an output that exists (or one of ``others`` does), is the source or inside it, or has another suffix."""
    if not out.name:
        raise ValueError(f"{out} is not a file or folder name: add one.")
    parent = out.absolute().parent
    if not parent.is_dir():
        raise FileNotFoundError(f"the folder {parent} of {out.name} does not exist: create it first.")
    if source is not None and out.exists() and out.samefile(source):
        raise FileExistsError(f"{out} is the input data set, which is never changed: choose another name.")
    for path in (out, *others):
        _check_free(path)
    if source is not None and source.is_dir() and parent.resolve().is_relative_to(source.resolve()):
        raise ValueError(f"{out} is inside {source}, which is never changed: choose another folder.")
    if suffix and out.suffix.lower() != suffix:
        raise ValueError(f"{out} must end in {suffix}, the format of its content.")


@contextmanager
def atomic_output(out: Path) -> Iterator[Path]:
    """Like ``atomic_path``, for a file or a folder, but refuse to replace an existing ``out``."""
    with atomic_path(out) as partial:
        yield partial
        _check_free(out)


def _check_free(path: Path) -> None:
    if os.path.lexists(path):  # also a broken link
        raise FileExistsError(f"{path} already exists: choose another name, or remove it.")
