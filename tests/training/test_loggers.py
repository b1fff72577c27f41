"""Loggers have the metrics of metrics.jsonl, also of resumed runs, and do not change the training."""

import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from permll.training import Run
from permll.training.loggers import make_logger, scalars
from permll.training.train import train
from tests.helpers.toy_training import StopAfter, quick_recipe, run_bytes


def expected(run: Run) -> dict[str, dict[int, float]]:
    """Return the scalar metrics of a run by name and epoch, rounded to float32."""
    curves: dict[str, dict[int, float]] = {}
    for entry in run.metrics:
        for name, value in scalars(entry).items():
            curves.setdefault(name, {})[entry["epoch"]] = struct.unpack("f", struct.pack("f", value))[0]
    return curves


def events(folder: Path) -> Any:
    """Return the events of a folder."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    return accumulator


def test_scalars_are_grouped() -> None:
    entry = {"epoch": 2, "loss": 0.5, "corrected": 0, "test_accuracy": 0.75, "correction_right_after": 3}
    more = {"correction_right_after_by_class": [1, 2], "correction_precision": None, "clean_validation_accuracy": 1.0}
    assert scalars(entry | more) == {
        "loss": 0.5,
        "corrected": 0.0,
        "test/accuracy": 0.75,
        "correction/right_after": 3.0,
        "clean_validation/accuracy": 1.0,
    }


def test_tensorboard_has_the_metrics_of_the_run(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    without = train(recipe=quick_recipe(), out=tmp_path / "without")
    run = train(recipe=quick_recipe(), out=tmp_path / "run", callbacks=[make_logger("tensorboard")])
    assert run_bytes(run.folder) == run_bytes(without.folder)
    read = events(run.folder / "tensorboard")
    found = {tag: {event.step: event.value for event in read.Scalars(tag)} for tag in read.Tags()["scalars"]}
    assert found == expected(run)
    assert found["test/accuracy"].keys() == {1, 2, 3}
    text = read.Tensors("recipe/text_summary")[0].tensor_proto.string_val[0].decode()
    assert 'source = "digits"' in text


def test_tensorboard_of_a_resumed_run_has_one_curve(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    recipe = quick_recipe(training__epochs=4)
    train(recipe=recipe, out=tmp_path / "run", callbacks=[StopAfter(25)])  # without a logger
    train(recipe=recipe, out=tmp_path / "run", callbacks=[make_logger("tensorboard"), StopAfter(20)])
    # Without its newest checkpoint, a run repeats an epoch.
    run = Run(tmp_path / "run")
    run.checkpoints.paths()[-1].unlink()
    run = train(recipe=recipe, out=tmp_path / "run", callbacks=[make_logger("tensorboard")])
    read = events(run.folder / "tensorboard")
    for tag, curve in expected(run).items():
        assert [(event.step, event.value) for event in read.Scalars(tag)] == list(curve.items())


def test_wandb_offline_has_the_metrics_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    train(recipe=quick_recipe(), out=tmp_path / "run", callbacks=[make_logger("wandb"), StopAfter(25)])
    run = train(recipe=quick_recipe(), out=tmp_path / "run", callbacks=[make_logger("wandb")])
    without = train(recipe=quick_recipe(), out=tmp_path / "without")
    assert run_bytes(run.folder) == run_bytes(without.folder)
    first, second = sorted((run.folder / "wandb").glob("offline-run-*/run-*.wandb"))
    assert first.name == second.name  # one W&B run
    assert list(history(first)) == [1]
    assert history(second) == {entry["epoch"]: scalars(entry) for entry in run.metrics}


@pytest.mark.filterwarnings("ignore")  # of MLflow's own code
def test_mlflow_has_the_metrics_of_a_resumed_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    recipe = quick_recipe(training__epochs=4)
    train(recipe=recipe, out=tmp_path / "run", callbacks=[StopAfter(15)])  # without a logger
    train(recipe=recipe, out=tmp_path / "run", callbacks=[make_logger("mlflow"), StopAfter(20)])
    client = mlflow.MlflowClient()
    (logged,) = client.search_runs([client.get_experiment_by_name("permll").experiment_id])
    assert logged.info.status == "KILLED"
    # Without its newest checkpoint, a run repeats an epoch.
    Run(tmp_path / "run").checkpoints.paths()[-1].unlink()
    run = train(recipe=recipe, out=tmp_path / "run", callbacks=[make_logger("mlflow")])
    without = train(recipe=recipe, out=tmp_path / "without")
    assert run_bytes(run.folder) == run_bytes(without.folder)
    (logged,) = client.search_runs([logged.info.experiment_id])  # one MLflow run
    assert (logged.info.status, logged.info.run_name) == ("FINISHED", "run")
    assert logged.data.params["training.epochs"] == "4"
    assert logged.data.tags["recipe_hash"] == run.recipe.hash
    curves: dict[str, dict[int, float]] = {}
    for entry in run.metrics:
        for name, value in scalars(entry).items():
            curves.setdefault(name, {})[entry["epoch"]] = value
    for name, curve in curves.items():
        assert [(one.step, one.value) for one in client.get_metric_history(logged.info.run_id, name)] == list(
            curve.items()
        )
    reported = {name.removeprefix("reported/") for name in logged.data.metrics if name.startswith("reported/")}
    assert reported == {name for name, value in run.result.items() if isinstance(value, float)}
    assert curves.keys() == {name for name in logged.data.metrics if not name.startswith("reported/")}


def history(path: Path) -> dict[int, dict[str, float]]:
    """Return the metrics of a W&B log by epoch."""
    from wandb.proto.wandb_internal_pb2 import Record

    found: dict[int, dict[str, float]] = {}
    for content in log_records(path.read_bytes()):
        record = Record()
        record.ParseFromString(content)
        if record.WhichOneof("record_type") == "history":
            items = {
                (item.key or "/".join(item.nested_key)): json.loads(item.value_json) for item in record.history.item
            }
            found[record.history.step.num] = {name: value for name, value in items.items() if not name.startswith("_")}
    return found


def log_records(content: bytes) -> Iterator[bytes]:
    """Read a LevelDB log: blocks of 32 KiB; records are split at block ends, each part has a header of 7 bytes."""
    offset, record = 7, b""
    while offset + 7 <= len(content):
        if 32768 - offset % 32768 < 7:
            offset += 32768 - offset % 32768
            continue
        length, kind = struct.unpack("<HB", content[offset + 4 : offset + 7])
        record += content[offset + 7 : offset + 7 + length]
        offset += 7 + length
        if kind in (1, 4):  # complete, or the last part
            yield record
            record = b""


@pytest.mark.parametrize(
    ("name", "package", "what"),
    [("tensorboard", "tensorboard", "TensorBoard"), ("wandb", "wandb", "W&B"), ("mlflow", "mlflow", "MLflow")],
)
def test_missing_logger_package_is_named(name: str, package: str, what: str, tmp_path: Path) -> None:
    (tmp_path / f"{package}.py").write_text(f"raise ImportError('No module named {package}')")
    code = f"from permll.training.loggers import make_logger; make_logger({name!r})"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120)
    message = process.stderr.splitlines()[-1]
    assert message.startswith(f"ImportError: logging to {what} needs {package}: pip install 'permll[track]', or")
