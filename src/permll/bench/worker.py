"""What a worker process does with one cell: train it, and never let an error out."""

import json
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from permll.bench.jobs import Cell
from permll.bench.machine import machine
from permll.bench.results import WATCHED, watched
from permll.training.callbacks import Callback
from permll.training.run import LOCK_FILE, Run
from permll.utils.files import atomic_write_text

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event

    from permll.training.trainer import Trainer


FAILURE = "failure.txt"
_stopping: "Event | None" = None  # of a worker: whether the parent wants no more


class Outcome(NamedTuple):
    """What became of a cell, and if it failed, why in one sentence."""

    kind: Literal["finished", "stopped", "failed"]
    sentence: str = ""


class Stopwatch(Callback):
    """Writes down how long a run has been trained, over all interruptions, and on what.

    On a CPU the time of the process counts, which does not depend on what else the machine does; elsewhere the clock's.
    """

    def on_train_start(self, trainer: "Trainer", run: Run) -> None:
        """Go on from what an earlier process wrote down."""
        self._run = run
        self._clock: Callable[[], float] = (
            time.process_time if trainer.fabric.device.type == "cpu" else time.perf_counter
        )
        self._before = (watched(run.folder).seconds or 0.0) - self._clock()
        self._machine = machine(trainer.fabric.device)

    def on_epoch_end(self, trainer: "Trainer", metrics: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Write down an epoch, evaluation included."""
        self._write()

    def on_train_end(self, run: Run) -> None:  # noqa: ARG002
        """Write down the end, reached or not: what was trained of an epoch is saved too."""
        self._write()

    def _write(self) -> None:
        found = {"seconds": round(self._before + self._clock(), 3), "machine": self._machine}
        atomic_write_text(self._run.folder / WATCHED, json.dumps(found) + "\n")


def prepare_worker(stopping: "Event") -> None:
    """Make this process a worker: one thread, no signals from the keyboard, and no life without its parent.

    Args:
        stopping: set when no cell is to begin any more; a cell under way gets a SIGINT from the parent besides.
    """
    import torch

    global _stopping
    _stopping = stopping
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is asked, and asks
    if hasattr(os, "setpgrp"):
        os.setpgrp()
    torch.set_num_threads(1)
    threading.Thread(target=_die_with_the_parent, daemon=True).start()


def train_cell(cell: Cell) -> Outcome:
    """Train a cell, or go on with it; an error is a sentence, with its traceback in the cell's folder."""
    note = cell.folder / FAILURE
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if _stopping is not None and _stopping.is_set():  # the signal came before anybody listened
            return Outcome("stopped")
        from permll.training.train import train

        _wait_for_others(cell.folder)
        note.unlink(missing_ok=True)  # a new run wants an empty folder
        train(recipe=cell.recipe, out=cell.folder, callbacks=[Stopwatch()])
        return Outcome("finished")
    except KeyboardInterrupt:
        return Outcome("stopped")
    except Exception as problem:  # whatever it is, the other cells go on
        cell.folder.mkdir(parents=True, exist_ok=True)
        note.write_text(traceback.format_exc())
        return Outcome("failed", " ".join(str(problem).split()) or type(problem).__name__)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _wait_for_others(folder: Path) -> None:
    """Wait while another process trains in the folder: another benchmark, or a worker whose parent was just killed."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    if (folder / LOCK_FILE).is_file():
        with (folder / LOCK_FILE).open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)


def _die_with_the_parent() -> None:
    """End at once when the parent is gone, however it went: the cell's lock goes with the process."""
    from multiprocessing import connection, parent_process

    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
