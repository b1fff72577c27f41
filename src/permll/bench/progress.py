"""Who watches a benchmark: bars on a terminal, a line for every cell elsewhere."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from permll.bench.eta import duration
from permll.bench.jobs import Cell
from permll.bench.results import watched
from permll.bench.worker import Outcome
from permll.training.run import Run

if TYPE_CHECKING:
    from rich.progress import TaskID


class Watcher:
    """Sees everything and does nothing: override what matters."""

    def on_start(self, cells: Sequence[Cell]) -> None:
        """Follow the beginning, with the cells to be trained."""

    def on_tick(self, busy: Sequence[Cell]) -> None:
        """Follow the cells under way, a few times a second."""

    def on_cell(self, cell: Cell, outcome: Outcome) -> None:
        """Follow the end of a cell."""

    def on_end(self) -> None:
        """Follow the end, reached or not."""


class Lines(Watcher):
    """A plain line for every cell."""

    def on_start(self, cells: Sequence[Cell]) -> None:
        """Count them."""
        self._all, self._done = len(cells), 0

    def on_cell(self, cell: Cell, outcome: Outcome) -> None:
        """Print it."""
        self._done += 1
        sys.stderr.write(f"[{self._done} of {self._all}] {cell.title}: {told(cell, outcome)}\n")
        sys.stderr.flush()


class Bars(Watcher):
    """A bar for all cells, and one for each that is under way."""

    def on_start(self, cells: Sequence[Cell]) -> None:
        """Open it."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[unit]}"),
            TimeElapsedColumn(),
        )
        self._bar = Progress(*columns, console=Console(stderr=True))
        self._whole = self._bar.add_task("all", total=len(cells), unit="cells")
        self._tasks: dict[str, TaskID] = {}
        if cells:
            self._bar.start()

    def on_tick(self, busy: Sequence[Cell]) -> None:
        """Show how far they are: their folders tell."""
        for cell in busy:
            if cell.title not in self._tasks:
                total = cell.recipe.training.epochs
                self._tasks[cell.title] = self._bar.add_task(cell.title, total=total, unit="epochs")
            self._bar.update(self._tasks[cell.title], completed=len(Run(cell.folder).metrics))

    def on_cell(self, cell: Cell, outcome: Outcome) -> None:
        """Leave a line in the place of its bar."""
        if cell.title in self._tasks:
            self._bar.remove_task(self._tasks.pop(cell.title))
        self._bar.console.print(f"{cell.title}: {told(cell, outcome)}", markup=False, highlight=False)
        self._bar.advance(self._whole)

    def on_end(self) -> None:
        """Close it."""
        self._bar.stop()


def default_watcher() -> Watcher:
    """Return bars where somebody can see them."""
    return Bars() if sys.stderr.isatty() else Lines()


def told(cell: Cell, outcome: Outcome) -> str:
    """Return what there is to say of a cell that ended."""
    if outcome.kind != "finished":
        return {"stopped": "stopped and saved", "failed": f"failed: {outcome.sentence}"}[outcome.kind]
    last, seconds = Run(cell.folder).result["last"], watched(cell.folder).seconds
    accuracy = "finished" if last is None else f"last {100 * last:.1f} %"
    return accuracy if seconds is None else f"{accuracy}, {duration(seconds)}"
