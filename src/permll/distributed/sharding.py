"""Placement of per-sample state with several processes: replicated on all, or sharded by row.

With R processes, a sharded table keeps row n on process n mod R, as local row n div R. A process reads and writes
only its local rows, and batches are split by owner. A replicated table has all rows on every process, and all processes
write the same.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from permll.distributed.process_group import ProcessGroup

PlacementMode = Literal["auto", "replicated", "sharded"]
MIN_SHARD_BYTES = 2**28  # of dense rows, for "auto"


@dataclass(frozen=True)
class Placement:
    """Which rows of a table this process holds.

    Args:
        group: the processes.
        sharded: whether this process holds only its local rows.
    """

    group: ProcessGroup = field(default_factory=ProcessGroup)
    sharded: bool = False

    @property
    def local_rows(self) -> slice:
        """The rows that this process holds."""
        return self.group.local_rows if self.sharded else slice(None)

    def is_local(self, index: Tensor) -> Tensor:
        """Return a mask (B,) of the rows that this process holds."""
        return index % self.group.size == self.group.rank if self.sharded else index >= 0

    def local_index(self, index: Tensor) -> Tensor:
        """Return the positions (B,) of local rows in this process's table."""
        return index // self.group.size if self.sharded else index

    def gather_rows(self, local: Tensor, rows: int) -> Tensor:
        """Return values for all rows (N, ...) in order, from those for the local rows of each process."""
        return self.group.gather_rows(local, rows) if self.sharded else local


def should_shard(mode: PlacementMode, nbytes: int, group: ProcessGroup) -> bool:
    """Return whether a table is sharded that would have ``nbytes`` in dense form.

    Examples:
        >>> group = ProcessGroup(rank=0, size=2)
        >>> should_shard("auto", 2**20, group), should_shard("auto", 2**30, group)
        (False, True)
        >>> should_shard("sharded", 2**30, ProcessGroup())
        False
    """
    return not group.is_single and (mode == "sharded" or (mode == "auto" and nbytes >= MIN_SHARD_BYTES))


_current: ContextVar[Placement] = ContextVar("placement", default=Placement())  # noqa: B039 (frozen)


def current_placement() -> Placement:
    """Return the placement that new tables get."""
    return _current.get()


@contextmanager
def placement_scope(placement: Placement) -> Iterator[None]:
    """Give tables that are created within the block this placement."""
    token = _current.set(placement)
    try:
        yield
    finally:
        _current.reset(token)
