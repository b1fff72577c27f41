"""``Stream``: rows of a data set as batches of views, epoch after epoch; deterministic, resumable, shared by ranks."""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from permll.data import orders
from permll.data.inputs import Images, Vectors
from permll.data.record import Data
from permll.data.views.defaults import as_it_is
from permll.data.views.images import View
from permll.data.views.randomness import visit_keys

Order = Literal["shuffled", "sequential", "weighted", "even"]


@dataclass(frozen=True, eq=False, slots=True)
class Batch:
    """B visits."""

    index: Tensor  # (B,) positions in the data set, for state per sample
    labels: Tensor  # (B,) as given
    views: dict[str, Tensor]  # by name, each (B, ...)
    keys: Tensor  # (B,) all the chance of these visits, for mixup and the like; stays on the CPU

    @property
    def x(self) -> Tensor:
        """Return the only view."""
        (view,) = self.views.values()
        return view

    def to(self, device: torch.device | str) -> "Batch":
        """Return the batch in the memory of ``device``."""
        moved = {name: view.to(device, non_blocking=True) for name, view in self.views.items()}
        return Batch(self.index.to(device), self.labels.to(device), moved, self.keys)


class Stream:
    """Batches of a data set. Iterating goes from where the stream stands to the end of the epoch.

    An epoch is a pure function of seed, epoch and (for balanced orders) weights. Ranks share each batch between them:
    rank r of R takes its rows r, r + R, r + 2R, ..., so that together they visit what one process would, every row as
    often, none padded, with the same pixels.

    Args:
        data: what to draw from.
        batch_size: rows of a batch, of all ranks together.
        views: by name; each batch holds all of them, made from one reading of the samples. Default: as they are.
        order: ``"shuffled"`` and ``"sequential"`` visit every row once. ``"weighted"`` draws with replacement,
            ``"even"`` without and as evenly over the labels as these allow: see ``balance``.
        rows: positions in ``data`` to draw from; default all.
        draws: visits of a weighted or even epoch, at most one of each row in an even one; default as many as rows.
        seed: of orders and views.
        rank: which process this is.
        ranks: how many there are.
        workers: processes that read and make views ahead of time. Data in memory need none: batches come faster than
            another process could send them.

    Examples:
        >>> from permll.data import Vectors
        >>> data = Data(Vectors(torch.rand(5, 2)), torch.tensor([0, 1, 0, 1, 0]), ("a", "b"), tuple("vwxyz"))
        >>> stream = Stream(data, batch_size=2, seed=1)
        >>> sorted(torch.cat([batch.index for batch in stream]).tolist())
        [0, 1, 2, 3, 4]
        >>> stream.epoch
        1
    """

    def __init__(
        self,
        data: Data,
        batch_size: int,
        *,
        views: Mapping[str, View] | None = None,
        order: Order = "shuffled",
        rows: Tensor | None = None,
        draws: int | None = None,
        seed: int = 0,
        rank: int = 0,
        ranks: int = 1,
        workers: int = 0,
    ) -> None:
        if not 0 <= rank < ranks or batch_size < 2 * ranks:
            raise ValueError(
                f"each of {ranks} ranks needs at least two rows of a batch of {batch_size}: make the batch larger."
                if 0 <= rank < ranks
                else f"rank must lie in 0..{ranks - 1}, got {rank}."
            )
        self.data, self.batch_size, self.order = data, batch_size, order
        self.views = dict(views or {"plain": as_it_is})
        self.rows = torch.arange(len(data)) if rows is None else rows.to(torch.int64).cpu()
        self.draws = len(self.rows) if draws is None else draws
        if len(self.rows) == 0 or self.draws < 1:
            raise ValueError(f"a stream needs rows to draw from, got {len(self.rows)} rows and {self.draws} draws.")
        self.seed, self.rank, self.ranks, self.workers = seed, rank, ranks, workers
        self.epoch, self.step = 0, 0
        self._plan: tuple[Tensor, ...] | None = None
        # Labels to balance by: of the epoch under way, and of the next one. Corrected labels change between epochs.
        self._balance = self._next_balance = data.labels[self.rows].cpu()

    def __len__(self) -> int:
        """Return how many batches an epoch has."""
        count = len(self.rows) if self.order in ("shuffled", "sequential") else self.draws
        if self.order == "even":
            count = min(count, len(self.rows))
        return orders.number_of_batches(count, self.batch_size)

    def balance(self, labels: Tensor) -> None:
        """Balance by these labels (N,), for all rows of the data set, from the next epoch on.

        Before the first batch of an epoch, that epoch is the next one.
        """
        if len(labels) != len(self.data):
            raise ValueError(f"balance needs a label for each of the {len(self.data)} samples, got {len(labels)}.")
        self._next_balance = labels.to(torch.int64).cpu()[self.rows]

    def __iter__(self) -> Iterator[Batch]:
        plan = self._epoch_plan()
        for batch in self._made(plan, self.step):
            self.step += 1  # handed out is visited: a checkpoint made in the loop's body goes on with the next one
            yield batch
        self.epoch, self.step, self._plan = self.epoch + 1, 0, None

    def cycle(self) -> Iterator[Batch]:
        """Go on for ever, epoch after epoch."""
        while True:
            yield from self

    def state_dict(self) -> dict[str, Any]:
        """Return where the stream stands: what ``load_state_dict`` needs to go on as if nothing had happened."""
        return {
            "epoch": self.epoch,
            "step": self.step,
            "balance": self._balance,
            "next_balance": self._next_balance,
            "made_for": self._made_for(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Stand where another stream stood: one with the same rows, order, batch size and seed, on any rank."""
        ours, theirs = self._made_for(), state["made_for"]
        different = [name for name in ours if ours[name] != theirs[name]]
        if different:
            what = ", ".join(f"{name} {theirs[name]} there and {ours[name]} here" for name in different)
            raise ValueError(f"the stream cannot go on from this state: {what}.")
        self.epoch, self.step, self._plan = state["epoch"], state["step"], None
        self._balance, self._next_balance = state["balance"], state["next_balance"]

    def _made_for(self) -> dict[str, Any]:
        return {
            "rows": f"{len(self.rows)} (checksum {zlib.crc32(self.rows.numpy().tobytes()):08x})",
            "order": self.order,
            "batch_size": self.batch_size,
            "draws": self.draws,
            "seed": self.seed,
        }

    def _epoch_plan(self) -> tuple[Tensor, ...]:
        """Return the batches of the epoch under way, as rows."""
        if self.step == 0:
            self._balance = self._next_balance
            self._plan = None
        if self._plan is None:
            self._plan = orders.batches(self._epoch_order(), self.batch_size)
        return self._plan

    def _epoch_order(self) -> Tensor:
        if self.order == "sequential":
            return self.rows
        if self.order == "shuffled":
            return orders.shuffled(self.rows, self.seed, self.epoch)
        if self.order == "even":
            return orders.even(self.rows, self._balance, self.draws, self.seed, self.epoch)
        weights = orders.balancing_weights(self._balance, self.data.num_classes)
        return orders.weighted(self.rows, weights, self.draws, self.seed, self.epoch)

    def _made(self, plan: tuple[Tensor, ...], start: int) -> Iterator[Batch]:
        """Make the batches from ``start`` on, here or in workers."""
        maker = _Maker(self.data, self.views, plan, self.batch_size, self.seed, self.epoch, self.rank, self.ranks)
        steps = range(start, len(plan))
        if self.workers == 0 or not steps or isinstance(self.data.inputs, Images | Vectors):
            return map(maker.__getitem__, steps)
        loader: torch.utils.data.DataLoader[Batch] = torch.utils.data.DataLoader(
            maker,  # type: ignore[arg-type]
            sampler=steps,
            batch_size=None,
            num_workers=min(self.workers, len(steps)),
            collate_fn=_as_made,  # type: ignore[arg-type]
        )
        return iter(loader)


def _as_made(batch: Batch) -> Batch:
    return batch


class _Maker:
    """Step -> batch, for this rank; what a worker is sent."""

    def __init__(
        self,
        data: Data,
        views: Mapping[str, View],
        plan: tuple[Tensor, ...],
        batch_size: int,
        seed: int,
        epoch: int,
        rank: int,
        ranks: int,
    ) -> None:
        self.inputs, self.labels, self.views, self.plan, self.batch_size = (
            data.inputs,
            data.labels,
            views,
            plan,
            batch_size,
        )
        self.seed, self.epoch, self.rank, self.ranks = seed, epoch, rank, ranks

    def __len__(self) -> int:
        return len(self.plan)

    def __getitem__(self, step: int) -> Batch:
        mine = slice(self.rank, None, self.ranks)
        index = self.plan[step][mine]
        positions = step * self.batch_size + torch.arange(len(self.plan[step]))[mine]
        raw = self.inputs.batch(index)
        views = {}
        for name, view in self.views.items():
            views[name] = view(raw, visit_keys(self.seed, self.epoch, name, positions))
        return Batch(index, self.labels[index], views, visit_keys(self.seed, self.epoch, "", positions))
