"""``Stream``: batches of transformed samples; deterministic, resumable, divided between processes."""

import functools
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from permll.data import samplers
from permll.data.dataset import LabeledData, to_indices
from permll.data.inputs import Images, Vectors
from permll.data.transforms.counter_rng import derive_seed, visit_keys
from permll.data.transforms.defaults import identity
from permll.data.transforms.image_transforms import Transform
from permll.utils.validation import check_class_labels

Order = Literal["shuffled", "sequential", "weighted", "balanced"]
Sharding = Literal["rows", "views", "nothing"]


@dataclass(frozen=True, eq=False, slots=True)
class Batch:
    """B samples of a stream, with their views."""

    index: Tensor  # (B,) positions in the dataset, for per-sample state
    labels: Tensor  # (B,) as given
    views: dict[str, Tensor]  # by name, each (B, ...)
    keys: Tensor  # (B,) keys of all random draws of these visits, for mixup and the like; on the CPU
    global_size: int = 0  # rows on all processes together; default B

    def __post_init__(self) -> None:
        if not self.global_size:
            object.__setattr__(self, "global_size", len(self.index))

    @property
    def x(self) -> Tensor:
        """Return the only view."""
        (view,) = self.views.values()
        return view

    def to(self, device: torch.device | str) -> "Batch":
        """Return the batch on ``device``."""
        views = {name: view.to(device, non_blocking=True) for name, view in self.views.items()}
        return Batch(self.index.to(device), self.labels.to(device), views, self.keys, self.global_size)


