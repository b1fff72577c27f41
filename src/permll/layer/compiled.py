"""The layer as operators of PyTorch, so that ``torch.compile`` traces a training step without a graph break.

A layer reads and records rows of its own state. A compiled graph cannot contain that, but it can call an operator that
does. The operators find the layer by a number and run the same functions as the eager layer. The number is passed as a
tensor: a graph would be compiled again for every other constant.
"""

# ruff: noqa: ARG001 (the functions that only describe shapes have the arguments of their operators)

import itertools
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from permll.layer import equations
from permll.layer.autograd import scale_gradient

if TYPE_CHECKING:
    from permll.layer.base import CorrectionLayer

_layers: "weakref.WeakValueDictionary[int, CorrectionLayer]" = weakref.WeakValueDictionary()
_numbers = itertools.count()


def register(layer: "CorrectionLayer") -> Tensor:
    """Return a new number () by which the operators find the layer."""
    number = next(_numbers)
    _layers[number] = layer
    return torch.tensor(number)


def batch_losses(layer: "CorrectionLayer", logits: Tensor, index: Any, labels: Any) -> Tensor:
    """Return the loss (B,) of each sample, as ``layer(logits, index, "none")`` does, in a graph that is compiled."""
    index = torch.as_tensor(index)
    logits = logits.to(torch.promote_types(logits.dtype, layer._row_dtype))
    if not layer.training:
        own = layer.labels.index_select(0, index.to(layer.labels.device))
        return equations.plain_loss(logits, own.to(logits.device), layer.loss)
    given = None if labels is None else torch.as_tensor(labels)
    losses: Tensor = torch.ops.permll.batch_losses(logits, index, given, layer._number, layer._stored_entries)[0]
    return losses


def step(layer: "CorrectionLayer") -> None:
    """Call ``layer.step()`` from a graph that is compiled."""
    torch.ops.permll.step(layer._number)


@torch.library.custom_op("permll::batch_losses", mutates_args=())
def _batch_losses(logits: Tensor, index: Tensor, labels: Tensor | None, number: Tensor, entries: int) -> list[Tensor]:
    """Return losses (B,), the index (B,), and the gradient in the logits (B, c) and the updates of a ``BatchLoss``.

    The updates have c numbers for each sample, or ``entries``, if that is not 0, as in ``TopKUpdate``.
    """
    layer = _layers[int(number)]
    checked_index, checked_logits = layer._check(logits, index, labels)
    loss = layer._corrected_loss(checked_logits, layer._local_index(checked_index), checked_index)
    return [loss.losses, checked_index.clone(), loss.grad_logits, *loss.updates]


@_batch_losses.register_fake
def _(logits: Tensor, index: Tensor, labels: Tensor | None, number: Tensor, entries: int) -> list[Tensor]:
    rows = logits.shape[0]
    updates = [torch.empty_like(logits)]
    if entries:
        classes = logits.new_empty(rows, entries, dtype=torch.int64)
        updates = [classes, logits.new_empty(rows, entries), logits.new_empty(rows), logits.new_empty(rows)]
    return [logits.new_empty(rows), torch.empty_like(index, dtype=torch.int64), torch.empty_like(logits), *updates]


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    ctx.save_for_backward(inputs[3], *output)


def _backward(ctx: Any, gradients: list[Tensor]) -> tuple[Tensor | None, ...]:
    number, losses, index, grad_logits, *updates = ctx.saved_tensors
    return torch.ops.permll.record(gradients[0], losses, index, grad_logits, updates, number), *[None] * 4


_batch_losses.register_autograd(_backward, setup_context=_save_for_backward)


@torch.library.custom_op("permll::record", mutates_args=())
def _record(
    weights: Tensor, losses: Tensor, index: Tensor, grad_logits: Tensor, updates: list[Tensor], number: Tensor
) -> Tensor:
    """Record a batch for ``step``, and return its gradient in the logits (B, c)."""
    layer = _layers[int(number)]
    record = partial(layer._record, layer._local_index(index), tuple(updates))
    return scale_gradient(grad_logits, weights, 1.0, record, None if losses.is_cpu else losses < torch.inf)


@_record.register_fake
def _(
    weights: Tensor, losses: Tensor, index: Tensor, grad_logits: Tensor, updates: list[Tensor], number: Tensor
) -> Tensor:
    return torch.empty_like(grad_logits)


# The operator changes nothing but claims to, so that the compiler keeps it, and keeps it in its place.
@torch.library.custom_op("permll::step", mutates_args=("number",))
def _step(number: Tensor) -> None:
    _layers[int(number)].step()


@_step.register_fake
def _(number: Tensor) -> None:
    pass
