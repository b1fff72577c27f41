"""Progress of long work: a bar on a terminal, silence elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Advance(Protocol):
    """What the work calls as it goes on."""

    def __call__(self, steps: int = 1) -> None:
        """Say that ``steps`` more are done."""


@contextmanager
def progress(what: str, total: int | None, *, unit: str = "", done: int = 0) -> Iterator[Advance]:
    """Show a bar with ``what``, count and time left while the block runs; ``unit="bytes"`` shows sizes and speed.

    Examples:
        >>> with progress("reading", 3) as advance:
        ...     for _ in range(3):
        ...         advance()
    """
    if not sys.stderr.isatty():
        yield lambda steps=1: None  # noqa: ARG005
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    counts = (DownloadColumn(), TransferSpeedColumn()) if unit == "bytes" else (MofNCompleteColumn(),)
    columns = (TextColumn("{task.description}"), BarColumn(), *counts, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total, completed=done)
        yield lambda steps=1: bar.advance(task, steps)
