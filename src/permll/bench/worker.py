"""Worker process of a benchmark: runs one job at a time and reports errors instead of raising them."""

import json
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from permll.bench.jobs import Job
from permll.bench.machine import describe_machine
from permll.bench.results import TIMING_FILE, read_timing
from permll.training.callbacks import Callback
from permll.training.run import LOCK_FILE, Run
from permll.utils.files import atomic_write_text

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event

    from permll.training.trainer import Trainer


TRACEBACK_FILE = "failure.txt"
_stop_event: "Event | None" = None  # of this process, if it is a worker


class Outcome(NamedTuple):
    """Outcome of a job, with an error message if it failed."""

    status: Literal["finished", "stopped", "failed"]
    message: str = ""


class TrainingTimer(Callback):
    """Writes the training time, over all interruptions, and the machine to the run folder.

    On a CPU it is processor time, which does not depend on other processes; on other devices it is wall-clock time.
    """

    def on_train_start(self, trainer: "Trainer", run: Run) -> None:
        """Continue from the time that an earlier process wrote."""
        self._run = run
        self._clock: Callable[[], float] = (
            time.process_time if trainer.fabric.device.type == "cpu" else time.perf_counter
        )
        self._offset = (read_timing(run.folder).seconds or 0.0) - self._clock()
        self._machine = describe_machine(trainer.fabric.device)

    def on_epoch_end(self, trainer: "Trainer", metrics: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Write the time after an epoch and its evaluation."""
        self._write()

    def on_train_end(self, run: Run) -> None:  # noqa: ARG002
        """Write the time of a finished or interrupted run."""
        self._write()

    def _write(self) -> None:
        timing = {"seconds": round(self._offset + self._clock(), 3), "machine": self._machine}
        atomic_write_text(self._run.folder / TIMING_FILE, json.dumps(timing) + "\n")


def init_worker(stop_event: "Event") -> None:
    """Set this process up as a worker: one thread, no keyboard signals, exit when the parent process ends.

    Args:
        stop_event: set when no further job may start; the parent also sends SIGINT to a worker with a running job.
    """
    import torch

    global _stop_event
    _stop_event = stop_event
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent
    if hasattr(os, "setpgrp"):
        os.setpgrp()
    torch.set_num_threads(1)
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def run_job(job: Job) -> Outcome:
    """Train a job or resume it; an error becomes a message, with the traceback in the job's folder."""
    traceback_file = job.folder / TRACEBACK_FILE
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if _stop_event is not None and _stop_event.is_set():  # SIGINT was sent before the handler was installed
            return Outcome("stopped")
        from permll.training.train import train

        _wait_for_lock(job.folder)
        traceback_file.unlink(missing_ok=True)  # a new run requires an empty folder
        train(recipe=job.recipe, out=job.folder, callbacks=[TrainingTimer()])
        return Outcome("finished")
    except KeyboardInterrupt:
        return Outcome("stopped")
    except Exception as error:  # any error, so that the other jobs continue
        job.folder.mkdir(parents=True, exist_ok=True)
        traceback_file.write_text(traceback.format_exc())
        return Outcome("failed", " ".join(str(error).split()) or type(error).__name__)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _wait_for_lock(folder: Path) -> None:
    """Wait while another process trains in the folder, such as a worker whose parent was just killed."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    if (folder / LOCK_FILE).is_file():
        with (folder / LOCK_FILE).open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)


def _exit_with_parent() -> None:
    """Exit as soon as the parent process ends, which also releases the lock of the job's folder."""
    from multiprocessing import connection, parent_process

    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
