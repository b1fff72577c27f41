"""A training that is killed at chosen points: ``python -m tests.helpers.killed_training OUT KILLS CHANGES``.

A child process trains, and writes a byte to a pipe before each of these points: s a step, c the sync of a checkpoint,
m that of a line of metrics, b between that line and its checkpoint, w the sync of any other file. The parent reads
these bytes and kills it at those that KILLS names, one child after the other; a capital letter waits for an epoch
first. The last child is not killed. Children are forked from a process that has imported everything, which is faster.
"""

import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import torch

from permll.training import Callback, Run
from permll.training.build import build_trainer
from permll.training.data_preparation import prepare_data
from permll.training.recipe import Recipe
from permll.training.train import train
from tests.helpers.toy_training import quick_recipe

NEVER = "never"
MAX_COUNT = {"s": 9, "c": 9, "w": 3}  # the point is passed a random number of times, at most these


def child(recipe: Recipe, out: str, write: int, read: int) -> None:
    """Train, and wait for the parent at each point."""

    def wait(point: bytes) -> None:
        os.write(write, point)
        os.read(read, 1)

    class Wait(Callback):
        def on_step_end(self, trainer: Any) -> None:  # noqa: ARG002
            wait(b"s")

        def on_epoch_end(self, trainer: Any, metrics: Any) -> None:  # noqa: ARG002
            wait(b"e")

    fsync, add_metrics = os.fsync, Run.add_metrics

    def wait_and_sync(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        wait(b"c" if path.parent.name == "checkpoints" else b"m" if path.name == "metrics.jsonl" else b"w")
        fsync(descriptor)

    def add_metrics_and_wait(run: Run, metrics: Any) -> None:
        add_metrics(run, metrics)
        wait(b"b")

    os.fsync, Run.add_metrics = wait_and_sync, add_metrics_and_wait  # type: ignore[assignment, method-assign]
    train(recipe=recipe, out=out, callbacks=[Wait()])


def main(out: str, kills: str, changes: str) -> None:
    """Print a line for each child: point, whether it was killed, exit status, steps of all children so far."""
    torch.set_num_threads(1)
    recipe = quick_recipe(training__checkpoint_minutes=1e-9, **json.loads(changes))  # a checkpoint after every step
    build_trainer(recipe, prepare_data(recipe))  # imports what the children need
    draw, steps = random.Random(7), 0
    for wanted in [*kills, NEVER]:
        (from_child, to_parent), (from_parent, to_child) = os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(from_child), os.close(to_child)
            child(recipe, out, to_parent, from_parent)
            os._exit(0)
        os.close(to_parent), os.close(from_parent)
        left = draw.randrange(1, MAX_COUNT.get(wanted, 1) + 1) + 24 * wanted.isupper()
        while point := os.read(from_child, 1):
            left -= point.decode() == wanted.lower()
            steps += point == b"s"
            if left == 0:
                os.kill(pid, signal.SIGKILL)
                break
            os.write(to_child, b".")
        os.close(from_child), os.close(to_child)
        _, status = os.waitpid(pid, 0)
        print(wanted, os.WIFSIGNALED(status), os.WEXITSTATUS(status), steps)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
