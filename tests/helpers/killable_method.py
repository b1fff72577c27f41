"""A method that sends a signal to its process: ``END="1 30 9"`` sends signal 9 on rank 1 after step 30."""

import os

from torch import distributed as dist

from permll.methods.permll import PermLL


class KillablePermLL(PermLL):
    """PermLL that sends a signal to its process at a step."""

    def on_step_end(self) -> None:
        super().on_step_end()
        rank, step, number = map(int, os.environ.get("END", "0 -1 0").split())
        if int(self.steps) == step and rank == (dist.get_rank() if dist.is_initialized() else 0):
            os.kill(os.getpid(), number)
