"""Trackers show what metrics.jsonl says, however often the training was interrupted, and change nothing in it."""

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
from permll.training.loggers import scalars, make_logger
from permll.training.train import train
from tests.helpers.toy_training import StopAfter, files, quick_recipe


def expected(run: Run) -> dict[str, dict[int, float]]:
    """Return the numbers of a run by name and epoch, as single precision holds them."""
    found: dict[str, dict[int, float]] = {}
    for entry in run.metrics:
        for name, value in scalars(entry).items():
            found.setdefault(name, {})[entry["epoch"]] = struct.unpack("f", struct.pack("f", value))[0]
    return found


def events(folder: Path) -> Any:
    """Return what TensorBoard makes of a folder."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    return accumulator


def test_numbers_are_grouped_and_what_is_no_number_is_left_out() -> None:
    entry = {"epoch": 2, "loss": 0.5, "turned": 0, "test_accuracy": 0.75, "correction_right_after": 3}
    more = {"correction_right_after_by_class": [1, 2], "correction_precision": None, "clean_validation_accuracy": 1.0}
    assert scalars(entry | more) == {
        "loss": 0.5,
        "turned": 0.0,
        "test/accuracy": 0.75,
        "correction/right_after": 3.0,
        "clean_validation/accuracy": 1.0,
    }


def test_tensorboard_reads_what_was_measured(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    untracked = train(recipe=quick_recipe(), out=tmp_path / "untracked")
    run = train(recipe=quick_recipe(), out=tmp_path / "run", callbacks=[make_logger("tensorboard")])
    assert files(run.folder) == files(untracked.folder)
    read = events(run.folder / "tensorboard")
    found = {tag: {event.step: event.value for event in read.Scalars(tag)} for tag in read.Tags()["scalars"]}
    assert found == expected(run)
    assert found["test/accuracy"].keys() == {1, 2, 3}
    text = read.Tensors("recipe/text_summary")[0].tensor_proto.string_val[0].decode()
    assert 'source = "digits"' in text


def test_an_interrupted_training_is_one_curve_in_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    recipe = quick_recipe(training__epochs=4)
    train(recipe=recipe, out=tmp_path / "run", callbacks=[StopAfter(25)])  # begun without a tracker
    train(recipe=recipe, out=tmp_path / "run", callbacks=[make_logger("tensorboard"), StopAfter(20)])
    # A machine that lost its newest checkpoint trains an epoch again.
    run = Run(tmp_path / "run")
    run.checkpoints.paths()[-1].unlink()
    run = train(recipe=recipe, out=tmp_path / "run", callbacks=[make_logger("tensorboard")])
    read = events(run.folder / "tensorboard")
    for tag, curve in expected(run).items():
        assert [(event.step, event.value) for event in read.Scalars(tag)] == list(curve.items())


def test_wandb_keeps_what_was_measured_in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    train(recipe=quick_recipe(), out=tmp_path / "run", callbacks=[make_logger("wandb"), StopAfter(25)])
    run = train(recipe=quick_recipe(), out=tmp_path / "run", callbacks=[make_logger("wandb")])
    untracked = train(recipe=quick_recipe(), out=tmp_path / "untracked")
    assert files(run.folder) == files(untracked.folder)
    first, second = sorted((run.folder / "wandb").glob("offline-run-*/run-*.wandb"))
    assert first.name == second.name  # one run, as the server knows it
    assert list(history(first)) == [1]
    assert history(second) == {entry["epoch"]: scalars(entry) for entry in run.metrics}


def history(path: Path) -> dict[int, dict[str, float]]:
    """Return the numbers of a W&B log by epoch."""
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
    """Read a LevelDB log: blocks of 32 KiB, a record in parts that each lie in one block after 7 bytes of header."""
    place, record = 7, b""
    while place + 7 <= len(content):
        if 32768 - place % 32768 < 7:
            place += 32768 - place % 32768
            continue
        length, kind = struct.unpack("<HB", content[place + 4 : place + 7])
        record += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield record
            record = b""


@pytest.mark.parametrize(
    ("name", "package", "what"), [("tensorboard", "tensorboard", "TensorBoard"), ("wandb", "wandb", "W&B")]
)
def test_a_missing_tracker_is_named_with_its_extra(name: str, package: str, what: str, tmp_path: Path) -> None:
    (tmp_path / f"{package}.py").write_text(f"raise ImportError('No module named {package}')")
    code = f"from permll.training.loggers import tracker; tracker({name!r})"
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120)
    said = shown.stderr.splitlines()[-1]
    assert said == f"ImportError: tracking with {what} needs {package}: pip install 'permll[track]'"
