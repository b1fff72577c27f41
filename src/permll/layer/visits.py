"""A visit: a sample that went through ``backward``, and the gradient of its row.

The layer's rows are not autograd leaves. A table of N rows would get a gradient of N rows at every step, scaled by
whatever happens to the loss on its way to ``backward``; the closed form knows the gradient of each visited row itself.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from permll.layer.equations import Correction


class Visit(NamedTuple):
    """The positions of a batch (B,) and the gradient of each one's own loss in its own row (B, c)."""

    rows: Tensor
    gradient: Tensor


class VisitedLoss(Function):
    """The corrected loss of each sample (B,); its ``backward`` appends to ``visits`` what it has passed."""

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        rows: Tensor,
        labels: Tensor,
        index: Tensor,
        closed_form: Callable[[Tensor, Tensor, Tensor], Correction],
        visits: list[Visit],
    ) -> Tensor:
        """Compute loss and gradients together: they share every term."""
        loss, grad_logits, grad_alpha = closed_form(rows, logits, labels)
        ctx.save_for_backward(loss, grad_logits, grad_alpha, index)
        ctx.visits = visits
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        """Scale the network's gradient as autograd asks; leave the row's own gradient as it is."""
        loss, grad_logits, grad_alpha, index = ctx.saved_tensors
        counts = (grad_output != 0) & loss.isfinite()
        ctx.visits.append(Visit(index, grad_alpha.where(counts.unsqueeze(-1), 0.0)))
        return grad_logits * grad_output.unsqueeze(-1), None, None, None, None, None
