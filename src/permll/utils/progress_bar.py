"""Progress bars on a terminal, drawn with rich; without a terminal nothing is printed."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn


@contextmanager
def progress(description: str, total: int | None, *, unit: str = "", done: int = 0) -> Iterator[Callable[..., None]]:
    """Show a progress bar with count and remaining time while the block runs, and yield ``advance(steps=1)``.

    Args:
        description: text beside the bar.
        total: number of steps; None if unknown.
        unit: ``"bytes"`` shows sizes and speed.
        done: number of steps that are completed already.

    Examples:
        >>> with progress("reading", 3) as advance:
        ...     for _ in range(3):
        ...         advance()
    """
    if not sys.stderr.isatty():
        yield lambda steps=1: None  # noqa: ARG005
        return
    from rich.progress import DownloadColumn, MofNCompleteColumn, TransferSpeedColumn

    counts = (DownloadColumn(), TransferSpeedColumn()) if unit == "bytes" else (MofNCompleteColumn(),)
    with rich_bar(*counts, transient=True) as bar:
        task = bar.add_task(description, total=total, completed=done)
        yield lambda steps=1: bar.advance(task, steps)


def rich_bar(*columns: "ProgressColumn", transient: bool = False) -> "Progress":
    """Return a bar on stderr: description, bar, ``columns``, remaining time."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    layout = (TextColumn("{task.description}"), BarColumn(), *columns, TimeRemainingColumn())
    return Progress(*layout, console=Console(stderr=True), transient=transient)
