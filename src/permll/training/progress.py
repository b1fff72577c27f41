"""Who watches a training: a bar on a terminal, lines elsewhere, JSON for machines."""

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

from permll.training.callbacks import Callback

if TYPE_CHECKING:
    from rich.progress import Progress

    from permll.training.run import Run
    from permll.training.trainer import Trainer


class JsonLog(Callback):
    """A line of JSON for every epoch."""

    def on_epoch_end(self, trainer: "Trainer", metrics: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Print it."""
        _say(json.dumps(metrics), sys.stdout)


class TextLog(Callback):
    """A plain line for every epoch, where there is no terminal."""

    def on_message(self, said: str) -> None:
        """Print it."""
        _say(said, sys.stderr)

    def on_epoch_end(self, trainer: "Trainer", metrics: Mapping[str, Any]) -> None:
        """Print it."""
        _say(f"epoch {trainer.epoch} of {trainer.epochs}: {shown(metrics)}", sys.stderr)


class ProgressBar(Callback):
    """A bar with the last epoch's numbers."""

    _bar: "Progress | None" = None

    def on_message(self, said: str) -> None:
        """Print it."""
        _say(said, sys.stderr)

    def on_train_start(self, trainer: "Trainer", run: "Run") -> None:
        """Open it where the run stands."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("epochs  {task.fields[numbers]}"),
            TimeRemainingColumn(),
        )
        self._steps = trainer.steps_per_epoch
        self._bar = Progress(*columns, console=Console(stderr=True))
        numbers = shown(run.metrics[-1]) if run.metrics else ""
        self._task = self._bar.add_task(run.folder.name, total=trainer.epochs, completed=trainer.epoch, numbers=numbers)
        self._bar.start()

    def on_step_end(self, trainer: "Trainer") -> None:
        """Move it by a step."""
        assert self._bar is not None
        self._bar.update(self._task, completed=trainer.epoch + trainer.fraction)

    def on_epoch_end(self, trainer: "Trainer", metrics: Mapping[str, Any]) -> None:
        """Show the epoch's numbers."""
        assert self._bar is not None
        self._bar.update(self._task, completed=trainer.epoch, numbers=shown(metrics))

    def on_train_end(self, run: "Run") -> None:  # noqa: ARG002
        """Close it, if it was opened."""
        if self._bar is not None:
            self._bar.stop()


def default_callbacks() -> list[Callback]:
    """Return a bar where somebody can see it: on a terminal or in a notebook."""
    in_notebook = "ipykernel" in sys.modules
    return [ProgressBar()] if in_notebook or sys.stderr.isatty() else []


def _say(line: str, where: TextIO) -> None:
    where.write(line + "\n")
    where.flush()


def shown(metrics: Mapping[str, Any]) -> str:
    """Return the few numbers that one watches."""
    words = {"loss": "loss {:.3f}"}
    shares = {"test_accuracy": "test", "noisy_validation_accuracy": "noisy validation", "turned": "turned"}
    parts = [form.format(metrics[key]) for key, form in words.items() if key in metrics]
    parts += [f"{word} {100 * metrics[key]:.1f} %" for key, word in shares.items() if metrics.get(key) is not None]
    return ", ".join(parts)
