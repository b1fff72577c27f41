"""``RowTable``: one row per sample, dense or compressed to its top k entries, in memory or on disk.

Storage formats, which can be combined:

- dense (default): 4 c bytes per row in float32;
- ``top_k``: 6 k + 4 bytes in float32 for up to 32,768 classes, 8 k + 4 for more;
- bfloat16: half of float32, rounded stochastically;
- ``file``: memory-mapped from disk.

All access goes through ``read``, ``write``, ``add`` and ``chunks``, which hide the format.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from permll.layer.memmap import Layout, map_tensors, temporary_file, unlink_mapped, write_header
from permll.layer.rounding import rounding_bits, stochastic_bfloat16
from permll.layer.state_keys import ROW_PARTS, saved_rows, state_key
from permll.layer.top_k import (
    Tail,
    TopKRows,
    TopKUpdate,
    apply_update,
    compress,
    expand,
    row_argmax,
    row_logsumexp,
)
from permll.layer.validation import select_rows
from permll.utils.indexing import split_repeats

File = str | Path | Literal[True] | None
MAX_DENSE_BYTES = 4 * 2**30  # limit for the dense copy that ``values`` makes of compressed rows
CHUNK_SIZE = 2**24  # numbers in the rows of a chunk


class RowTable(nn.Module):
    """N rows of one shape, read and written by position.

    Args:
        rows: N.
        shape: shape of a row.
        fill: initial value of all entries.
        labels: (N,) given labels, for rows with one entry per class; ``top_k`` always stores the label's entry.
        at_label: initial value of the label's entry; default ``fill``.
        dtype: float32, float64 or bfloat16, which is rounded stochastically and read as float32. Dense rows may have
            any other dtype.
        top_k: number of entries stored per row, plus one value for all others; see ``permll.layer.top_k``. Default: all
            entries.
        tail: value for the other entries: ``"logmeanexp"`` for rows of logits, else ``"mean"``.
        file: path for rows on disk; a file written by an identical table is reopened with its content. ``True`` uses a
            temporary file, which is deleted with the table.
        shard: which rows of a larger table these are; makes stochastic rounding independent of sharding.

    The rows are not buffers: wrappers for several processes would broadcast those of rank 0 in every forward pass, and
    averages of models would average them. The owner, which knows the sample ids, saves ``state`` and passes it to
    ``load``.

    Examples:
        >>> table = RowTable(3, (5,), labels=torch.tensor([4, 0, 2]), at_label=1.0, top_k=2)
        >>> table.add(torch.tensor([0, 2, 0]), torch.ones(3, 5).triu(3), scale=0.5)  # row 0 is updated twice
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
        shard: slice = slice(None),
    ) -> None:
        super().__init__()
        self._tensors: dict[str, Tensor] = {}
        self._first, self._stride = shard.start or 0, shard.step or 1
        self.shape, self._tail_kind, self.is_mapped = shape, tail, file is not None
        self.top_k = 0 if top_k is None else _check_top_k(top_k, shape, labels, dtype)
        layout = _layout(rows, shape, dtype, self.top_k)
        if file is None:
            device = None if labels is None else labels.device
            self._tensors = {part: torch.zeros(size, dtype=d, device=device) for part, (size, d) in layout.items()}
            self._initialize(labels, fill, at_label)
            return
        metadata: dict[str, Any] = {"permll": "rows", "rows": rows, "shape": shape, "dtype": str(dtype)}
        metadata |= {"top_k": top_k, "tail": tail, "fill": fill, "at_label": at_label}
        metadata["labels"] = None if labels is None else _digest(labels)
        path = temporary_file() if file is True else Path(file)
        self._tensors, exists = map_tensors(path, layout, metadata)
        if not exists:
            self._initialize(labels, fill, at_label)
            write_header(path, metadata)
        if file is True:
            unlink_mapped(path)

    def __len__(self) -> int:
        return len(self._main)

    @property
    def dense(self) -> Tensor | None:
        """The stored dense rows (N, ...); None with ``top_k``."""
        return self._tensors.get("rows")

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of rows as they are read."""
        dtype = self._main.dtype
        return torch.float32 if dtype is torch.bfloat16 else dtype

    @property
    def device(self) -> torch.device:
        """Device of the rows."""
        return self._main.device

    @property
    def width(self) -> int:
        """Number of entries of a row."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Size of all rows in bytes."""
        return sum(tensor.nbytes for tensor in self._tensors.values())

    @property
    def values(self) -> Tensor:
        """All rows (N, ...): the stored tensor if it is dense float32 or float64, otherwise a copy."""
        if self.dense is not None and self.dense.dtype == self.dtype:
            return self.dense
        size = len(self) * self.width * self.dtype.itemsize
        if size > MAX_DENSE_BYTES:
            raise ValueError(
                f"{len(self)} dense rows of {self.width} numbers take {size / 2**30:.1f} GiB, more than the limit of "
                f"{MAX_DENSE_BYTES / 2**30:.0f} GiB: read single rows, or iterate over chunks()."
            )
        return self.map_rows(lambda rows, _: rows)

    def read(self, index: Tensor) -> Tensor:
        """Return a copy of the rows (B, ...) at ``index`` (B,)."""
        dense = self.dense
        if dense is not None:
            rows = select_rows(dense, index)
            return rows.float() if rows.dtype is torch.bfloat16 else rows
        return expand(self.read_top_k(index), self.width)

    def read_top_k(self, index: Tensor) -> TopKRows:
        """Return the compressed rows at ``index`` (B,)."""
        classes, values, tail = (select_rows(part, index) for part in self._parts)
        return TopKRows(classes.long(), values.to(self.dtype), tail.to(self.dtype))

    def write(self, index: Tensor, rows: Tensor) -> None:
        """Replace the rows at ``index`` (B,) by ``rows`` (B, ...)."""
        rows = rows.detach().to(self.device, self.dtype)
        if self.dense is None:
            labels = select_rows(self._parts[0], index)[:, 0].long()
            self._write_top_k(index, compress(rows, labels, self.top_k, self._tail_kind))
        else:
            self.dense.index_copy_(0, index, self._round(index, rows))

    def add(self, index: Tensor, rows: Tensor | TopKUpdate, scale: float = 1.0) -> None:
        """Add ``scale`` times ``rows`` (B, ...) to the rows at ``index`` (B,); repeated positions accumulate.

        With ``top_k``, ``rows`` may be a ``TopKUpdate``, which costs O(B k²).
        """
        if isinstance(rows, TopKUpdate):
            for group in split_repeats(index):
                classes, *numbers = (part[group].to(self.device) for part in rows)
                update = TopKUpdate(classes, *(part.to(self.dtype) for part in numbers))
                positions = index[group]
                self._write_top_k(positions, apply_update(self.read_top_k(positions), update, scale, self.width))
        elif (dense := self.dense) is not None and self._writes is None:
            dense.index_add_(0, index, rows.to(dense), alpha=scale)
        else:
            positions, inverse = index.unique(return_inverse=True)
            total = torch.zeros(len(positions), *self.shape, dtype=self.dtype, device=self.device)
            total.index_add_(0, inverse, rows.to(total), alpha=scale)
            self.write(positions, self.read(positions).add_(total))

    def chunks(self, rows_per_chunk: int | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield positions (n,) and rows (n, ...) until all rows are covered."""
        for positions in self._position_chunks(rows_per_chunk):
            if self.dense is not None and self.dense.dtype == self.dtype:
                yield positions, self.dense[int(positions[0]) : int(positions[-1]) + 1]
            else:
                yield positions, self.read(positions)

    def map_rows(self, function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Apply a function of rows (n, ...) and their positions (n,) to all rows in chunks; return (N, ...)."""
        return torch.cat([function(rows, positions) for positions, rows in self.chunks()])

    def argmax(self) -> Tensor:
        """Return the index (N,) of the largest entry of each row, the first in case of ties; O(N k) with ``top_k``."""
        if self.dense is not None:
            return self.dense.argmax(-1)
        return torch.cat([row_argmax(self.read_top_k(chunk), self.width) for chunk in self._position_chunks()])

    def softmax_at_label(self, labels: Tensor) -> Tensor:
        """Return the softmax of each row at its label (N,); O(N k) with ``top_k``."""
        if self.dense is not None:
            return self.map_rows(lambda rows, positions: rows.softmax(-1).gather(1, labels[positions, None])[:, 0])
        chunks = (self.read_top_k(chunk) for chunk in self._position_chunks(CHUNK_SIZE // (16 * self.top_k)))
        return torch.cat([(rows.values[:, 0] - row_logsumexp(rows, self.width)).exp() for rows in chunks])

    def state(self, name: str) -> dict[str, Tensor]:
        """Return the tensors to save: dense rows under ``name``, other parts with a suffix."""
        state = {state_key(name, part): tensor.detach() for part, tensor in self._tensors.items()}
        return state if self.dense is not None else state | {state_key(name, "width"): torch.tensor(self.width)}

    def load(self, saved: Mapping[str, Tensor], positions: Tensor, saved_positions: Tensor) -> None:
        """Copy saved rows into this table, converted if they were saved in another format.

        Args:
            saved: result of ``pop_parts``; its rows must have the shape of this table's.
            positions: (n,) rows to overwrite.
            saved_positions: (n,) rows of the state to copy.
        """
        same_format = all(part in saved and self._fits(saved[part], tensor) for part, tensor in self._tensors.items())
        for chunk in torch.arange(len(positions)).split(self._rows_per_chunk):
            to, source = positions[chunk].to(self.device), saved_positions[chunk]
            if same_format:  # an exact copy
                for part in ROW_PARTS & self._tensors.keys():
                    rows = saved[part].index_select(0, source.to(saved[part].device))
                    self._tensors[part].index_copy_(0, to, rows.to(self._tensors[part]))
            else:
                self.write(to, saved_rows(saved, source))
        if self._writes is not None and "writes" in saved:
            self._writes.copy_(saved["writes"])

    def extra_repr(self) -> str:
        """Return size and storage format."""
        top_k = f", top_k={self.top_k}" if self.top_k else ""
        return f"{len(self)} rows of {self.shape}{top_k}, {self._main.dtype}{', on disk' if self.is_mapped else ''}"

    @property
    def _main(self) -> Tensor:
        return self._tensors["kept" if self.top_k else "rows"]

    @property
    def _parts(self) -> tuple[Tensor, Tensor, Tensor]:
        return self._tensors["classes"], self._tensors["kept"], self._tensors["tail"]

    @property
    def _writes(self) -> Tensor | None:
        """Number of stochastically rounded writes (1,); None for other dtypes than bfloat16."""
        return self._tensors.get("writes")

    @property
    def _rows_per_chunk(self) -> int:
        return max(1, CHUNK_SIZE // max(self.width, 1))

    def _position_chunks(self, size: int | None = None) -> Iterator[Tensor]:
        yield from torch.arange(len(self), device=self.device).split(size or self._rows_per_chunk)

    def _fits(self, saved: Tensor, tensor: Tensor) -> bool:
        return saved.shape[1:] == tensor.shape[1:] and (self._writes is None or saved.dtype == tensor.dtype)

    def _initialize(self, labels: Tensor | None, fill: float, at_label: float | None) -> None:
        """Set the initial values. Zeros are not written, so that their memory pages are not allocated."""
        if self.dense is not None:
            if fill:
                self.dense.fill_(fill)
            if labels is not None and at_label is not None:
                self.dense.scatter_(1, labels[:, None].to(self.device), at_label)
            return
        assert labels is not None
        classes, values, tail = self._parts
        for offset in range(self.top_k):  # the label and any other classes, since all others are equal
            classes[:, offset] = (labels + offset) % self.width
        values.fill_(fill)
        tail.fill_(fill if self.top_k < self.width else 0.0)
        if at_label is not None:
            values[:, 0] = at_label

    def _write_top_k(self, index: Tensor, rows: TopKRows) -> None:
        numbers = self._round(index, torch.cat([rows.values, rows.tail[:, None]], 1))
        classes, values, tail = self._parts
        classes.index_copy_(0, index, rows.classes.to(classes.dtype))
        values.index_copy_(0, index, numbers[:, :-1])
        tail.index_copy_(0, index, numbers[:, -1])

    def _round(self, index: Tensor, rows: Tensor) -> Tensor:
        """Round rows (B, ...) to the stored dtype; the only place that rounds."""
        if self._writes is None:
            return rows
        write = self._writes.add_(1)
        flat = rows.reshape(len(rows), math.prod(rows.shape[1:]))
        row_numbers = self._first + self._stride * index
        return stochastic_bfloat16(flat, rounding_bits(row_numbers, flat.shape[1], write)).view(rows.shape)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        if self.is_mapped:
            return self  # rows on disk ignore .to() and casts of the network
        super()._apply(fn, recurse)
        rounded = self._writes is not None
        self._tensors = {
            part: move(tensor, fn, keep_dtype=rounded or not tensor.dtype.is_floating_point)
            for part, tensor in self._tensors.items()
        }
        return self


def move(tensor: Tensor, fn: Callable[[Tensor], Tensor], *, keep_dtype: bool = False) -> Tensor:
    """Return ``fn(tensor)``, for ``nn.Module._apply``; a cast is undone if ``keep_dtype``, or below float32."""
    with torch.no_grad():
        moved = fn(tensor)
    if moved.dtype != tensor.dtype and (keep_dtype or moved.dtype.itemsize < min(tensor.dtype.itemsize, 4)):
        return tensor.to(moved.device)
    return moved


def _check_top_k(top_k: int, shape: tuple[int, ...], labels: Tensor | None, dtype: torch.dtype) -> int:
    if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1:
        raise ValueError(f"top_k must be an integer >= 1, got {top_k!r}.")
    if len(shape) != 1 or labels is None or not dtype.is_floating_point:
        raise ValueError(
            f"top_k requires floating point rows with one entry per class, and labels; got {dtype} of shape {shape}."
        )
    return min(top_k, shape[0])


def _layout(rows: int, shape: tuple[int, ...], dtype: torch.dtype, k: int) -> Layout:
    layout: dict[str, tuple[tuple[int, ...], torch.dtype]] = {"rows": ((rows, *shape), dtype)}
    if k:
        class_dtype = torch.int16 if shape[0] <= 2**15 else torch.int32
        layout = {"classes": ((rows, k), class_dtype), "kept": ((rows, k), dtype), "tail": ((rows,), dtype)}
    return layout | ({"writes": ((1,), torch.int64)} if dtype == torch.bfloat16 else {})


def _digest(labels: Tensor) -> str:
    return hashlib.sha256(labels.cpu().contiguous().numpy().tobytes()).hexdigest()[:16]
