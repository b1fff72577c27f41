"""State per sample: a row for each, found by id, saved with the method, merged between ranks by a stated rule."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from permll.layer.rows import RowIds, match_rows

Merge = Literal["last", "mean", "sum"]


class SampleBuffer(nn.Module):
    """Rows that are written: ``buffer[index]`` reads, ``write`` replaces.

    A saved state finds its rows by id, however the data set was re-ordered, filtered or extended since; samples it does
    not know keep their initial row.

    Args:
        labels: (N,) the given labels: a state made for other labels is refused.
        ids: names of the samples.
        shape: of a row.
        fill: what every row starts with.
        merge: what becomes of a row that two ranks wrote in one step: the last one, their mean or their sum.
        dtype: of the rows.

    Examples:
        >>> memory = SampleBuffer(torch.tensor([0, 1, 1]), ("a", "b", "c"), (2,))
        >>> memory.write(torch.tensor([2, 0]), torch.ones(2, 2))
        >>> memory.values
        tensor([[1., 1.],
                [0., 0.],
                [1., 1.]])
    """

    values: Tensor
    labels: Tensor

    def __init__(
        self,
        labels: Tensor,
        ids: tuple[str, ...],
        shape: tuple[int, ...] = (),
        *,
        fill: float = 0.0,
        merge: Merge = "last",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.merge, self.ids = merge, RowIds(ids, len(labels))
        self.register_buffer("labels", labels.clone())
        self.register_buffer("values", torch.full((len(labels), *shape), fill, dtype=dtype))

    def __len__(self) -> int:
        return len(self.values)

    def read(self, index: Tensor) -> Tensor:
        """Return the rows (B, ...) at ``index``."""
        return self.values.index_select(0, index.to(self.values.device))

    def write(self, index: Tensor, rows: Tensor) -> None:
        """Replace the rows at ``index`` (B,) by ``rows`` (B, ...), which are detached."""
        self.values.index_copy_(0, index.to(self.values.device), rows.detach().to(self.values))

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "ids"] = self.ids.to_tensor()

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        values, labels, ids = (state_dict.get(prefix + name) for name in ("values", "labels", "ids"))
        if values is not None and labels is not None and ids is not None:
            try:
                found = self._find_rows(values, labels, RowIds.from_tensor(ids))
            except ValueError as problem:
                args[-1].append(str(problem))  # error_msgs: load_state_dict raises them together
                return
            state_dict = {key: value for key, value in state_dict.items() if key != prefix + "ids"}
            state_dict |= {prefix + "values": found, prefix + "labels": self.labels}
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _find_rows(self, values: Tensor, labels: Tensor, ids: RowIds) -> Tensor:
        if values.shape[1:] != self.values.shape[1:]:
            raise ValueError(f"the state has rows of {tuple(values.shape[1:])}, not {tuple(self.values.shape[1:])}.")
        here, there = match_rows(self.labels.cpu(), self.ids, labels.cpu(), ids)
        found = self.values.cpu().clone()
        found[here] = values.cpu().to(found)[there]
        return found.to(self.values.device)


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
                self.values.index_add_(0, index.to(self.values.device), rows.grad.to(self.values), alpha=-lr)
        self._visits.clear()
