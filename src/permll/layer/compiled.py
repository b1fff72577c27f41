"""The layer as operators of PyTorch, so that ``torch.compile`` traces a training step without a graph break.

A layer reads and records rows of its own state. A compiled graph cannot contain that, but it can call an operator that
does. The operators find the layer by a key, and run the same functions as the eager layer.
"""

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

_layers: "weakref.WeakValueDictionary[str, CorrectionLayer]" = weakref.WeakValueDictionary()
_numbers = itertools.count()


def register(layer: "CorrectionLayer") -> str:
    """Return a new key by which the operators find the layer.

    It contains the settings, since the compiler caches graphs on disk, where layers of other processes have the same
    number.
    """
    key = f"{next(_numbers)} {type(layer).__name__} {layer._settings} {layer.table}"
    _layers[key] = layer
    return key


def batch_losses(layer: "CorrectionLayer", logits: Tensor, index: Any, labels: Any) -> Tensor:
    """Return the loss (B,) of each sample, as ``layer(logits, index, "none")`` does, in a graph that is compiled."""
    index = torch.as_tensor(index)
    logits = logits.to(torch.promote_types(logits.dtype, layer._row_dtype))
    if not layer.training:
        own = layer.labels.index_select(0, index.to(layer.labels.device))
        return equations.plain_loss(logits, own.to(logits.device), layer.loss)
    given = None if labels is None else torch.as_tensor(labels)
    losses: Tensor = torch.ops.permll.batch_losses(logits, index, given, layer._key)[0]
    return losses


def step(layer: "CorrectionLayer") -> None:
    """Call ``layer.step()`` from a graph that is compiled."""
    torch.ops.permll.step(layer._token, layer._key)


@torch.library.custom_op("permll::batch_losses", mutates_args=())
def _batch_losses(logits: Tensor, index: Tensor, labels: Tensor | None, key: str) -> list[Tensor]:
    """Return losses (B,), positions (B,), the gradient in the logits (B, c), and the updates of a ``BatchLoss``."""
    layer = _layers[key]
    checked_index, checked_logits = layer._check(logits, index, labels)
    positions, loss = layer._batch_loss(checked_logits, checked_index)
    return [loss.losses, positions, loss.grad_logits, *loss.updates]


@_batch_losses.register_fake
def _(logits: Tensor, index: Tensor, labels: Tensor | None, key: str) -> list[Tensor]:  # noqa: ARG001
    layer, rows = _layers[key], len(logits)
    positions = torch.empty(rows, dtype=torch.int64, device=layer._row_device)
    updates = [
        torch.empty(rows, *shape, dtype=dtype, device=logits.device) for shape, dtype in layer._update_rows(logits)
    ]
    return [torch.empty_like(logits[:, 0]), positions, torch.empty_like(logits), *updates]


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    ctx.save_for_backward(*output)
    ctx.key = inputs[3]


def _backward(ctx: Any, gradients: list[Tensor]) -> tuple[Tensor | None, ...]:
    losses, positions, grad_logits, *updates = ctx.saved_tensors
    gradient = torch.ops.permll.record(gradients[0], losses, positions, grad_logits, updates, ctx.key)
    return gradient, None, None, None


_batch_losses.register_autograd(_backward, setup_context=_save_for_backward)


@torch.library.custom_op("permll::record", mutates_args=())
def _record(
    weights: Tensor, losses: Tensor, positions: Tensor, grad_logits: Tensor, updates: list[Tensor], key: str
) -> Tensor:
    """Record a batch for ``step``, and return its gradient in the logits (B, c)."""
    record = partial(_layers[key]._record, positions, tuple(updates))
    is_finite = None if losses.is_cpu else losses < torch.inf
    return scale_gradient(grad_logits, weights, 1.0, record, is_finite)


@_record.register_fake
def _(
    weights: Tensor,
    losses: Tensor,
    positions: Tensor,
    grad_logits: Tensor,
    updates: list[Tensor],
    key: str,  # noqa: ARG001
) -> Tensor:
    return torch.empty_like(grad_logits)


@torch.library.custom_op("permll::step", mutates_args=("token",))
def _step(token: Tensor, key: str) -> None:  # noqa: ARG001
    """Run ``layer.step()``; a token that the operator claims to change keeps its place among other operators."""
    _layers[key].step()


@_step.register_fake
def _(token: Tensor, key: str) -> None:
    pass
