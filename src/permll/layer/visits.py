"""A visit: a sample that went through ``backward``, and the gradient of its row.

The layer's rows are not autograd leaves. A table of N rows would get a gradient of N rows at every step, scaled by
whatever happens to the loss on its way to ``backward``; the closed form knows the gradient of each visited row itself.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from permll.layer.equations import Correction

Reduction = Literal["mean", "sum", "none"]


class Visit(NamedTuple):
    """The positions of a batch (B,) and the gradient of each one's own loss in its own row (B, c)."""

    rows: Tensor
    gradient: Tensor


class VisitedLoss(Function):
    """The corrected loss, reduced; its ``backward`` appends to ``visits`` what it has passed."""

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        rows: Tensor,
        labels: Tensor,
        index: Tensor,
        closed_form: Callable[[Tensor, Tensor, Tensor], Correction],
        visits: list[Visit],
        reduction: Reduction,
    ) -> Tensor:
        """Compute loss and gradients together: they share every term."""
        loss, grad_logits, grad_alpha = closed_form(rows, logits, labels)
        if not loss.is_cpu:
            grad_alpha = only_where(loss < torch.inf, grad_alpha)  # bad logits were not looked for; NaN is not < inf
        ctx.save_for_backward(grad_logits, grad_alpha, index)
        ctx.visits, ctx.share = visits, 1 / len(loss) if reduction == "mean" else 1.0
        return loss if reduction == "none" else loss.sum().mul_(ctx.share)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        """Scale the network's gradient as autograd asks; leave each row's own gradient as it is."""
        if torch.is_grad_enabled():  # create_graph=True
            raise RuntimeError(
                "the permutation layer's loss can be differentiated only once: for second derivatives differentiate "
                "permll.layer.reference.reference_loss."
            )
        grad_logits, grad_alpha, index = ctx.saved_tensors
        if grad_output.ndim == 0 and grad_output.is_cpu:
            weight = grad_output.item()
            if weight != 0:
                ctx.visits.append(Visit(index, grad_alpha))
            return grad_logits * (ctx.share * weight), *[None] * 6
        ctx.visits.append(Visit(index, only_where(grad_output != 0, grad_alpha)))
        return grad_logits * (ctx.share * grad_output).unsqueeze(-1), *[None] * 6


def only_where(counts: Tensor, gradient: Tensor) -> Tensor:
    """Return the gradients (B, c) of the samples that count, (B,) or one flag for all, and zeros for the others."""
    return gradient.where(counts.unsqueeze(-1), 0.0)
