"""``Stream``: rows of a data set as batches of views, epoch after epoch; deterministic, resumable, shared by ranks."""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from permll.data import samplers
from permll.data.dataset import LabeledData, read_rows
from permll.data.inputs import Images, Vectors
from permll.data.transforms.counter_rng import named_seed, visit_keys
from permll.data.transforms.defaults import as_it_is
from permll.data.transforms.image_transforms import Transform

Order = Literal["shuffled", "sequential", "weighted", "even"]
Share = Literal["rows", "views", "nothing"]


@dataclass(frozen=True, eq=False, slots=True)
class Batch:
    """B visits."""

    index: Tensor  # (B,) positions in the data set, for state per sample
    labels: Tensor  # (B,) as given
    views: dict[str, Tensor]  # by name, each (B, ...)
    keys: Tensor  # (B,) all the chance of these visits, for mixup and the like; stays on the CPU
    rows: int | None = None  # of all ranks together, where this rank has a part of them; default B

    @property
    def total(self) -> int:
        """How many rows the batch has on all ranks together."""
        return len(self.index) if self.rows is None else self.rows

    @property
    def x(self) -> Tensor:
        """Return the only view."""
        (view,) = self.views.values()
        return view

    def to(self, device: torch.device | str) -> "Batch":
        """Return the batch in the memory of ``device``."""
        moved = {name: view.to(device, non_blocking=True) for name, view in self.views.items()}
        return Batch(self.index.to(device), self.labels.to(device), moved, self.keys, self.rows)


