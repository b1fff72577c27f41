"""Experiment loggers: callbacks that copy ``metrics.jsonl`` of a run to TensorBoard or Weights & Biases."""

import importlib
import os
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from permll.training.callbacks import Callback
from permll.training.run import Run
from permll.training.trainer import Trainer
from permll.utils.messages import install_hint, unknown_name

_GROUP = re.compile("^(test|noisy_validation|clean_validation|correction|detection)_")


def make_logger(name: str) -> Callback:
    """Return the logger ``"tensorboard"`` or ``"wandb"``; a missing package raises ``ImportError``.

    Examples:
        >>> make_logger("tensorbord")
        Traceback (most recent call last):
        ValueError: unknown logger 'tensorbord', did you mean tensorboard? Choose from tensorboard, wandb.
    """
    if name not in LOGGERS:
        raise ValueError(unknown_name("logger", name, LOGGERS))
    return LOGGERS[name]()


def scalars(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the scalar metrics of an epoch, with groups such as ``test/`` in their names.

    Examples:
        >>> scalars({"epoch": 3, "loss": 0.5, "test_accuracy": 0.75, "detection_auroc": None})
        {'loss': 0.5, 'test/accuracy': 0.75}
    """
    numbers = {name: value for name, value in metrics.items() if isinstance(value, int | float) and name != "epoch"}
    return {_GROUP.sub(r"\1/", name): float(value) for name, value in numbers.items()}


class TensorBoardLogger(Callback):
    """Writes events to the folder ``tensorboard`` of the run: ``tensorboard --logdir RUNS``."""

    def __init__(self) -> None:
        self._open = _import("torch.utils.tensorboard", "TensorBoard", "tensorboard").SummaryWriter
        self._writer: Any = None

    def on_train_start(self, trainer: Trainer, run: Run) -> None:  # noqa: ARG002
        """Write all epochs again; events of an earlier process are hidden, since some epochs may be repeated."""
        self._writer = self._open(str(run.folder / "tensorboard"), purge_step=0)
        toml = "\n".join(f"    {line}" for line in run.recipe.to_toml().splitlines())
        self._writer.add_text("recipe", toml, 0)
        for metrics in run.metrics:
            self._write(metrics)

    def on_epoch_end(self, trainer: Trainer, metrics: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Write the epoch."""
        self._write(metrics)

    def on_train_end(self, run: Run) -> None:  # noqa: ARG002
        """Close the file."""
        self._writer.close()

    def _write(self, metrics: Mapping[str, Any]) -> None:
        for name, value in scalars(metrics).items():
            self._writer.add_scalar(name, value, metrics["epoch"])
        self._writer.flush()  # a killed process loses nothing


class WandbLogger(Callback):
    """Logs to the W&B project ``permll``, or ``WANDB_PROJECT``; ``WANDB_MODE=offline`` logs to the run's folder."""

    def __init__(self) -> None:
        self._init = _import("wandb", "W&B", "wandb").init
        self._run: Any = None

    def on_train_start(self, trainer: Trainer, run: Run) -> None:  # noqa: ARG002
        """Open the W&B run, or resume it, and add the epochs that it lacks."""
        recipe, id_file = run.recipe, run.folder / "wandb-id.txt"
        if not id_file.is_file():
            id_file.write_text(f"{uuid.uuid4().hex[:16]}\n")
        self._run = self._init(
            project=os.environ.get("WANDB_PROJECT", "permll"),
            name=run.folder.name,
            id=id_file.read_text().strip(),  # drawn once: a resumed run is the same W&B run
            resume="allow",
            dir=run.folder,
            config={**recipe.model_dump(mode="json"), "recipe_hash": recipe.hash},
        )
        for metrics in run.metrics:
            if metrics["epoch"] >= self._run.step:
                self._run.log(scalars(metrics), step=metrics["epoch"])

    def on_epoch_end(self, trainer: Trainer, metrics: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Log the epoch."""
        self._run.log(scalars(metrics), step=metrics["epoch"])

    def on_train_end(self, run: Run) -> None:
        """Add the results of a finished run, and close."""
        if run.finished:
            numbers = {name: value for name, value in run.result.items() if isinstance(value, float)}
            self._run.summary.update({f"reported/{name}": value for name, value in numbers.items()})
        self._run.finish()


LOGGERS: dict[str, Callable[[], Callback]] = {"tensorboard": TensorBoardLogger, "wandb": WandbLogger}


def _import(module: str, what: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"logging to {what} needs {package}: {install_hint('track')}") from error
