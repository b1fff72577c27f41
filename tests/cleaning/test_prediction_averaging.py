"""Mean predictions up to the best epoch, also of runs that were killed and resumed."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import permll
from permll.cleaning.prediction_averaging import PREDICTIONS_FILE
from permll.data import LabeledData
from permll.findings import Findings
from permll.training import Callback, Run
from tests.helpers.mislabeled_data import mislabeled

EPOCHS = 5


class Record(Callback):
    """Records the predictions of every epoch, and those a resumed run starts with."""

    def __init__(self) -> None:
        self.probs: dict[int, dict[str, Tensor]] = {}

    def on_train_start(self, trainer: Any, run: Run) -> None:  # noqa: ARG002
        if trainer.epoch > 0:
            self.probs[0] = self._predict(trainer)

    def on_epoch_end(self, trainer: Any, metrics: Mapping[str, Any]) -> None:  # noqa: ARG002
        self.probs[trainer.epoch] = self._predict(trainer)

    def _predict(self, trainer: Any) -> dict[str, Tensor]:
        parts = [trainer.data] if trainer.validation is None else [trainer.data, trainer.validation]
        return {name: row for part in parts for name, row in zip(part.ids, trainer.predict(part).double(), strict=True)}


def samples(rows: int = 120) -> LabeledData:
    known = mislabeled(rows)
    return permll.data.load(known.values, labels=known.labels)


def saved_means(folder: Path) -> tuple[tuple[str, ...], Tensor, int]:
    """Return ids, mean predictions and the best epoch of a run."""
    with np.load(folder / PREDICTIONS_FILE) as arrays:
        return tuple(arrays["ids"].tolist()), torch.from_numpy(arrays["best_mean"]).double(), int(arrays["epochs"][1])


@pytest.mark.parametrize("held_out", [0.1, None])
def test_predictions_are_averaged_up_to_best_epoch(held_out: float | None, tmp_path: Path) -> None:
    record = Record()
    permll.clean(
        samples(), out=tmp_path / "run", epochs=EPOCHS, callbacks=[record], overrides={"data.validation": held_out}
    )
    ids, means, best_epoch = saved_means(tmp_path / "run")
    labels = Run(tmp_path / "run").labels
    train, validation = labels.ids, labels.validation_ids
    assert ids == (*train, *validation)
    assert (len(validation) > 0) == (held_out is not None)
    assert best_epoch in record.probs
    assert list(record.probs) == list(range(1, EPOCHS + 1))
    for name, p in zip(ids, means, strict=True):
        mean = sum(record.probs[epoch][name] for epoch in range(1, best_epoch + 1)) / best_epoch
        torch.testing.assert_close(p, mean, rtol=1e-5, atol=1e-7)


# Cleans a file in children that kill themselves: in a step, between the checkpoint of an epoch and its predictions, or
# while a file is written. Forked from a parent that has imported everything.
SCRIPT = """
import os, signal, sys
import torch
torch.set_num_threads(1)
import lightning_fabric, sklearn.neighbors
import permll
from permll.cleaning.clean import clean
from permll.training import Callback

source, folder, epochs, *kills = sys.argv[1:]


def child(out, wanted, left):
    def pass_by(word):
        nonlocal left
        left -= word == wanted
        if word == wanted and left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    class Watch(Callback):
        def on_step_end(self, loop):
            pass_by("step")

        def on_epoch_end(self, loop, metrics):  # the checkpoint is written, the predictions are not
            pass_by("epoch")

    sync = os.fsync

    def fatal_sync(descriptor):
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        name = os.path.basename(path)
        if ".part" in name:  # .NAME.PID.part
            pass_by("checkpoint" if "checkpoints" in path else name.split(".")[1])
        sync(descriptor)

    os.fsync = fatal_sync
    clean(source, out=out, epochs=int(epochs), callbacks=[Watch()], overrides={"training.checkpoint_minutes": 1e-9})


