"""Trackers: a training watched in TensorBoard or Weights & Biases. They show what metrics.jsonl says, and no more."""

import importlib
import os
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from permll.training.callbacks import Callback
from permll.utils.messages import did_you_mean

if TYPE_CHECKING:
    from permll.training.run import Run
    from permll.training.trainer import Trainer

_GROUPS = ("test", "noisy_validation", "clean_validation", "correction", "detection")


def make_logger(name: str) -> Callback:
    """Return the observer called ``name``: ``"tensorboard"`` or ``"wandb"``.

    A package that is missing is named here, before any training.

    Examples:
        >>> make_logger("tensorbord")
        Traceback (most recent call last):
        ValueError: 'tensorbord' is no tracker, did you mean tensorboard? There are tensorboard, wandb.
    """
    if name not in LOGGERS:
        raise ValueError(
            f"{name!r} is no tracker{did_you_mean(name, LOGGERS) or '.'} There are {', '.join(LOGGERS)}."
        )
    return LOGGERS[name]()


def scalars(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the plain numbers of an epoch, under names that trackers show in groups.

    Examples:
        >>> scalars({"epoch": 3, "loss": 0.5, "test_accuracy": 0.75, "detection_auroc": None})
        {'loss': 0.5, 'test/accuracy': 0.75}
    """
    numbers = {name: value for name, value in metrics.items() if isinstance(value, int | float) and name != "epoch"}
    return {_grouped(name): float(value) for name, value in numbers.items()}


class TensorBoardLogger(Callback):
    """Events in the run's folder, below ``tensorboard``: ``tensorboard --logdir RUNS``."""

    def __init__(self) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as missing:
            raise _missing("TensorBoard", "tensorboard") from missing
        self._open: Callable[..., Any] = SummaryWriter
        self._writer: Any = None

    def on_train_start(self, trainer: "Trainer", run: "Run") -> None:
        """Write all epochs there are: those of an earlier start are hidden, some may have been trained again."""
        if not trainer.fabric.is_global_zero:
            return
        self._writer = self._open(str(run.folder / "tensorboard"), purge_step=0)
        toml = "\n".join(f"    {line}" for line in run.recipe.to_toml().splitlines())
        self._writer.add_text("recipe", toml, 0)
        for entry in run.metrics:
            self._write(entry)

    def on_epoch_end(self, trainer: "Trainer", metrics: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Write the epoch."""
        if self._writer is not None:
            self._write(metrics)

    def on_train_end(self, run: "Run") -> None:  # noqa: ARG002
        """Close the file."""
        if self._writer is not None:
            self._writer.close()

    def _write(self, metrics: Mapping[str, Any]) -> None:
        for name, value in scalars(metrics).items():
            self._writer.add_scalar(name, value, metrics["epoch"])
        self._writer.flush()  # a process that is killed leaves what it has seen


class WandbLogger(Callback):
    """A run of the project ``permll``, or of ``WANDB_PROJECT``. ``WANDB_MODE=offline`` keeps it in the run's folder."""

    def __init__(self) -> None:
        try:
            self._init: Callable[..., Any] = importlib.import_module("wandb").init
        except ImportError as missing:
            raise _missing("W&B", "wandb") from missing
        self._run: Any = None

    def on_train_start(self, trainer: "Trainer", run: "Run") -> None:
        """Open the run, or go on with the one of an earlier start, and add the epochs that it does not have."""
        if not trainer.fabric.is_global_zero:
            return
        recipe = run.recipe
        self._run = self._init(
            project=os.environ.get("WANDB_PROJECT", "permll"),
            name=run.folder.name,
            id=_own_id(run.folder / "wandb-id.txt"),
            resume="allow",
            dir=run.folder,
            config={**recipe.model_dump(mode="json"), "recipe_hash": recipe.hash},
        )
        for entry in run.metrics:
            if entry["epoch"] >= self._run.step:
                self._run.log(scalars(entry), step=entry["epoch"])

    def on_epoch_end(self, trainer: "Trainer", metrics: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Log the epoch."""
        if self._run is not None:
            self._run.log(scalars(metrics), step=metrics["epoch"])

    def on_train_end(self, run: "Run") -> None:
        """Add the reported numbers of a finished run, and close."""
        if self._run is None:
            return
        if run.finished:
            numbers = {name: value for name, value in run.result.items() if isinstance(value, float)}
            self._run.summary.update({f"reported/{name}": value for name, value in numbers.items()})
        self._run.finish()


LOGGERS: dict[str, Callable[[], Callback]] = {"tensorboard": TensorBoardLogger, "wandb": WandbLogger}


def _grouped(name: str) -> str:
    group = next((group for group in _GROUPS if name.startswith(f"{group}_")), None)
    return name if group is None else f"{group}/{name.removeprefix(f'{group}_')}"


def _own_id(path: Path) -> str:
    """Return the name under which the run is known there: drawn once, so that a run that goes on stays one."""
    if not path.is_file():
        path.write_text(f"{uuid.uuid4().hex[:16]}\n")
    return path.read_text().strip()


def _missing(what: str, package: str) -> ImportError:
    return ImportError(f"tracking with {what} needs {package}: pip install 'permll[track]'")
