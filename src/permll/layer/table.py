"""``RowTable``: a row for each of N samples, whole or by its k largest entries, in memory or on disk.

All that is remembered of samples goes through ``read``, ``write``, ``add`` and ``chunks``; nothing else knows how it is
kept, of which any two or three go together:

- dense, the default: 4 c bytes a row in float32;
- ``top_k``: 6 k + 4 bytes in float32 for up to 32,768 classes, 8 k + 4 for more;
- bfloat16: half of what is in float32, rounded stochastically;
- ``file``: on disk, of which the pages in use are in memory.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from permll.layer.memmap import Layout, finish, forget, map_tensors, temporary_file
from permll.layer.rounding import chances, stochastic_bfloat16
from permll.layer.state_keys import ROW_PARTS, saved_rows, state_key
from permll.layer.top_k import Change, Tail, TopKRows, compress, expand, largest, log_total, moved, split_repeats
from permll.layer.validation import take_rows

File = str | Path | Literal[True] | None
LARGEST = 4 * 2**30  # bytes that ``values`` may make out of rows that are kept otherwise
CHUNK = 2**24  # numbers in the rows of a chunk


class RowTable(nn.Module):
    """N rows of one shape, read and written by position.

    Args:
        rows: N.
        shape: of a row.
        fill: what every entry begins with.
        labels: (N,) the given labels, if rows have an entry for each class; ``top_k`` never lets go of theirs.
        at_label: what the entry of the label begins with; default ``fill``.
        dtype: float32, float64, or bfloat16, which is rounded stochastically and read as float32; dense rows may be of
            any other too.
        top_k: keep so many entries of a row, and one number that stands for all others; see ``permll.layer.top_k``.
            N c numbers are then never made. ``None`` keeps all.
        tail: what that number is: ``"logmeanexp"`` for rows that go through softmax, else ``"mean"``.
        file: where rows are kept on disk. One that was left by a table like this is taken up as it is. ``True`` is a
            temporary file, which nothing remains of.
        own: which rows of a larger table these are: what is rounded by chance is rounded there in the same way.

    Buffers are not persistent: the owner, who knows whose rows they are, saves ``state`` and gives it to ``load``.

    Examples:
        >>> table = RowTable(3, (5,), labels=torch.tensor([4, 0, 2]), at_label=1.0, top_k=2)
        >>> table.add(torch.tensor([0, 2, 0]), torch.ones(3, 5).triu(3), scale=0.5)  # both of the first row count
        >>> table.values
        tensor([[0.0000, 0.0000, 0.0000, 0.5000, 1.5000],
                [1.0000, 0.0000, 0.0000, 0.0000, 0.0000],
                [0.0000, 0.0000, 1.0000, 0.0000, 0.5000]])
    """

    def __init__(
        self,
        rows: int,
        shape: tuple[int, ...] = (),
        *,
        fill: float = 0.0,
        labels: Tensor | None = None,
        at_label: float | None = None,
        dtype: torch.dtype = torch.float32,
        top_k: int | None = None,
        tail: Tail = "mean",
        file: File = None,
        own: slice = slice(None),
    ) -> None:
        super().__init__()
        self._first, self._stride = own.start or 0, own.step or 1
        self.shape, self.tail_kind, self.mapped = shape, tail, file is not None
        self.kept_entries = 0 if top_k is None else _checked(top_k, shape, labels, dtype)
        layout = _layout(rows, shape, dtype, self.kept_entries)
        if file is None:
            device = None if labels is None else labels.device
            self._register(
                {part: torch.zeros(size, dtype=kind, device=device) for part, (size, kind) in layout.items()}
            )
            self._begin(labels, fill, at_label)
            return
        about: dict[str, Any] = {"permll": "rows", "rows": rows, "shape": shape, "dtype": str(dtype)}
        about |= {"top_k": top_k, "tail": tail, "fill": fill, "at_label": at_label}
        about["labels"] = None if labels is None else _digest(labels)
        path = temporary_file() if file is True else Path(file)
        tensors, there = map_tensors(path, layout, about)
        self._register(tensors)
        if not there:
            self._begin(labels, fill, at_label)
            finish(path, about)
        if file is True:
            forget(path)

    def __len__(self) -> int:
        return len(self._main)

    @property
    def whole(self) -> Tensor | None:
        """Dense rows (N, ...) as they are kept; None with ``top_k``."""
        return self._buffers.get("rows")

    @property
    def _writes(self) -> Tensor | None:
        """How many writes were rounded stochastically (1,); None where none are."""
        return self._buffers.get("writes")

    @property
    def dtype(self) -> torch.dtype:
        """What rows are read as."""
        kept = self._main.dtype
        return torch.float32 if kept is torch.bfloat16 else kept

    @property
    def device(self) -> torch.device:
        """Where rows are."""
        return self._main.device

    @property
    def width(self) -> int:
        """How many numbers a row has."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """How much room all rows take."""
        return sum(tensor.nbytes for tensor in self._tensors.values())

    @property
    def values(self) -> Tensor:
        """All rows (N, ...): dense ones themselves, to look at and to change; of any others a copy."""
        if self.whole is not None and self.whole.dtype == self.dtype:
            return self.whole
        size = len(self) * self.width * self.dtype.itemsize
        if size > LARGEST:
            raise ValueError(
                f"{len(self)} rows of {self.width} numbers would take {size / 2**30:.1f} GiB, and only up to "
                f"{LARGEST / 2**30:.0f} are made at once: ask for the rows you need, or go through chunks()."
            )
        return self.each(lambda rows, _: rows)

    def read(self, index: Tensor) -> Tensor:
        """Return the rows (B, ...) at ``index`` (B,), a copy."""
        whole = self.whole
        if whole is not None:
            rows = take_rows(whole, index)
            return rows.float() if rows.dtype is torch.bfloat16 else rows
        return expand(self.read_kept(index), self.width)

    def read_kept(self, index: Tensor) -> TopKRows:
        """Return the rows at ``index`` (B,) as they are kept by ``top_k``."""
        classes, values, tail = (take_rows(part, index) for part in self._parts)
        return TopKRows(classes.long(), values.to(self.dtype), tail.to(self.dtype))

    def write(self, index: Tensor, rows: Tensor) -> None:
        """Replace the rows at ``index`` (B,) by ``rows`` (B, ...)."""
        rows = rows.detach().to(self.device, self.dtype)
        if self.whole is None:
            labels = take_rows(self._parts[0], index)[:, 0].long()
            self._write_kept(index, compress(rows, labels, self.kept_entries, self.tail_kind))
        else:
            self.whole.index_copy_(0, index, self._rounded(index, rows))

    def add(self, index: Tensor, rows: Tensor | Change, scale: float = 1.0) -> None:
        """Add ``scale`` times ``rows`` (B, ...) to those at ``index`` (B,), as often as a row is named.

        With ``top_k`` a ``Change`` will do for rows, which costs O(B k²); a row that is named twice then moves twice.
        """
        if isinstance(rows, Change):
            for places in split_repeats(index):
                change = Change(*(part[places].to(self.device) for part in rows))
                self._write_kept(index[places], moved(self.read_kept(index[places]), change, scale, self.width))
        elif (whole := self.whole) is not None and self._writes is None:
            whole.index_add_(0, index, rows.to(whole), alpha=scale)
        else:
            named, place = index.unique(return_inverse=True)
            total = torch.zeros(len(named), *self.shape, dtype=self.dtype, device=self.device)
            total.index_add_(0, place, rows.to(total), alpha=scale)
            self.write(named, self.read(named).add_(total))

    def chunks(self, rows_per_chunk: int | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield positions (n,) and rows (n, ...), some at a time until all have come."""
        for positions in self._portions(rows_per_chunk):
            if self.whole is not None and self.whole.dtype == self.dtype:
                yield positions, self.whole[int(positions[0]) : int(positions[-1]) + 1]
            else:
                yield positions, self.read(positions)

    def each(self, function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Return what a function of rows (n, ...) and their positions (n,) says of every row, (N, ...)."""
        return torch.cat([function(rows, positions) for positions, rows in self.chunks()])

    def argmax(self) -> Tensor:
        """Return the class (N,) with the largest entry of each row, of several the first; with ``top_k`` in O(N k)."""
        if self.whole is not None:
            return self.whole.argmax(-1)
        return torch.cat([largest(self.read_kept(some), self.width) for some in self._portions()])

    def softmax_at_label(self, labels: Tensor) -> Tensor:
        """Return softmax of each row at its own label (N,); with ``top_k`` in O(N k)."""
        if self.whole is not None:
            return self.each(lambda rows, at: rows.softmax(-1).gather(1, labels[at, None])[:, 0])
        portions = (self.read_kept(some) for some in self._portions(CHUNK // (16 * self.kept_entries)))
        return torch.cat([(row.values[:, 0] - log_total(row, self.width)).exp() for row in portions])

    def state(self, name: str) -> dict[str, Tensor]:
        """Return what there is to save: dense rows under ``name``, other tensors with a second part to it."""
        found = {state_key(name, part): tensor.detach() for part, tensor in self._tensors.items()}
        return found if self.whole is not None else found | {state_key(name, "width"): torch.tensor(self.width)}

    def load(self, saved: Mapping[str, Tensor], here: Tensor, there: Tensor) -> None:
        """Take the rows of a state at ``there`` (n,) for those at ``here`` (n,).

        A state of rows that were kept in another way, with another k or another dtype is converted.

        Args:
            saved: as ``take_parts`` finds it; its rows must have the right shape.
            here: (n,) positions in this table.
            there: (n,) positions in the state.
        """
        alike = all(part in saved and self._fits(saved[part], tensor) for part, tensor in self._tensors.items())
        for some in torch.arange(len(here)).split(self._per_chunk):
            mine, its = here[some].to(self.device), there[some]
            if alike:  # the same to the bit
                for part in ROW_PARTS & self._tensors.keys():
                    chosen = saved[part].index_select(0, its.to(saved[part].device))
                    self._tensors[part].index_copy_(0, mine, chosen.to(self._tensors[part]))
            else:
                self.write(mine, saved_rows(saved, its))
        if self._writes is not None and "writes" in saved:
            self._writes.copy_(saved["writes"])

    def extra_repr(self) -> str:
        """Return what is kept of how many rows."""
        kept = f", top_k={self.kept_entries}" if self.kept_entries else ""
        return f"{len(self)} rows of {self.shape}{kept}, {self._main.dtype}{', on disk' if self.mapped else ''}"

    @property
    def _tensors(self) -> dict[str, Tensor]:
        return self._buffers  # type: ignore[return-value]  # none of them is ever None

    @property
    def _main(self) -> Tensor:
        return self._tensors["kept" if self.kept_entries else "rows"]

    @property
    def _parts(self) -> tuple[Tensor, Tensor, Tensor]:
        return self._tensors["classes"], self._tensors["kept"], self._tensors["tail"]

    @property
    def _per_chunk(self) -> int:
        return max(1, CHUNK // max(self.width, 1))

    def _portions(self, size: int | None = None) -> Iterator[Tensor]:
        yield from torch.arange(len(self), device=self.device).split(size or self._per_chunk)

    def _fits(self, saved: Tensor, tensor: Tensor) -> bool:
        return saved.shape[1:] == tensor.shape[1:] and (self._writes is None or saved.dtype == tensor.dtype)

    def _register(self, tensors: Mapping[str, Tensor]) -> None:
        for part, tensor in tensors.items():
            self.register_buffer(part, tensor, persistent=False)

    def _begin(self, labels: Tensor | None, fill: float, at_label: float | None) -> None:
        """Give every row its first values; memory and files begin with zeros, of which pages cost nothing yet."""
        if self.whole is not None:
            if fill:
                self.whole.fill_(fill)
            if labels is not None and at_label is not None:
                self.whole.scatter_(1, labels[:, None].to(self.device), at_label)
            return
        assert labels is not None
        classes, kept, tail = self._parts
        for place in range(self.kept_entries):  # the label, and any others: they are all alike
            classes[:, place] = (labels + place) % self.width
        kept.fill_(fill)
        tail.fill_(fill if self.kept_entries < self.width else 0.0)
        if at_label is not None:
            kept[:, 0] = at_label

    def _write_kept(self, index: Tensor, row: TopKRows) -> None:
        numbers = self._rounded(index, torch.cat([row.values, row.tail[:, None]], 1))
        classes, kept, tail = self._parts
        classes.index_copy_(0, index, row.classes.to(classes.dtype))
        kept.index_copy_(0, index, numbers[:, :-1])
        tail.index_copy_(0, index, numbers[:, -1])

    def _rounded(self, index: Tensor, rows: Tensor) -> Tensor:
        """Return rows (B, ...) as they can be kept: all that is rounded is rounded here."""
        if self._writes is None:
            return rows
        write = self._writes.add_(1)
        flat = rows.reshape(len(rows), -1)
        number = self._first + self._stride * index
        return stochastic_bfloat16(flat, chances(number, flat.shape[1], write)).view(rows.shape)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        if self.mapped:
            return self  # what is on disk stays there, whatever the network is moved to or cast to
        before = dict(self._tensors)
        super()._apply(fn, recurse)
        for part, tensor in before.items():  # and what was chosen to be rounded, or would be by a cast, stays as it was
            changed = self._tensors[part]
            if changed.dtype != tensor.dtype and (self._writes is not None or changed.dtype.itemsize < 4):
                self._buffers[part] = tensor.to(changed.device)
        return self


def _checked(top_k: int, shape: tuple[int, ...], labels: Tensor | None, dtype: torch.dtype) -> int:
    if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1:
        raise ValueError(f"top_k must be a whole number, at least 1, got {top_k!r}.")
    if len(shape) != 1 or labels is None or not dtype.is_floating_point:
        raise ValueError(f"top_k is for rows with a number for each class and labels, not for {dtype} of {shape}.")
    return min(top_k, shape[0])


def _layout(rows: int, shape: tuple[int, ...], dtype: torch.dtype, k: int) -> Layout:
    layout: dict[str, tuple[tuple[int, ...], torch.dtype]] = {"rows": ((rows, *shape), dtype)}
    if k:
        numbers = torch.int16 if shape[0] <= 2**15 else torch.int32
        layout = {"classes": ((rows, k), numbers), "kept": ((rows, k), dtype), "tail": ((rows,), dtype)}
    return layout | ({"writes": ((1,), torch.int64)} if dtype == torch.bfloat16 else {})


def _digest(labels: Tensor) -> str:
    return hashlib.sha256(labels.cpu().contiguous().numpy().tobytes()).hexdigest()[:16]
