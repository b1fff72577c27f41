"""Progress of a benchmark: bars on a terminal, else a line per job."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from permll.bench.jobs import Job
from permll.bench.results import read_timing
from permll.bench.time_estimate import format_duration
from permll.bench.worker import Outcome
from permll.training.run import Run

if TYPE_CHECKING:
    from rich.progress import TaskID


class Progress:
    """Base class of progress displays; every hook is a no-op."""

    def on_start(self, jobs: Sequence[Job]) -> None:
        """Run before the first job, with all unfinished jobs."""

    def on_tick(self, running: Sequence[Job]) -> None:
        """Run a few times per second, with the running jobs."""

    def on_job(self, job: Job, outcome: Outcome) -> None:
        """Run after each job."""

    def on_end(self) -> None:
        """Run at the end, also after an interruption."""


class LineProgress(Progress):
    """Writes a plain line per job to stderr."""

    def on_start(self, jobs: Sequence[Job]) -> None:
        """Store the number of jobs."""
        self._total, self._done = len(jobs), 0

    def on_job(self, job: Job, outcome: Outcome) -> None:
        """Write the line."""
        self._done += 1
        sys.stderr.write(f"[{self._done} of {self._total}] {job.title}: {format_outcome(job, outcome)}\n")
        sys.stderr.flush()


class BarProgress(Progress):
    """Shows a bar for all jobs and one for each running job."""

    def on_start(self, jobs: Sequence[Job]) -> None:
        """Open the display."""
        from rich import progress
        from rich.console import Console

        columns = (
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[unit]}"),
            progress.TimeElapsedColumn(),
        )
        self._bars = progress.Progress(*columns, console=Console(stderr=True))
        self._total = self._bars.add_task("all", total=len(jobs), unit="jobs")
        self._tasks: dict[str, TaskID] = {}
        if jobs:
            self._bars.start()

    def on_tick(self, running: Sequence[Job]) -> None:
        """Update the bars from the metrics in the run folders."""
        for job in running:
            if job.title not in self._tasks:
                epochs = job.recipe.training.epochs
                self._tasks[job.title] = self._bars.add_task(job.title, total=epochs, unit="epochs")
            self._bars.update(self._tasks[job.title], completed=len(Run(job.folder).metrics))

    def on_job(self, job: Job, outcome: Outcome) -> None:
        """Replace the job's bar by a line."""
        if job.title in self._tasks:
            self._bars.remove_task(self._tasks.pop(job.title))
        self._bars.console.print(f"{job.title}: {format_outcome(job, outcome)}", markup=False, highlight=False)
        self._bars.advance(self._total)

    def on_end(self) -> None:
        """Close the display."""
        self._bars.stop()


def default_progress() -> Progress:
    """Return bars if stderr is a terminal, else lines."""
    return BarProgress() if sys.stderr.isatty() else LineProgress()


def format_outcome(job: Job, outcome: Outcome) -> str:
    """Return the outcome of a job as text: test accuracy and time, or the error."""
    if outcome.status != "finished":
        return {"stopped": "stopped, checkpoint saved", "failed": f"failed: {outcome.message}"}[outcome.status]
    last, seconds = Run(job.folder).result["last"], read_timing(job.folder).seconds
    accuracy = "finished" if last is None else f"last {100 * last:.1f} %"
    return accuracy if seconds is None else f"{accuracy}, {format_duration(seconds)}"
