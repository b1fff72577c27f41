"""Placement of per-sample state with several processes: replicated on all, or sharded by row.

With R processes, a sharded table keeps row n on process n mod R, as local row n div R. A process reads and writes its
own rows only, and batches are split by owner. A replicated table has all rows on every process, and all write the same.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from permll.distributed.process_group import ProcessGroup

PlacementMode = Literal["auto", "replicated", "sharded"]
SHARD_FROM = 2**28  # bytes of dense rows from which "auto" shards them


@dataclass(frozen=True)
class Placement:
    """Which rows of a table this process holds.

    Args:
        group: the processes.
        sharded: whether this process holds only its own rows.
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

    def gather_rows(self, own: Tensor, rows: int) -> Tensor:
        """Return values for all rows (N, ...) in order, of which each process passes those of its own rows."""
        return self.group.gather_rows(own, rows) if self.sharded else own


def should_shard(mode: PlacementMode, nbytes: int, group: ProcessGroup) -> bool:
    """Return whether rows of ``nbytes`` in all, if dense, are sharded.

    Examples:
        >>> two = ProcessGroup(0, 2)
        >>> should_shard("auto", 2**20, two), should_shard("auto", 2**30, two), should_shard("sharded", 9, ProcessGroup())
        (False, True, False)
    """
    return not group.is_single and (mode == "sharded" or (mode == "auto" and nbytes >= SHARD_FROM))


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
