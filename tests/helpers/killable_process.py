"""A method that meets its end at a set step on a set rank: ``END="1 30 9"`` is signal 9 to rank 1 after step 30."""

import os

from torch import distributed as dist

from permll.methods.permll import PermLL


class KillablePermLL(PermLL):
    """PermLL, until the end."""

    def on_step_end(self) -> None:
        super().on_step_end()
        rank, step, number = map(int, os.environ.get("END", "0 -1 0").split())
        if int(self.steps) == step and rank == (dist.get_rank() if dist.is_initialized() else 0):
            os.kill(os.getpid(), number)
