"""State per sample: a row for each, found by id, saved with the method."""

from typing import Any, Literal

import torch
from torch import Tensor

from permll.distributed.sharding import current_placement
from permll.layer.sample_state import KeyedRows
from permll.layer.table import File, RowTable
from permll.layer.validation import RowIds

State = Literal["float32", "bfloat16", "disk"]


def check_top_k(top_k: int | None) -> None:
    """Raise unless it is None or a number of entries."""
    if top_k is not None and (isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1):
        raise ValueError(f"top_k must be a whole number, at least 1, got {top_k!r}.")


def storage_kwargs(top_k: int | None, state: State) -> dict[str, Any]:
    """Return the arguments of a table for a method's settings ``top_k`` and ``state``.

    Examples:
        >>> storage_kwargs(16, "bfloat16")
        {'top_k': 16, 'dtype': torch.bfloat16, 'file': None}
    """
    dtype = torch.bfloat16 if state == "bfloat16" else torch.float32
    return {"top_k": top_k, "dtype": dtype, "file": True if state == "disk" else None}


class SampleBuffer(KeyedRows):
    """Rows that are written: ``read`` gives those of a batch, ``write`` replaces them.

    A saved state finds its rows by id, however the data set was re-ordered, filtered or extended since; samples it does
    not know keep their initial row.

    Args:
        labels: (N,) the given labels: a state made for other labels is refused.
        ids: names of the samples.
        shape: of a row.
        fill: what every row starts with.
        at_label: what the entry of the given label starts with, of rows with one for each class; default ``fill``.
        dtype: of the rows.
        top_k: keep so many entries of a row, and one number for the others, their mean; see ``RowTable``.
        file: keep rows in this file; ``True`` for a temporary one.

    Examples:
        >>> memory = SampleBuffer(torch.tensor([0, 1, 1]), ("a", "b", "c"), (2,))
        >>> memory.write(torch.tensor([2, 0]), torch.ones(2, 2))
        >>> memory.values
        tensor([[1., 1.],
                [0., 0.],
                [1., 1.]])
    """

    ids: RowIds

    def __init__(
        self,
        labels: Tensor,
        ids: tuple[str, ...],
        shape: tuple[int, ...] = (),
        *,
        fill: float = 0.0,
        at_label: float | None = None,
        dtype: torch.dtype = torch.float32,
        top_k: int | None = None,
        file: File = None,
    ) -> None:
        rows = current_placement().local_rows
        own = labels[rows]
        table = RowTable(
            len(own),
            shape,
            fill=fill,
            labels=own if at_label is not None or top_k is not None else None,
            at_label=at_label,
            dtype=dtype,
            top_k=top_k,
            file=file,
            own=rows,
        )
        super().__init__(labels.clone(), RowIds(ids, len(labels)), table, "values")

    @property
    def values(self) -> Tensor:
        """All rows (N, ...): dense ones themselves; a copy of those that are kept otherwise, or by other ranks too."""
        return self._joined(self.table.values)

    def read(self, index: Tensor) -> Tensor:
        """Return the rows (B, ...) at ``index``, where the method is: on disk they may be elsewhere."""
        return self.table.read(self._place(index)).to(self.labels.device)

    def write(self, index: Tensor, rows: Tensor) -> None:
        """Replace the rows at ``index`` (B,) by ``rows`` (B, ...), which are detached."""
        self.table.write(self._place(index), rows)

    def add(self, index: Tensor, rows: Tensor, scale: float = 1.0) -> None:
        """Add ``scale`` times ``rows`` (B, ...) to those at ``index`` (B,), as often as a sample is named."""
        self.table.add(self._place(index), rows.detach(), scale)


class SampleParameter(SampleBuffer):
    """Rows that are learned: calling it gives the rows of a batch, with gradients; ``step`` moves them.

    Rows outside the batch never move. A sample that is drawn twice moves twice.

    Examples:
        >>> logits = SampleParameter(torch.tensor([0, 1]), ("a", "b"), (2,))
        >>> logits(torch.tensor([1])).sum().backward()
        >>> logits.step(0.5)
        >>> logits.values
        tensor([[ 0.0000,  0.0000],
                [-0.5000, -0.5000]])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._visits: list[tuple[Tensor, Tensor]] = []

    def forward(self, index: Tensor) -> Tensor:
        """Return the rows (B, ...) at ``index``; their gradients wait for ``step``."""
        rows = self.read(index).requires_grad_()
        self._visits.append((index, rows))
        return rows

    def step(self, lr: float) -> None:
        """Move each row that went through ``backward`` since the last step by ``-lr`` times its gradient."""
        for index, rows in self._visits:
            if rows.grad is not None:
                self.add(index, rows.grad, scale=-lr)
        self._visits.clear()