class Stream:
    """Batches of a dataset; iteration continues from the current position to the end of the epoch.

    A batch counts as visited when it is returned: after ``next(iter(stream))``, a loop begins with the second batch.
    ``seek(0)`` rewinds.

    An epoch is a pure function of seed, epoch and (for balanced orders) labels. Processes divide each batch: rank r of
    R takes rows r, r + R, r + 2R, ..., so that together they visit the same rows with the same pixels as one process,
    without padding. A rank may have no row of the last batch.

    Args:
        data: the dataset.
        batch_size: rows of a batch, on all processes together.
        views: transforms by name, or one transform; each batch holds all of them, from one read. Default: none.
        order: ``"shuffled"`` and ``"sequential"`` visit every row once. ``"weighted"`` draws with replacement, every
            label equally often; ``"balanced"`` draws without replacement, as evenly over the labels as possible.
            ``balance`` sets the labels; the first epoch uses the given ones.
        rows: positions in ``data`` to draw from, without repeats, or a mask; default all.
        draws: number of visits in a weighted or balanced epoch; default the number of rows.
        seed: seed of orders and transforms.
        name: name of the stream; streams with one seed and different names draw independently.
        rank: rank of this process.
        world_size: number of processes.
        sharding: what the processes divide: the ``"rows"`` of a batch; only its ``"views"``, while every process has
            index, labels and keys of all rows; or ``"nothing"``.
        shard_by_index: rank r takes the rows n with n mod R = r, whose state it may hold, instead of rows r, r + R,
            ... of the batch; the parts are then equal only on average.
        workers: processes that read and transform batches ahead. Data in memory uses none, which is faster.

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
        world_size: int = 1,
        sharding: Sharding = "rows",
        shard_by_index: bool = False,
        workers: int = 0,
    ) -> None:
        if not isinstance(data, LabeledData):
            raise TypeError(f"data must be LabeledData, got {type(data).__name__}: use permll.data.load.")
        self.data, self.batch_size, self.order = data, batch_size, order
        self.views = {"view": views} if callable(views) else dict(views or {"plain": identity})
        self.rows = torch.arange(len(data)) if rows is None else to_indices(rows, len(data))
        self.draws = len(self.rows) if draws is None else draws
        self.seed, self.name, self.rank, self.world_size, self.workers = seed, name, rank, world_size, workers
        self.sharding, self.shard_by_index = sharding, shard_by_index
        self._validate(draws)
        self._seed = derive_seed(seed, name)
        self.epoch = 0  # number of completed epochs
        self.step = 0  # number of batches of the current epoch that were returned
        self._batches: tuple[Tensor, ...] | None = None
        self._iterator = 0  # number of the current iterator
        # Weights or labels of the current and of the next weighted or balanced epoch.
        self._balance_by = self._next_balance_by = self._to_balance_by(data.labels)

    def __repr__(self) -> str:
        position = f"epoch {self.epoch}, batch {self.step} of {len(self)}"
        return f"Stream({len(self.rows):,} rows, {self.order}, batches of {self.batch_size}, {position})"

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        count = self.draws if self.order == "weighted" else min(self.draws, len(self.rows))
        return samplers.num_batches(count, self.batch_size)

    def seek(self, epoch: int, step: int = 0) -> None:
        """Move to the position before batch ``step`` of an epoch."""
        if epoch < 0 or not 0 <= step < len(self):
            raise ValueError(f"no batch {step} in epoch {epoch}: an epoch has batches 0..{len(self) - 1}.")
        self.epoch, self.step, self._batches = epoch, step, None
        self._iterator += 1

    def balance(self, labels: Tensor) -> None:
        """Balance by these labels (N,), one per sample of the dataset, from the next epoch on.

        Before the first batch of an epoch, that epoch is the next one.
        """
        if self.order not in ("weighted", "balanced"):
            raise ValueError(f"a {self.order} stream cannot be balanced: use order='weighted' or 'balanced'.")
        self._next_balance_by = self._to_balance_by(labels)

    def __iter__(self) -> Iterator[Batch]:
        if self.step == 0:
            self._balance_by = self._next_balance_by
        if self._batches is None:
            self._batches = samplers.split_batches(self._epoch_order(), self.batch_size)
        batches = self._batches
        self._iterator += 1
        iterator = self._iterator
        for batch in self._iterate(batches, self.step):
            if iterator != self._iterator:
                raise RuntimeError("the stream moved during iteration: use one loop at a time, or two streams.")
            # Updated before the batch is used: a checkpoint made in the loop's body resumes with the next batch.
            self.step += 1
            if self.step == len(batches):
                self.epoch, self.step, self._batches = self.epoch + 1, 0, None
            yield batch

    def cycle(self) -> Iterator[Batch]:
        """Iterate without end, epoch after epoch."""
        while True:
            yield from self

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the stream, for ``load_state_dict``."""
        balance = {} if self._balance_by is None else {"current": self._balance_by, "next": self._next_balance_by}
        return {"epoch": self.epoch, "step": self.step, "balance_by": balance, "config": self._config()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the position of a stream with the same rows, order, batch size and seed, on any rank."""
        config, saved = self._config(), state["config"]
        different = [name for name in config if config[name] != saved[name]]
        if different:
            what = ", ".join(f"{name} is {saved[name]} there and {config[name]} here" for name in different)
            raise ValueError(f"the state belongs to another stream: {what}.")
        self.seek(state["epoch"], state["step"])
        self._balance_by, self._next_balance_by = (state["balance_by"].get(key) for key in ("current", "next"))

    def _config(self) -> dict[str, Any]:
        return {
            "rows": f"{len(self.rows)} (checksum {zlib.crc32(self.rows.numpy().tobytes()):08x})",
            "order": self.order,
            "batch_size": self.batch_size,
            "draws": self.draws,
            "seed": self.seed,
            "name": self.name,
        }

    def _to_balance_by(self, labels: Tensor) -> Tensor | None:
        if self.order in ("shuffled", "sequential"):
            return None
        if labels.shape != (len(self.data),):
            raise ValueError(f"balancing needs a label for each of the {len(self.data)} samples, got {len(labels)}.")
        subset = labels.cpu()[self.rows]
        check_class_labels(
            subset, self.data.num_classes, name="labels to balance by", rows=self.rows.tolist(), noun="row"
        )
        subset = subset.to(torch.int64)
        return samplers.balanced_weights(subset, self.data.num_classes) if self.order == "weighted" else subset

    def _epoch_order(self) -> Tensor:
        if self.order == "sequential":
            return self.rows
        if self.order == "shuffled":
            return samplers.shuffle(self.rows, self._seed, self.epoch)
        assert self._balance_by is not None
        sample = samplers.balanced_sample if self.order == "balanced" else samplers.weighted_sample
        return sample(self.rows, self._balance_by, self.draws, self._seed, self.epoch)

    def _iterate(self, batches: tuple[Tensor, ...], start: int) -> Iterator[Batch]:
        """Yield the batches from ``start`` on, built here or in workers."""
        steps, build = range(start, len(batches)), functools.partial(self._build, batches, self.epoch)
        if self.workers == 0 or isinstance(self.data.inputs, Images | Vectors):
            return map(build, steps)
        loader: torch.utils.data.DataLoader[Batch] = torch.utils.data.DataLoader(
            steps,  # type: ignore[arg-type]
            batch_size=None,
            collate_fn=build,
            num_workers=min(self.workers, len(steps)),
            generator=torch.Generator(),  # the default draws from the global generator, which dropout uses
        )
        return iter(loader)

    def _build(self, batches: tuple[Tensor, ...], epoch: int, step: int) -> Batch:
        """Return the part of a batch that belongs to this process."""
        index = batches[step]
        global_size = len(index)
        positions = step * self.batch_size + torch.arange(global_size)
        local: slice | Tensor = slice(self.rank, None, self.world_size)
        if self.world_size == 1 or self.sharding == "nothing":
            local = slice(None)
        elif self.shard_by_index:
            local = index % self.world_size == self.rank
        raw = self.data.inputs.batch(index[local])
        views = {
            name: view(raw, visit_keys(self._seed, epoch, name, positions[local])) for name, view in self.views.items()
        }
        if self.sharding == "rows":
            index, positions = index[local], positions[local]
        keys = visit_keys(self._seed, epoch, "", positions)
        return Batch(index, self.data.labels[index], views, keys, global_size)

    def _validate(self, draws: int | None) -> None:
        if self.order not in get_args(Order):
            raise ValueError(f"order must be one of {', '.join(get_args(Order))}; got {self.order!r}.")
        if not 0 <= self.rank < self.world_size:
            raise ValueError(f"rank must be in 0..{self.world_size - 1}, got {self.rank}.")
        if self.batch_size < 1 or (self.world_size > 1 and self.batch_size < 2 * self.world_size):
            raise ValueError(
                f"a batch size of {self.batch_size} is too small: each of {self.world_size} processes needs at least "
                "two rows."
            )
        if len(self.rows) == 0 or self.draws < 1:
            raise ValueError(f"a stream needs rows to draw from, got {len(self.rows)} rows and {self.draws} draws.")
        if draws is not None and self.order not in ("weighted", "balanced"):
            raise ValueError(f"draws= is not supported for a {self.order} stream, which visits every row once.")
        if len(self.rows.unique()) < len(self.rows):
            raise ValueError("rows must be unique.")
        if self.seed < 0:
            raise ValueError(f"the seed must not be negative, got {self.seed}.")
