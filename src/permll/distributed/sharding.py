"""Where rows of samples live when several ranks train: all of them everywhere, or each on one rank.

With R ranks, a sharded table keeps row n on rank n mod R, as its row n div R there. A rank reads and writes its own
rows alone, and batches are dealt out by owner. A replicated table has all rows on every rank, and all write the same.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from permll.distributed.process_group import Ranks

Where = Literal["auto", "replicated", "sharded"]
LARGE = 2**28  # bytes of dense rows from which on ranks share them, if they may choose


@dataclass(frozen=True)
class Placement:
    """Which rows this process has.

    Args:
        ranks: who there is.
        sharded: whether this one has a part of the rows only.
    """

    ranks: Ranks = field(default_factory=Ranks)
    sharded: bool = False

    @property
    def own(self) -> slice:
        """Which of all rows are here."""
        return self.ranks.own if self.sharded else slice(None)

    def here(self, index: Tensor) -> Tensor:
        """Return which of these rows (B,) are here, as a mask."""
        return index % self.ranks.size == self.ranks.rank if self.sharded else index >= 0

    def place(self, index: Tensor) -> Tensor:
        """Return where in the table here rows (B,) are that are here."""
        return index // self.ranks.size if self.sharded else index

    def join(self, own: Tensor, rows: int) -> Tensor:
        """Return what every rank says of its own rows, for all of them (N, ...), in order."""
        return self.ranks.join(own, rows) if self.sharded else own


def choose(where: Where, nbytes: int, ranks: Ranks) -> bool:
    """Return whether ranks share rows that are so large in all, dense: as they are told, or by the size.

    Examples:
        >>> choose("auto", 2**20, Ranks(0, 2)), choose("auto", 2**30, Ranks(0, 2)), choose("sharded", 9, Ranks())
        (False, True, False)
    """
    return not ranks.alone and (where == "sharded" or (where == "auto" and nbytes >= LARGE))


_HERE = Placement()
_present: ContextVar[Placement] = ContextVar("placement", default=_HERE)


def present() -> Placement:
    """Return the placement of tables that are made now."""
    return _present.get()


@contextmanager
def placing(placement: Placement) -> Iterator[None]:
    """Let tables that are made within the block be placed so."""
    token = _present.set(placement)
    try:
        yield
    finally:
        _present.reset(token)
