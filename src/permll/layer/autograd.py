"""Autograd function of the corrected loss, which records the gradient of each sample's row in ``backward``.

Rows of α are not autograd leaves. A leaf table would get a dense gradient of N rows at every step, scaled by everything
that is applied to the loss before ``backward``. The closed form provides the unscaled gradient of each row in the
batch.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd import Function

from permll.layer.equations import LossAndGrads
from permll.layer.top_k import TopKLossAndGrads, TopKRows, TopKUpdate

Reduction = Literal["mean", "sum", "none"]
MAX_PENDING = 1000  # batches recorded without a step before a warning


@dataclass(frozen=True, slots=True)
class SampleGrad:
    """Gradients of a batch: positions in the table (B,), and the gradient of each sample's loss in its row."""

    index: Tensor
    gradient: Tensor | TopKUpdate


def reduce_loss(losses: Tensor, reduction: Reduction) -> Tensor:
    """Return the mean or the sum of the losses (B,), or the losses unchanged."""
    return losses if reduction == "none" else losses.mean() if reduction == "mean" else losses.sum()


class CorrectedLoss(Function):
    """The reduced corrected loss. ``backward`` appends the row gradients to ``pending``."""

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        alpha: Tensor | TopKRows,
        index: Tensor,
        closed_form: Callable[[Any, Tensor], LossAndGrads | TopKLossAndGrads],
        pending: list[SampleGrad],
        reduction: Reduction,
    ) -> Tensor:
        """Compute loss and gradients together, since they share all terms."""
        loss, grad_logits, grad_alpha = closed_form(alpha, logits)
        if not loss.is_cpu:
            grad_alpha = _mask_grad(zero_nonfinite, grad_alpha, loss)  # on the CPU logits were checked before
        parts = (grad_alpha,) if isinstance(grad_alpha, Tensor) else grad_alpha
        ctx.save_for_backward(grad_logits, index, *parts)
        ctx.pending, ctx.scale = pending, 1 / len(loss) if reduction == "mean" else 1.0
        return reduce_loss(loss, reduction)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        """Scale the network's gradient by ``grad_output``; record the row gradients unscaled."""
        if torch.is_grad_enabled():  # create_graph=True
            raise RuntimeError(
                "the permutation layer's loss can be differentiated only once: for second derivatives differentiate "
                "permll.layer.reference.reference_loss."
            )
        grad_logits, index, *parts = ctx.saved_tensors
        grad_alpha = parts[0] if len(parts) == 1 else TopKUpdate(*parts)
        if grad_output.ndim == 0 and grad_output.is_cpu:
            weight = grad_output.item()
            if weight != 0:
                _record(ctx.pending, index, grad_alpha)
            return grad_logits * (ctx.scale * weight), *[None] * 5
        # Skipping the mask if all weights are nonzero saves a tenth of the time; reading them on a GPU would
        # synchronize.
        if not (grad_output.is_cpu and grad_output.all()):
            grad_alpha = _mask_grad(zero_unweighted, grad_alpha, grad_output)
        _record(ctx.pending, index, grad_alpha)
        weights = grad_output if ctx.scale == 1 else ctx.scale * grad_output
        return grad_logits * weights.unsqueeze(-1), *[None] * 5


def zero_nonfinite(gradient: Tensor, loss: Tensor) -> Tensor:
    """Return the gradients (B, ...) with 0 for samples whose loss (B,) is NaN or infinite."""
    return gradient.where(_broadcast(loss < torch.inf, gradient), 0.0)  # False for NaN


def zero_unweighted(gradient: Tensor, weight: Tensor) -> Tensor:
    """Return the gradients (B, ...) with 0 for samples of weight 0; ``weight`` is (B,) or a scalar."""
    return gradient.where(_broadcast(weight != 0, gradient), 0.0)


def _mask_grad(
    mask: Callable[[Tensor, Tensor], Tensor], gradient: Tensor | TopKUpdate, by: Tensor
) -> Tensor | TopKUpdate:
    if isinstance(gradient, Tensor):
        return mask(gradient, by)
    return gradient._replace(**{part: mask(getattr(gradient, part), by) for part in ("values", "mean", "variance")})


def _broadcast(mask: Tensor, rows: Tensor) -> Tensor:
    return mask.unsqueeze(-1) if rows.ndim > 1 else mask


def _record(pending: list[SampleGrad], index: Tensor, gradient: Tensor | TopKUpdate) -> None:
    pending.append(SampleGrad(index.clone(), gradient))  # the caller may overwrite its index before the step
    if len(pending) == MAX_PENDING:
        warnings.warn(
            f"{MAX_PENDING} batches went through backward since the last layer.step(): call it after optimizer.step(), "
            "or call layer.zero_grad() to discard them.",
            stacklevel=2,
        )
