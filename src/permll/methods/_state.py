"""Per-sample state of methods: storage settings, and state that is trained."""

from typing import Any, Literal

import torch
from torch import Tensor

from permll.layer.sample_buffer import SampleBuffer as SampleBuffer
from permll.methods._base import Method

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
