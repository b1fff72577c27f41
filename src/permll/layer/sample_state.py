"""``KeyedRows``: a table with a row for each sample of a data set, found by position, and in a saved state by id."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from permll.distributed.sharding import current_placement
from permll.layer.state_keys import saved_shape, take_parts
from permll.layer.table import RowTable
from permll.layer.validation import RowIds, check_range, match_rows


class KeyedRows(nn.Module):
    """Whoever owns rows of samples: their labels, their ids if they have any, and the table.

    A saved state finds its rows by id, however the data set was re-ordered, filtered or extended since; samples it does
    not know keep the row they have. A state made for other labels is refused.

    Args:
        labels: (N,) the given labels.
        ids: names of the samples; without them a state must have the same rows in the same order.
        table: their rows; of those that are shared between ranks, this one's.
        name: of the table in a ``state_dict``.
    """

    labels: Tensor

    def __init__(self, labels: Tensor, ids: RowIds | None, table: RowTable, name: str) -> None:
        super().__init__()
        self.ids, self.table, self._name = ids, table, name
        self.placement = current_placement()
        self.register_buffer("labels", labels)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"

    def argmax(self) -> Tensor:
        """Return the entry (N,) that is the largest of each row, of several the first."""
        return self._joined(self.table.argmax()).to(self.labels.device)

    def each(self, function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Return what a function of rows (n, ...) and the labels (n,) of their samples says of every row, (N, ...)."""
        labels = self.labels[self.placement.local_rows].to(self.table.device)
        return self._joined(self.table.each(lambda rows, at: function(rows, labels[at])))

    def _joined(self, own: Tensor) -> Tensor:
        """Return for all N rows what is known of those in the table; all ranks have to ask."""
        return self.placement.gather_rows(own, len(self))

    def _place(self, index: Tensor) -> Tensor:
        """Return where in the table the rows of the samples at ``index`` (B,) are: the one place that knows."""
        device = self.table.device
        if index.is_cpu and device.type != "cpu":
            check_range(index, len(self))  # while it can still be told: an accelerator would only abort
        return self.placement.local_index(index.to(device, non_blocking=True))

    def _misfit(self, shape: tuple[int, ...]) -> str:
        """Say that a state with rows of (N, ...) does not belong here."""
        return f"the state has rows of {shape[1:]}, not {self.table.shape}."

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination.update(self.table.state(prefix + self._name))
        destination[prefix + "labels"] = destination[prefix + "labels"][self.placement.local_rows]
        if self.ids is not None:
            destination[prefix + "ids"] = self.ids.to_tensor(self.placement.local_rows)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        missing, problems = args[2], args[-1]
        rest = dict(state_dict)
        saved, ids = take_parts(rest, prefix + self._name), rest.pop(prefix + "ids", None)
        labels = rest.get(prefix + "labels")
        if saved_shape(saved) is None:
            missing.append(prefix + self._name)
        elif labels is not None:
            try:
                self._load_rows(saved, labels, None if ids is None else RowIds.from_tensor(ids))
            except ValueError as problem:
                problems.append(str(problem))  # load_state_dict raises them together
                return
            rest[prefix + "labels"] = self.labels
        super()._load_from_state_dict(rest, prefix, *args)

    def _load_rows(self, saved: dict[str, Tensor], labels: Tensor, ids: RowIds | None) -> None:
        shape = saved_shape(saved)
        assert shape is not None
        if shape[1:] != self.table.shape:
            raise ValueError(self._misfit(shape))
        here, there = match_rows(self.labels.cpu(), self.ids, labels.cpu(), ids)
        mine = self.placement.is_local(here)
        self.table.load(saved, self.placement.local_index(here[mine]), there[mine])
