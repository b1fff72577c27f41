"""``SampleState``: base module with one row per training sample, matched by sample id when a state dict is loaded."""

from collections.abc import Callable
from typing import Any, Self

from torch import Tensor, nn

from permll.distributed.sharding import current_placement
from permll.layer.state_keys import pop_parts, saved_shape
from permll.layer.table import RowTable, move
from permll.layer.validation import RowIds, check_range, match_rows


class SampleState(nn.Module):
    """Per-sample state: the given labels, optional ids, and a table with one row per sample.

    ``load_state_dict`` matches rows by id, so the dataset may be reordered, filtered or extended in between. Samples
    without a saved row keep their current one. A state that was saved for different labels is rejected.

    Args:
        labels: (N,) given labels.
        ids: sample ids; without them a state must have the same rows in the same order.
        table: the rows; with sharding, those of this process.
        name: key of the table in the state dict.
    """

    labels: Tensor
    _moved: tuple[str, ...] = ("labels",)  # tensors that follow the module to its device; no buffers, see ``RowTable``

    def __init__(self, labels: Tensor, ids: RowIds | None, table: RowTable, name: str) -> None:
        super().__init__()
        self.ids, self.table, self._name = ids, table, name
        self._row_device, self._row_dtype = table.device, table.dtype  # here for speed, as they are read at every step
        self.placement = current_placement()
        self.labels = labels

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"

    def argmax(self) -> Tensor:
        """Return the index (N,) of the largest entry of each row, the first one in case of ties."""
        return self._gather(self.table.argmax()).to(self.labels.device)

    def map_rows(self, function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Apply a function of rows (n, ...) and their labels (n,) to all rows in chunks; return (N, ...)."""
        labels = self.labels[self.placement.local_rows].to(self.table.device)
        return self._gather(self.table.map_rows(lambda rows, positions: function(rows, labels[positions])))

    def _gather(self, values: Tensor) -> Tensor:
        """Return values of all N rows from those of the local rows; a collective call if rows are sharded."""
        return self.placement.gather_rows(values, len(self))

    def _local_index(self, index: Tensor) -> Tensor:
        """Return the positions in the local table of the samples at ``index`` (B,)."""
        if index.device != self._row_device:
            if index.is_cpu:
                check_range(index, len(self))  # an out-of-range index on an accelerator would abort the process
            index = index.to(self._row_device, non_blocking=True)
        return self.placement.local_index(index)

    def _shape_error(self, shape: tuple[int, ...]) -> str:
        """Return the error message for a state whose rows have another shape."""
        return f"the state has rows of shape {shape[1:]}, expected {self.table.shape}."

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        for name in self._moved:
            tensor = getattr(self, name)
            setattr(self, name, move(tensor, fn, keep_dtype=not tensor.dtype.is_floating_point))
        self._row_device, self._row_dtype = self.table.device, self.table.dtype
        return self

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination.update(self.table.state(prefix + self._name))
        destination[prefix + "labels"] = self.labels[self.placement.local_rows]
        if self.ids is not None:
            destination[prefix + "ids"] = self.ids.to_tensor(self.placement.local_rows)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        missing_keys, error_msgs = args[2], args[-1]
        if error_msgs:
            return  # the load has failed, and an error leaves the state unchanged
        rest = dict(state_dict)
        saved, ids = pop_parts(rest, prefix + self._name), rest.pop(prefix + "ids", None)
        labels = rest.pop(prefix + "labels", None)
        missing = [name for name, value in ((self._name, saved_shape(saved)), ("labels", labels)) if value is None]
        missing_keys.extend(prefix + name for name in missing)
        if not missing:
            try:
                self._load_rows(saved, labels, None if ids is None else RowIds.from_tensor(ids))
            except ValueError as error:
                error_msgs.append(str(error))  # load_state_dict raises all of them together
                return
        super()._load_from_state_dict(rest, prefix, *args)

    def _load_rows(self, saved: dict[str, Tensor], labels: Tensor, ids: RowIds | None) -> None:
        shape = saved_shape(saved)
        assert shape is not None
        if shape[1:] != self.table.shape:
            raise ValueError(self._shape_error(shape))
        rows, saved_positions = match_rows(self.labels.cpu(), self.ids, labels.cpu(), ids)
        local = self.placement.is_local(rows)
        self.table.load(saved, self.placement.local_index(rows[local]), saved_positions[local])
