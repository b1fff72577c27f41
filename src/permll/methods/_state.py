"""Per-sample state: one row per sample, matched by id when it is loaded."""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from permll.distributed.sharding import current_placement
from permll.layer.sample_state import SampleState
from permll.layer.table import File, RowTable
from permll.layer.validation import RowIds
from permll.methods._base import Method
from permll.utils.indexing import split_repeats

State = Literal["float32", "bfloat16", "disk"]


def check_top_k(top_k: int | None) -> None:
    """Raise ValueError unless ``top_k`` is None or a positive integer."""
    if top_k is not None and (isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1):
        raise ValueError(f"top_k must be an integer >= 1, got {top_k!r}.")


def storage_kwargs(top_k: int | None, state: State) -> dict[str, Any]:
    """Return the keyword arguments of a ``SampleBuffer`` for the settings ``top_k`` and ``state``.

    Examples:
        >>> storage_kwargs(16, "bfloat16")
        {'top_k': 16, 'dtype': torch.bfloat16, 'file': None}
    """
    dtype = torch.bfloat16 if state == "bfloat16" else torch.float32
    return {"top_k": top_k, "dtype": dtype, "file": True if state == "disk" else None}


class SampleBuffer(SampleState):
    """Per-sample state that is assigned: ``read`` returns the rows of a batch, ``write`` replaces them.

    A saved state is matched by sample id, so the data set may have been reordered, filtered or extended; new samples
    keep their initial row.

    Args:
        labels: (N,) given labels; a state saved for other labels is rejected.
        ids: sample ids.
        shape: shape of a row.
        fill: initial value.
        at_label: initial value of the given label's entry, for rows with one entry per class; default ``fill``.
        dtype: dtype of the rows.
        top_k: number of entries of a row to store, the others as their mean; see ``RowTable``.
        file: file that holds the rows; ``True`` for a temporary one.

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
        local_labels = labels[rows]
        table = RowTable(
            len(local_labels),
            shape,
            fill=fill,
            labels=local_labels if at_label is not None or top_k is not None else None,
            at_label=at_label,
            dtype=dtype,
            top_k=top_k,
            file=file,
            shard=rows,
        )
        super().__init__(labels.clone(), RowIds(ids, len(labels)), table, "values")

    @property
    def values(self) -> Tensor:
        """All rows (N, ...): the tensor itself if it is dense and not sharded, else a copy."""
        return self._gather(self.table.values)

    def read(self, index: Tensor) -> Tensor:
        """Return the rows (B, ...) at ``index`` (B,), on the method's device."""
        return self.table.read(self._local_index(index)).to(self.labels.device)

    def write(self, index: Tensor, rows: Tensor) -> None:
        """Replace the rows at ``index`` (B,) by ``rows`` (B, ...), which are detached."""
        self.table.write(self._local_index(index), rows)

    def add(self, index: Tensor, rows: Tensor, scale: float = 1.0) -> None:
        """Add ``scale`` times ``rows`` (B, ...) to the rows at ``index`` (B,); repeated indices accumulate."""
        self.table.add(self._local_index(index), rows.detach(), scale)

    def update(self, index: Tensor, function: Callable[[Tensor, Tensor | slice], Tensor]) -> Tensor:
        """Replace the rows at ``index`` (B,) by a function of them, one occurrence of a repeated sample after another.

        Args:
            index: (B,) samples.
            function: (rows (n, ...), their positions in the batch, (n,) or a slice) -> new rows (n, ...).

        Returns:
            The new rows (B, ...), as of each occurrence.
        """
        updated: Tensor | None = None
        for positions in split_repeats(index) or (slice(None),):  # a process may have no samples of a batch
            rows = function(self.read(index[positions]), positions)
            self.write(index[positions], rows)
            updated = rows.new_empty(len(index), *rows.shape[1:]) if updated is None else updated
            updated[positions] = rows
        assert updated is not None
        return updated


class SampleParameter(SampleBuffer):
    """Per-sample state that is trained: calling it returns the rows of a batch with gradients; ``step`` updates them.

    Rows outside the batch do not change. The gradients of a repeated sample accumulate.

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
        """Return the rows (B, ...) at ``index``; ``step`` applies their gradients."""
        rows = self.read(index).requires_grad_()
        self._visits.append((index, rows))
        return rows

    def step(self, lr: float) -> None:
        """Add ``-lr`` times its gradient to each row that was used since the last step."""
        for index, rows in self._visits:
            if rows.grad is not None:
                self.add(index, rows.grad, scale=-lr)
        self._visits.clear()


class ClassStateMethod(Method):
    """Method whose per-sample state has one number per class, with settings for its storage.

    Args:
        top_k: number of entries of a sample's state to store, the others as their mean; for many classes. Default all.
        state: storage of this state: ``"float32"``, ``"bfloat16"`` (half the memory), or ``"disk"``, in a temporary
            file.
    """

    top_k: int | None = None
    state: State = "float32"

    def __post_init__(self) -> None:
        check_top_k(self.top_k)
