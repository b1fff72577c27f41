"""Experiment loggers: callbacks that copy ``metrics.jsonl`` of a run to TensorBoard, W&B or MLflow."""

import importlib
import os
import re
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from permll.training.callbacks import Callback
from permll.training.recipe import flatten
from permll.training.run import Run
from permll.training.trainer import Trainer
from permll.utils.messages import install_hint, unknown_name

MAX_PARAM_LENGTH = 500  # of MLflow
_GROUP = re.compile("^(test|noisy_validation|clean_validation|correction|detection)_")


def make_logger(name: str) -> Callback:
    """Return the logger ``"tensorboard"``, ``"wandb"`` or ``"mlflow"``; a missing package raises ``ImportError``.

    Examples:
        >>> make_logger("tensorbord")
        Traceback (most recent call last):
        ValueError: unknown logger 'tensorbord', did you mean tensorboard? Choose from tensorboard, wandb, mlflow.
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


class MLflowLogger(Callback):
    """Logs to the MLflow experiment ``permll``, or ``MLFLOW_EXPERIMENT_NAME``, at ``MLFLOW_TRACKING_URI``."""

    def __init__(self) -> None:
        self._mlflow = _import("mlflow", "MLflow", "mlflow")
        self._client: Any = None
        self._run_id = ""
        self._logged: set[int] = set()  # epochs that MLflow has

    def on_train_start(self, trainer: Trainer, run: Run) -> None:  # noqa: ARG002
        """Open the MLflow run, or resume it, and add the epochs that it lacks."""
        self._client = self._mlflow.MlflowClient()
        id_file = run.folder / "mlflow-id.txt"
        if id_file.is_file():
            self._run_id = id_file.read_text().strip()
            self._client.update_run(self._run_id, status="RUNNING")
        else:
            self._run_id = self._create_run(run)
            id_file.write_text(f"{self._run_id}\n")
        histories = [
            self._client.get_metric_history(self._run_id, name)
            for name in self._client.get_run(self._run_id).data.metrics
        ]
        self._logged = {metric.step for history in histories for metric in history}
        for metrics in run.metrics:
            self._write(metrics)

    def on_epoch_end(self, trainer: Trainer, metrics: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Log the epoch."""
        self._write(metrics)

    def on_train_end(self, run: Run) -> None:
        """Add the results of a finished run, and close."""
        if run.finished:
            numbers = {name: value for name, value in run.result.items() if isinstance(value, float)}
            self._log({f"reported/{name}": value for name, value in numbers.items()}, max(self._logged, default=0))
        self._client.set_terminated(self._run_id, "FINISHED" if run.finished else "KILLED")

    def _create_run(self, run: Run) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "permll")
        experiment = self._client.get_experiment_by_name(name)
        experiment_id = self._client.create_experiment(name) if experiment is None else experiment.experiment_id
        tags = {"recipe_hash": run.recipe.hash}
        run_id: str = self._client.create_run(experiment_id, run_name=run.folder.name, tags=tags).info.run_id
        for key, value in flatten(run.recipe.model_dump(mode="json", exclude_none=True)).items():
            self._client.log_param(run_id, key, str(value)[:MAX_PARAM_LENGTH])
        return run_id

    def _write(self, metrics: Mapping[str, Any]) -> None:
        if metrics["epoch"] not in self._logged:  # MLflow would have a repeated epoch twice
            self._logged.add(metrics["epoch"])
            self._log(scalars(metrics), metrics["epoch"])

    def _log(self, numbers: Mapping[str, float], epoch: int) -> None:
        now, metric = int(1000 * time.time()), self._mlflow.entities.Metric
        entries = [metric(name, value, now, epoch) for name, value in numbers.items()]
        self._client.log_batch(self._run_id, metrics=entries)


LOGGERS: dict[str, Callable[[], Callback]] = {
    "tensorboard": TensorBoardLogger,
    "wandb": WandbLogger,
    "mlflow": MLflowLogger,
}


def _import(module: str, what: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"logging to {what} needs {package}: {install_hint('track')}") from error
