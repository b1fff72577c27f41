"""Progress of a benchmark on stderr."""

from collections.abc import Sequence

from rich import progress
from rich.console import Console

from permll.bench.jobs import Job
from permll.bench.results import read_timing
from permll.bench.time_estimate import format_duration
from permll.bench.worker import Outcome
from permll.training.run import Run


class Progress:
    """Shows a bar for all jobs and one for each running job on a terminal; elsewhere, a line per finished job.

    Args:
        quiet: show nothing.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        columns = (
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[unit]}"),
            progress.TimeElapsedColumn(),
        )
        console = Console(stderr=True, quiet=quiet, soft_wrap=True)
        self._has_bars = console.is_terminal and not quiet
        self._bars = progress.Progress(*columns, console=console, disable=not self._has_bars)
        self._tasks: dict[str, progress.TaskID] = {}
        self._done = 0

    def on_start(self, jobs: Sequence[Job]) -> None:
        """Run before the first job, with all unfinished jobs."""
        self._num_jobs = len(jobs)
        self._total = self._bars.add_task("all", total=len(jobs), unit="jobs")
        if jobs:
            self._bars.start()

    def on_tick(self, running: Sequence[Job]) -> None:
        """Run a few times per second: update the bars from the metrics in the run folders."""
        for job in running if self._has_bars else ():
            if job.title not in self._tasks:
                epochs = job.recipe.training.epochs
                self._tasks[job.title] = self._bars.add_task(job.title, total=epochs, unit="epochs")
            self._bars.update(self._tasks[job.title], completed=len(Run(job.folder).metrics))

    def on_job(self, job: Job, outcome: Outcome) -> None:
        """Run after each job: replace its bar by a line."""
        if job.title in self._tasks:
            self._bars.remove_task(self._tasks.pop(job.title))
        self._bars.advance(self._total)
        self._done += 1
        count = "" if self._has_bars else f"[{self._done} of {self._num_jobs}] "
        text = f"{count}{job.title}: {format_outcome(job, outcome)}"
        self._bars.console.print(text, markup=False, emoji=False, highlight=False)

    def on_end(self) -> None:
        """Run at the end, also after an interruption."""
        self._bars.stop()


def format_outcome(job: Job, outcome: Outcome) -> str:
    """Return the outcome of a job as text: test accuracy and time, or the error."""
    if outcome.status != "finished":
        return {"stopped": "stopped, checkpoint saved", "failed": f"failed: {outcome.message}"}[outcome.status]
    last, seconds = Run(job.folder).result["last"], read_timing(job.folder).seconds
    accuracy = "finished" if last is None else f"last {100 * last:.1f} %"
    return accuracy if seconds is None else f"{accuracy}, {format_duration(seconds)}"
