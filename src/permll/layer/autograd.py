"""Autograd function of a loss whose gradient is known, which records a batch for ``step`` in ``backward``.

Rows of per-sample state are not autograd leaves. A leaf table would get a dense gradient of N rows at every step,
scaled by everything that is applied to the loss before ``backward``. The layers compute the unscaled update of each
row in the batch.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from permll.layer.top_k import TopKUpdate

Reduction = Literal["mean", "sum", "none"]
MAX_PENDING = 1000  # batches recorded without a step before a warning


class BatchLoss(NamedTuple):
    """Loss of each sample of a batch, its gradient in the logits, and what ``step`` needs to know."""

    losses: Tensor  # (B,)
    grad_logits: Tensor  # (B, c)
    updates: tuple[Tensor, ...]  # (B, ...) each


class Visit(NamedTuple):
    """A batch that went through ``backward``."""

    positions: Tensor  # (B,) rows of the table
    updates: tuple[Tensor, ...]  # (B, ...) each
    mask: Tensor | None  # (B,) or (), samples whose loss has a weight; None for all


def is_recorded(visit: Visit) -> Tensor:
    """Return which samples of a visit had a weight, as a mask (B,)."""
    mask = torch.tensor(True) if visit.mask is None else visit.mask
    return mask.to(visit.positions.device).expand(len(visit.positions))


def reduce_loss(losses: Tensor, reduction: Reduction) -> Tensor:
    """Return the mean or the sum of the losses (B,), or the losses unchanged."""
    return losses if reduction == "none" else losses.mean() if reduction == "mean" else losses.sum()


def scale_gradient(
    grad_logits: Tensor,
    grad_output: Tensor,
    scale: float,
    record: Callable[[Tensor | None], None],
    is_finite: Tensor | None = None,
) -> Tensor:
    """Return the gradients (B, c) times ``scale`` and ``grad_output``; record the samples whose loss has a weight.

    Args:
        grad_logits: (B, c) gradient of each sample's loss in its logits.
        grad_output: (B,) or (), gradient of the output in each loss, up to ``scale``.
        scale: of the losses.
        record: called once with the samples (B,) that have a weight, as a mask; None for all.
        is_finite: (B,) samples that may be recorded. On the CPU logits were checked before.
    """
    if grad_output.ndim == 0 and grad_output.is_cpu:
        weight = grad_output.item()
        record(None if weight != 0 else torch.tensor(False))
        return grad_logits * (scale * weight)
    # Skipping the mask if all weights are nonzero saves a tenth of the time; on a GPU reading them would synchronize.
    if grad_output.is_cpu and grad_output.all():
        record(None)
    else:
        mask = grad_output != 0
        record(mask if is_finite is None else mask & is_finite)
    weights = grad_output if scale == 1 else scale * grad_output
    return grad_logits * (weights.unsqueeze(-1) if weights.ndim else weights)


class RecordedLoss(Function):
    """A reduced loss with a known gradient. ``backward`` calls ``record`` with the samples that it reached."""

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,  # noqa: ARG004 (receives the gradient)
        losses: Tensor,
        grad_logits: Tensor,
        record: Callable[[Tensor | None], None],
        reduction: Reduction,
    ) -> Tensor:
        """Return the reduced losses.

        Args:
            ctx: context of ``backward``.
            logits: (B, c).
            losses: (B,) loss of each sample, computed without autograd.
            grad_logits: (B, c) gradient of each sample's loss in its logits.
            record: called once with the samples (B,) that may be updated, as a mask; None for all.
            reduction: of the losses.
        """
        ctx.save_for_backward(grad_logits, *(() if losses.is_cpu else (losses < torch.inf,)))  # False for NaN
        ctx.record, ctx.scale = record, 1 / len(losses) if reduction == "mean" else 1.0
        return reduce_loss(losses, reduction)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        """Scale the network's gradient by ``grad_output``; record the samples whose loss has a weight."""
        if torch.is_grad_enabled():  # create_graph=True
            raise RuntimeError(
                "the permutation layer's loss can be differentiated only once: for second derivatives differentiate "
                "permll.layer.reference.reference_loss."
            )
        grad_logits, *is_finite = ctx.saved_tensors
        return scale_gradient(grad_logits, grad_output, ctx.scale, ctx.record, *is_finite), *[None] * 4


def mask_update(update: Tensor | TopKUpdate, mask: Tensor | None) -> Tensor | TopKUpdate:
    """Return the update (B, ...) with 0 for samples outside ``mask`` (B,), or where a scalar ``mask`` is False."""
    if mask is None:
        return update
    if isinstance(update, Tensor):
        return update.where(_broadcast(mask, update), 0.0)
    parts = {part: getattr(update, part) for part in ("values", "mean", "variance")}
    return update._replace(**{name: part.where(_broadcast(mask, part), 0.0) for name, part in parts.items()})


def _broadcast(mask: Tensor, rows: Tensor) -> Tensor:
    return mask.unsqueeze(-1) if mask.ndim and rows.ndim > 1 else mask
