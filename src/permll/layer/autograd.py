"""A visit: a sample that went through ``backward``, and the gradient of its row.

The layer's rows are not autograd leaves. A table of N rows would get a gradient of N rows at every step, scaled by
whatever happens to the loss on its way to ``backward``; the closed form knows the gradient of each visited row itself.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd import Function

from permll.layer.equations import Correction
from permll.layer.top_k import Change, TopKCorrection, TopKRows

Reduction = Literal["mean", "sum", "none"]
FORGOTTEN = 1000  # batches gone through backward without a step: nobody accumulates that many


@dataclass(frozen=True, slots=True)
class Visit:
    """The places of rows in the table (B,), and the gradient of each one's loss in its own row, whole or in parts."""

    index: Tensor
    gradient: Tensor | Change


def reduced(losses: Tensor, reduction: Reduction) -> Tensor:
    """Return the mean, the sum, or the losses (B,) themselves."""
    return losses if reduction == "none" else losses.mean() if reduction == "mean" else losses.sum()


class VisitedLoss(Function):
    """The corrected loss, reduced; its ``backward`` appends to ``visits`` what it has passed."""

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        alpha: Tensor | TopKRows,
        index: Tensor,
        closed_form: Callable[[Any, Tensor], Correction | TopKCorrection],
        visits: list[Visit],
        reduction: Reduction,
    ) -> Tensor:
        """Compute loss and gradients together: they share every term."""
        loss, grad_logits, grad_alpha = closed_form(alpha, logits)
        if not loss.is_cpu:
            grad_alpha = _each_part(finite_only, grad_alpha, loss)  # on the CPU bad logits were looked for
        parts = (grad_alpha,) if isinstance(grad_alpha, Tensor) else grad_alpha
        ctx.save_for_backward(grad_logits, index, *parts)
        ctx.visits, ctx.share = visits, 1 / len(loss) if reduction == "mean" else 1.0
        return reduced(loss, reduction)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        """Scale the network's gradient as autograd asks; leave each row's own gradient as it is."""
        if torch.is_grad_enabled():  # create_graph=True
            raise RuntimeError(
                "the permutation layer's loss can be differentiated only once: for second derivatives differentiate "
                "permll.layer.reference.reference_loss."
            )
        grad_logits, index, *parts = ctx.saved_tensors
        grad_alpha = parts[0] if len(parts) == 1 else Change(*parts)
        if grad_output.ndim == 0 and grad_output.is_cpu:
            weight = grad_output.item()
            if weight != 0:
                _note(ctx.visits, index, grad_alpha)
            return grad_logits * (ctx.share * weight), *[None] * 5
        # Where it can be read without waiting, "all samples count" saves four operations, a tenth of the layer's time.
        if not (grad_output.is_cpu and grad_output.all()):
            grad_alpha = _each_part(counted_only, grad_alpha, grad_output)
        _note(ctx.visits, index, grad_alpha)
        weights = grad_output if ctx.share == 1 else ctx.share * grad_output
        return grad_logits * weights.unsqueeze(-1), *[None] * 5


def finite_only(gradient: Tensor, loss: Tensor) -> Tensor:
    """Return the gradients (B, ...) with 0 for samples whose loss (B,) is not finite: bad logits must not reach α."""
    return gradient.where(_beside(loss < torch.inf, gradient), 0.0)  # which NaN is not


def counted_only(gradient: Tensor, weight: Tensor) -> Tensor:
    """Return the gradients (B, ...) with 0 for samples of weight 0; ``weight`` is (B,), or one number for all."""
    return gradient.where(_beside(weight != 0, gradient), 0.0)


def _each_part(only: Callable[[Tensor, Tensor], Tensor], gradient: Tensor | Change, by: Tensor) -> Tensor | Change:
    if isinstance(gradient, Tensor):
        return only(gradient, by)
    return gradient._replace(**{part: only(getattr(gradient, part), by) for part in ("values", "mean", "variance")})


def _beside(each: Tensor, rows: Tensor) -> Tensor:
    return each.unsqueeze(-1) if rows.ndim > 1 else each


def _note(visits: list[Visit], index: Tensor, gradient: Tensor | Change) -> None:
    visits.append(Visit(index.clone(), gradient))  # a caller may fill its index anew before the step
    if len(visits) == FORGOTTEN:
        warnings.warn(
            f"{FORGOTTEN} batches went through backward since the last layer.step(): call it after optimizer.step(), "
            "or layer.zero_grad() for steps not to be taken.",
            stacklevel=2,
        )
