"""A training on a full disk: ``python -m tests.helpers.full_disk OUT SIZES...``.

A limit on the size of files, set at step 30, stands for the full disk; each limit applies in a forked process.
"""

import os
import resource
import sys
from typing import Any

import torch

from permll.training import Callback
from permll.training.build import build_trainer
from permll.training.data_preparation import prepare_data
from permll.training.train import train
from tests.helpers.toy_training import quick_recipe


class LimitFiles(Callback):
    """Limits the size of files from step 30 on."""

    def __init__(self, size: int) -> None:
        self.size = size

    def on_step_end(self, trainer: Any) -> None:
        if trainer.step == 30:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, -1))


def main(out: str, *sizes: str) -> None:
    """Print the error of each training."""
    torch.set_num_threads(1)
    recipe = quick_recipe(training__checkpoint_minutes=1e-9)
    build_trainer(recipe, prepare_data(recipe))  # imports what the children need
    for size in sizes:
        if os.fork() == 0:
            try:
                train(recipe=recipe, out=f"{out}/{size}", callbacks=[LimitFiles(int(size))])
            except OSError as error:
                print(error, flush=True)  # noqa: T201
            os._exit(0)
        os.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
