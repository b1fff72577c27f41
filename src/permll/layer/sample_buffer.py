"""``SampleBuffer``: per-sample state that is assigned, one row per sample, matched by id when it is loaded."""

from collections.abc import Callable

import torch
from torch import Tensor

from permll.distributed.sharding import current_placement
from permll.layer.sample_state import SampleState
from permll.layer.table import File, RowTable
from permll.layer.validation import Ids, RowIds
from permll.utils.indexing import split_repeats


class SampleBuffer(SampleState):
    """Per-sample state that is assigned: ``read`` returns the rows of a batch, ``write`` replaces them.

    A saved state is matched by sample id, so the data set may have been reordered, filtered or extended; new samples
    keep their initial row.

    Args:
        labels: (N,) given labels; a state saved for other labels is rejected.
        ids: sample ids; without them a saved state must have the same rows in the same order.
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

    def __init__(
        self,
        labels: Tensor,
        ids: Ids | RowIds | None,
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
        row_ids = None if ids is None else ids if isinstance(ids, RowIds) else RowIds(ids, len(labels))
        super().__init__(labels.clone(), row_ids, table, "values")

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