for out, wanted, left in [("whole", "never", "0"), *(("killed", *kill.split(":")) for kill in kills)]:
    pid = os.fork()
    if pid == 0:
        child(os.path.join(folder, out), wanted, int(left))
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    print(wanted, os.WIFSIGNALED(status), os.WEXITSTATUS(status))
"""
KILLS = [
    "step:4",
    "predictions:1",
    "epoch:1",
    "checkpoint:9",
    "step:4",
    "predictions:1",
    "epoch:1",
    "findings:2",
    "never:0",
]


@pytest.mark.slow
def test_clean_killed_and_resumed_gives_equal_findings(tmp_path: Path) -> None:
    known = mislabeled(120)
    np.savez(tmp_path / "vectors.npz", x=known.values, y=np.array(known.labels))
    shown = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, tmp_path / "vectors.npz", tmp_path, str(EPOCHS), *KILLS],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert shown.returncode == 0, shown.stderr
    ended = [line.split() for line in shown.stdout.splitlines()]
    assert ended == [
        ["never", "False", "0"],
        *([kill.split(":")[0], "True", "0"] for kill in KILLS[:-1]),
        ["never", "False", "0"],
    ], shown.stderr
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    with np.load(whole / PREDICTIONS_FILE) as one, np.load(killed / PREDICTIONS_FILE) as other:
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])
    found, again = Findings.load(whole), Findings.load(killed)
    assert again.head(None) == found.head(None)
    for name in ("top_classes", "top_probs", "label_quality", "reasons", "neighbors"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name))
    assert {**again.metadata, "run": ""} == {**found.metadata, "run": ""}
    for name in ("findings.csv", "metrics.jsonl"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()


class InterruptError(Exception):
    """The training was interrupted."""


class InterruptAfter(Callback):
    """Interrupts the training within the epoch after ``epochs``."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def on_step_end(self, trainer: Any) -> None:
        if trainer.epoch == self.epochs:
            raise InterruptError


def interrupted_clean(data: LabeledData, out: Path, epochs: int) -> Record:
    """Clean for some epochs and a step; return the predictions."""
    record = Record()
    with pytest.raises(InterruptError):
        permll.clean(data, out=out, epochs=EPOCHS, callbacks=[record, InterruptAfter(epochs)])
    assert list(record.probs) == list(range(1, epochs + 1))
    return record


def test_clean_resumes_on_reordered_data(tmp_path: Path) -> None:
    data = samples()
    whole = permll.clean(data, out=tmp_path / "whole", epochs=EPOCHS, callbacks=[])
    interrupted_clean(data, tmp_path / "run", epochs=2)
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(1))
    found = permll.clean(data.take(order), out=tmp_path / "run", epochs=EPOCHS, callbacks=[])
    assert found.ids == tuple(data.ids[row] for row in order.tolist())
    for name in ("given_labels", "top_classes", "top_probs", "label_quality"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name)[order.numpy()])


def test_clean_resumes_on_added_and_removed_rows(tmp_path: Path) -> None:
    data = samples()
    first = interrupted_clean(data.take(range(90)), tmp_path / "run", epochs=2)
    kept = [row for row in range(5, len(data)) if row % 7]  # some are gone, some are new, and the order is another
    later = data.take(kept[::-1])
    second = Record()
    found = permll.clean(later, out=tmp_path / "run", epochs=EPOCHS, callbacks=[second])
    assert (found.ids, found.given_labels.tolist()) == (later.ids, later.labels.tolist())
    ids, p, _ = saved_means(tmp_path / "run")
    assert set(ids) == set(later.ids)
    torch.testing.assert_close(p.sum(1), torch.ones(len(p)).double(), rtol=0, atol=1e-5)
    for name, mean in zip(ids, p, strict=True):  # a mean lies between the predictions
        every = torch.stack([probs[name] for probs in (*first.probs.values(), *second.probs.values()) if name in probs])
        assert ((every.amin(0) - 1e-6 <= mean) & (mean <= every.amax(0) + 1e-6)).all()