class Stream:
    """Batches of a data set. Iterating goes from where the stream stands to the end of the epoch.

    A batch that was handed out counts as visited: after a look at the first one, a loop begins with the second.
    ``seek(0)`` goes back.

    An epoch is a pure function of seed, epoch and (for balanced orders) weights. Ranks share each batch between them:
    rank r of R takes its rows r, r + R, r + 2R, ..., so that together they visit what one process would, every row as
    often, none padded, with the same pixels. A rank's share of the last batch can be empty.

    Args:
        data: what to draw from.
        batch_size: rows of a batch, of all ranks together.
        views: by name, or just one; each batch holds all of them, made from one reading. Default: as they are.
        order: ``"shuffled"`` and ``"sequential"`` visit every row once. ``"weighted"`` draws with replacement, every
            label equally often unless ``weigh`` says otherwise; ``"even"`` draws without, as evenly over the labels as
            these allow. By which labels, ``balance`` says; at first by the given ones.
        rows: positions in ``data`` to draw from, all different, or a mask; default all.
        draws: visits of a weighted or even epoch, at most one of each row in an even one; default as many as rows.
        seed: of orders and views.
        name: streams of one seed that run side by side, each under a name of its own, share no draws.
        rank: which process this is.
        ranks: how many there are.
        share: what of a batch is shared between them: its ``"rows"``; its ``"views"``, while every rank has the index,
            labels and keys of all its rows; or ``"nothing"``.
        owned: rank r takes the rows n of a batch with n mod R = r, whose state it may hold, instead of its rows r,
            r + R, ...: shares are then equal in the mean only.
        workers: processes that read and make views ahead of time. Data in memory need none: batches come faster than
            another process could send them.

    Examples:
        >>> from permll.data import Vectors
        >>> data = LabeledData(Vectors(torch.rand(5, 2)), torch.tensor([0, 1, 0, 1, 0]), ("a", "b"), tuple("vwxyz"))
        >>> stream = Stream(data, batch_size=2, seed=1)
        >>> sorted(torch.cat([batch.index for batch in stream]).tolist())
        [0, 1, 2, 3, 4]
        >>> stream.epoch
        1
    """

    def __init__(
        self,
        data: LabeledData,
        batch_size: int,
        *,
        views: Mapping[str, Transform] | Transform | None = None,
        order: Order = "shuffled",
        rows: Tensor | Sequence[int] | None = None,
        draws: int | None = None,
        seed: int = 0,
        name: str = "",
        rank: int = 0,
        ranks: int = 1,
        share: Share = "rows",
        owned: bool = False,
        workers: int = 0,
    ) -> None:
        if not isinstance(data, LabeledData):
            raise TypeError(f"a stream draws from Data, got {type(data).__name__}: permll.data.load makes it.")
        self.data, self.batch_size, self.order = data, batch_size, order
        self.views = {"view": views} if callable(views) else dict(views or {"plain": as_it_is})
        self.rows = torch.arange(len(data)) if rows is None else read_rows(rows, len(data))
        self.draws = len(self.rows) if draws is None else draws
        self.seed, self.name, self.rank, self.ranks, self.workers = seed, name, rank, ranks, workers
        self.share, self.owned = share, owned
        self._refuse_the_impossible(draws)
        self._seed = named_seed(seed, name)
        self._epoch, self._step = 0, 0
        self._plan: tuple[Tensor, ...] | None = None
        self._turn = 0  # which iterator is the present one
        # What a balanced epoch follows: weights, or labels. The epoch under way has its own, the next may have others.
        self._guide = self._next_guide = self._guided_by(data.labels)

    def __repr__(self) -> str:
        where = f"epoch {self._epoch}, batch {self._step} of {len(self)}"
        return f"Stream({len(self.rows):,} rows, {self.order}, batches of {self.batch_size}, {where})"

    def __len__(self) -> int:
        """Return how many batches an epoch has."""
        count = self.draws if self.order == "weighted" else min(self.draws, len(self.rows))
        return samplers.number_of_batches(count, self.batch_size)

    @property
    def epoch(self) -> int:
        """How many epochs were handed out whole."""
        return self._epoch

    @property
    def step(self) -> int:
        """How many batches of the epoch under way were handed out."""
        return self._step

    def seek(self, epoch: int, step: int = 0) -> None:
        """Stand before batch ``step`` of an epoch."""
        if epoch < 0 or not 0 <= step < len(self):
            raise ValueError(f"there is no batch {step} of epoch {epoch}: an epoch has {len(self)}, counted from 0.")
        self._epoch, self._step, self._plan = epoch, step, None
        self._turn += 1

    def balance(self, labels: Tensor) -> None:
        """Balance by these labels (N,), one for each sample of the data set, from the next epoch on.

        Before the first batch of an epoch, that epoch is the next one.
        """
        if self.order not in ("weighted", "even"):
            raise ValueError(f"a {self.order} stream visits every row once: only weighted and even ones are balanced.")
        self._next_guide = self._guided_by(labels)

    def weigh(self, weights: Tensor) -> None:
        """Draw in proportion to these weights (N,), one for each sample of the data set, from the next epoch on."""
        if self.order != "weighted":
            raise ValueError(f"a {self.order} stream has no weights: make it with order='weighted'.")
        if weights.shape != (len(self.data),):
            raise ValueError(f"there must be a weight for each of the {len(self.data)} samples, got {len(weights)}.")
        self._next_guide = samplers.read_weights(weights[self.rows])

    def __iter__(self) -> Iterator[Batch]:
        if self._step == 0:
            self._guide = self._next_guide
        if self._plan is None:
            self._plan = samplers.batches(self._epoch_order(), self.batch_size)
        plan = self._plan
        self._turn += 1
        turn = self._turn
        for batch in self._made(plan, self._step):
            if turn != self._turn:
                raise RuntimeError(
                    "the stream went elsewhere since this loop began: one loop at a time, or two streams."
                )
            # Handed out is visited: a checkpoint made in the loop's body goes on with the next one.
            self._step += 1
            if self._step == len(plan):
                self._epoch, self._step, self._plan = self._epoch + 1, 0, None
            yield batch

    def cycle(self) -> Iterator[Batch]:
        """Go on for ever, epoch after epoch."""
        while True:
            yield from self

    def state_dict(self) -> dict[str, Any]:
        """Return where the stream stands: what ``load_state_dict`` needs to go on as if nothing had happened."""
        guides = {} if self._guide is None else {"guide": self._guide, "next_guide": self._next_guide}
        return {"epoch": self._epoch, "step": self._step, **guides, "made_for": self._made_for()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Stand where another stream stood: one with the same rows, order, batch size and seed, on any rank."""
        ours, theirs = self._made_for(), state["made_for"]
        different = [name for name in ours if ours[name] != theirs[name]]
        if different:
            what = ", ".join(f"{name} {theirs[name]} there and {ours[name]} here" for name in different)
            raise ValueError(f"the stream cannot go on from this state: {what}.")
        self.seek(state["epoch"], state["step"])
        self._guide, self._next_guide = state.get("guide"), state.get("next_guide")

    def _made_for(self) -> dict[str, Any]:
        return {
            "rows": f"{len(self.rows)} (checksum {zlib.crc32(self.rows.numpy().tobytes()):08x})",
            "order": self.order,
            "batch_size": self.batch_size,
            "draws": self.draws,
            "seed": self.seed,
            "name": self.name,
        }

    def _guided_by(self, labels: Tensor) -> Tensor | None:
        if self.order in ("shuffled", "sequential"):
            return None
        if labels.shape != (len(self.data),) or labels.is_floating_point() or labels.is_complex():
            found = f"{labels.dtype} {tuple(labels.shape)}"
            raise ValueError(f"balancing takes a class number for each of the {len(self.data)} samples, got {found}.")
        own = labels.cpu().to(torch.int64)[self.rows]
        if bool((own < 0).any()) or bool((own >= self.data.num_classes).any()):
            raise ValueError(f"labels to balance by must lie in 0..{self.data.num_classes - 1}.")
        return samplers.balancing_weights(own, self.data.num_classes) if self.order == "weighted" else own

    def _epoch_order(self) -> Tensor:
        if self.order == "sequential":
            return self.rows
        if self.order == "shuffled":
            return samplers.shuffled(self.rows, self._seed, self._epoch)
        assert self._guide is not None
        draw = samplers.even if self.order == "even" else samplers.weighted
        return draw(self.rows, self._guide, self.draws, self._seed, self._epoch)

    def _made(self, plan: tuple[Tensor, ...], start: int) -> Iterator[Batch]:
        """Make the batches from ``start`` on, here or in workers."""
        maker = _Maker(self, plan)
        steps = range(start, len(plan))
        if self.workers == 0 or isinstance(self.data.inputs, Images | Vectors):
            return map(maker.__getitem__, steps)
        loader: torch.utils.data.DataLoader[Batch] = torch.utils.data.DataLoader(
            maker,  # type: ignore[arg-type]
            sampler=steps,
            batch_size=None,
            num_workers=min(self.workers, len(steps)),
            collate_fn=_as_made,  # type: ignore[arg-type]
            generator=torch.Generator(),  # otherwise it draws from the global one, and dropout would feel it
        )
        return iter(loader)

    def _refuse_the_impossible(self, draws: int | None) -> None:
        if self.order not in get_args(Order):
            raise ValueError(f"order must be one of {', '.join(get_args(Order))}; got {self.order!r}.")
        if not 0 <= self.rank < self.ranks:
            raise ValueError(f"rank must lie in 0..{self.ranks - 1}, got {self.rank}.")
        if self.batch_size < 1 or (self.ranks > 1 and self.batch_size < 2 * self.ranks):
            raise ValueError(
                f"a batch of {self.batch_size} is too small: each of {self.ranks} ranks needs two rows of it or more."
            )
        if len(self.rows) == 0 or self.draws < 1:
            raise ValueError(f"a stream needs rows to draw from, got {len(self.rows)} rows and {self.draws} draws.")
        if draws is not None and self.order not in ("weighted", "even"):
            raise ValueError(f"draws= has no meaning for a {self.order} stream: it visits every row once.")
        if len(self.rows.unique()) < len(self.rows):
            raise ValueError("rows must differ: to visit some more often than others, use order='weighted' and weigh.")
        if self.seed < 0:
            raise ValueError(f"the seed must not be negative, got {self.seed}.")


def _as_made(batch: Batch) -> Batch:
    return batch


class _Maker:
    """Step -> batch, for this rank; what a worker is sent."""

    def __init__(self, stream: Stream, plan: tuple[Tensor, ...]) -> None:
        self.inputs, self.labels, self.views = stream.data.inputs, stream.data.labels, stream.views
        self.plan, self.batch_size, self.seed, self.epoch = plan, stream.batch_size, stream._seed, stream.epoch
        self.rank, self.ranks, self.share, self.owned = stream.rank, stream.ranks, stream.share, stream.owned

    def __len__(self) -> int:
        return len(self.plan)

    def __getitem__(self, step: int) -> Batch:
        index = self.plan[step]
        positions = step * self.batch_size + torch.arange(len(index))
        own = self._own(index)
        raw = self.inputs.batch(index[own])
        views = {
            name: view(raw, visit_keys(self.seed, self.epoch, name, positions[own]))
            for name, view in self.views.items()
        }
        rows = len(index)
        if self.share == "rows":
            index, positions = index[own], positions[own]
        return Batch(index, self.labels[index], views, visit_keys(self.seed, self.epoch, "", positions), rows)

    def _own(self, index: Tensor) -> slice | Tensor:
        if self.ranks == 1 or self.share == "nothing":
            return slice(None)
        return index % self.ranks == self.rank if self.owned else slice(self.rank, None, self.ranks)
