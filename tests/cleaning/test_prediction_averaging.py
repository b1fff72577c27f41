"""Memory: the mean of what a network said up to the best epoch, however often its process died on the way."""

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
from permll.cleaning.findings import Findings
from permll.cleaning.prediction_averaging import remembered
from permll.data import LabeledData
from permll.training import Callback, Run
from tests.helpers.mislabeled_data import mislabeled

EPOCHS = 5


class Record(Callback):
    """Writes down what was said of every row in every epoch, and before the first one of a run that goes on."""

    def __init__(self) -> None:
        self.said: dict[int, dict[str, Tensor]] = {}

    def on_train_start(self, trainer: Any, run: Run) -> None:  # noqa: ARG002
        if trainer.epoch > 0:
            self.said[0] = self._look(trainer)

    def on_epoch_end(self, trainer: Any, metrics: Mapping[str, Any]) -> None:  # noqa: ARG002
        self.said[trainer.epoch] = self._look(trainer)

    def _look(self, trainer: Any) -> dict[str, Tensor]:
        parts = [trainer.data] if trainer.validation is None else [trainer.data, trainer.validation]
        return {name: row for part in parts for name, row in zip(part.ids, trainer.predict(part).double(), strict=True)}


def samples(rows: int = 120) -> LabeledData:
    known = mislabeled(rows)
    return permll.data.load(known.values, labels=known.labels)


@pytest.mark.parametrize("held_out", [0.1, None])
def test_is_the_mean_of_all_epochs_up_to_the_best(held_out: float | None, tmp_path: Path) -> None:
    record = Record()
    permll.clean(
        samples(), out=tmp_path / "run", epochs=EPOCHS, callbacks=[record], overrides={"data.validation": held_out}
    )
    memory = remembered(tmp_path / "run")
    train, validation = Run(tmp_path / "run").labels.ids, Run(tmp_path / "run").labels.validation_ids
    assert memory.ids == (*train, *validation)
    assert memory.trained == len(train)
    assert (len(validation) > 0) == (held_out is not None)
    assert memory.epoch in record.said
    assert list(record.said) == list(range(1, EPOCHS + 1))
    for name, log_p in zip(memory.ids, memory.log_p, strict=True):
        mean = sum(record.said[epoch][name] for epoch in range(1, memory.epoch + 1)) / memory.epoch
        torch.testing.assert_close(log_p.double().exp(), mean, rtol=1e-5, atol=1e-7)


# Cleans a file in children that kill themselves where they are told to: in a step, after the checkpoint of an epoch and
# before it is remembered, or in the writing of a file. Forked from a parent that has imported everything.
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

        def on_epoch_end(self, loop, metrics):  # the checkpoint is there, and nobody has looked yet
            pass_by("epoch")

    sync = os.fsync

    def fatal_sync(descriptor):
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        pass_by("checkpoint" if "checkpoints" in path else os.path.basename(path).removeprefix(".").split(".")[0])
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
KILLS = ["step:4", "memory:1", "epoch:1", "checkpoint:9", "step:4", "memory:1", "epoch:1", "findings:2", "never:0"]


def test_killed_eight_times_it_finds_the_same_to_the_last_bit(tmp_path: Path) -> None:
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
    one, other = remembered(whole), remembered(killed)
    assert (one.ids, one.trained, one.epoch) == (other.ids, other.trained, other.epoch)
    assert torch.equal(one.log_p, other.log_p)
    found, again = Findings.load(whole), Findings.load(killed)
    assert again.first() == found.first()
    for name in ("candidates", "probabilities", "quality", "reasons", "neighbors"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name))
    assert {**again.metadata, "run": ""} == {**found.metadata, "run": ""}
    for name in ("findings.csv", "metrics.jsonl"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()


class LeftError(Exception):
    """Somebody left in the middle."""


class LeaveAfter(Callback):
    """Leaves within the epoch after so many."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def on_step_end(self, trainer: Any) -> None:
        if trainer.epoch == self.epochs:
            raise LeftError


def begun(data: LabeledData, out: Path, epochs: int) -> Record:
    """Clean for so many epochs and a step, and leave; return what was said until then."""
    record = Record()
    with pytest.raises(LeftError):
        permll.clean(data, out=out, epochs=EPOCHS, callbacks=[record, LeaveAfter(epochs)])
    assert list(record.said) == list(range(1, epochs + 1))
    return record


def test_data_in_another_order_are_known_again_by_id(tmp_path: Path) -> None:
    data = samples()
    whole = permll.clean(data, out=tmp_path / "whole", epochs=EPOCHS, callbacks=[])
    begun(data, tmp_path / "run", epochs=2)
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(1))
    found = permll.clean(data.take(order), out=tmp_path / "run", epochs=EPOCHS, callbacks=[])
    assert found.ids == tuple(data.ids[row] for row in order.tolist())
    for name in ("given", "candidates", "probabilities", "quality"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name)[order.numpy()])


def test_rows_that_come_later_and_rows_that_go_are_judged_as_they_are(tmp_path: Path) -> None:
    data = samples()
    first = begun(data.take(range(90)), tmp_path / "run", epochs=2)
    kept = [row for row in range(5, len(data)) if row % 7]  # some are gone, some are new, and the order is another
    later = data.take(kept[::-1])
    second = Record()
    found = permll.clean(later, out=tmp_path / "run", epochs=EPOCHS, callbacks=[second])
    assert (found.ids, found.given.tolist()) == (later.ids, later.labels.tolist())
    memory = remembered(tmp_path / "run")
    assert set(memory.ids) == set(later.ids)
    p = memory.log_p.double().exp()
    torch.testing.assert_close(p.sum(1), torch.ones(len(p)).double(), rtol=0, atol=1e-5)
    for name, mean in zip(memory.ids, p, strict=True):  # it lies between what was said, as every mean does
        every = torch.stack([said[name] for said in (*first.said.values(), *second.said.values()) if name in said])
        assert ((every.amin(0) - 1e-6 <= mean) & (mean <= every.amax(0) + 1e-6)).all()


def test_a_run_that_remembers_nothing_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="has no memory of predictions: permll clean DATA --out"):
        remembered(tmp_path)
