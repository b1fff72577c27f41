"""Callbacks that show the progress of a training: a bar, lines of text, or lines of JSON."""

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from permll.training.callbacks import Callback
from permll.training.run import Run
from permll.training.trainer import Trainer
from permll.utils.progress_bar import rich_bar

if TYPE_CHECKING:
    from rich.progress import Progress


class JsonLog(Callback):
    """Prints the metrics of every epoch as a line of JSON to stdout."""

    def on_epoch_end(self, trainer: Trainer, metrics: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Print the metrics."""
        print(json.dumps(metrics), flush=True)  # noqa: T201


class TextLog(Callback):
    """Prints a line of text for every epoch to stderr."""

    def on_message(self, text: str) -> None:
        """Print the message."""
        print(text, file=sys.stderr, flush=True)  # noqa: T201

    def on_epoch_end(self, trainer: Trainer, metrics: Mapping[str, Any]) -> None:
        """Print the main metrics."""
        self.on_message(f"epoch {trainer.epoch} of {trainer.epochs}: {format_metrics(metrics)}")


class ProgressBar(TextLog):
    """Progress bar with the main metrics of the last epoch."""

    _bar: "Progress"

    def on_train_start(self, trainer: Trainer, run: Run) -> None:
        """Open the bar at the current epoch."""
        from rich.progress import MofNCompleteColumn, TextColumn

        self._bar = rich_bar(MofNCompleteColumn(), TextColumn("epochs  {task.fields[metrics]}"))
        metrics = format_metrics(run.metrics[-1]) if run.metrics else ""
        self._task = self._bar.add_task(run.folder.name, total=trainer.epochs, completed=trainer.epoch, metrics=metrics)
        self._bar.start()

    def on_step_end(self, trainer: Trainer) -> None:
        """Move the bar."""
        self._bar.update(self._task, completed=trainer.epoch + trainer.fraction)

    def on_epoch_end(self, trainer: Trainer, metrics: Mapping[str, Any]) -> None:
        """Move the bar and show the metrics."""
        self._bar.update(self._task, completed=trainer.epoch, metrics=format_metrics(metrics))

    def on_train_end(self, run: Run) -> None:  # noqa: ARG002
        """Close the bar."""
        self._bar.stop()


def default_callbacks() -> list[Callback]:
    """Return a progress bar on a terminal or in a notebook, nothing elsewhere."""
    in_notebook = "ipykernel" in sys.modules
    return [ProgressBar()] if in_notebook or sys.stderr.isatty() else []


def format_metrics(metrics: Mapping[str, Any]) -> str:
    """Return the main metrics of an epoch as text.

    Examples:
        >>> format_metrics({"loss": 0.25, "test_accuracy": 0.875})
        'loss 0.250, test 87.5 %'
    """
    parts = [f"loss {metrics['loss']:.3f}"] if "loss" in metrics else []
    fractions = {"test_accuracy": "test", "noisy_validation_accuracy": "noisy validation", "corrected": "corrected"}
    parts += [f"{name} {100 * metrics[key]:.1f} %" for key, name in fractions.items() if metrics.get(key) is not None]
    return ", ".join(parts)
