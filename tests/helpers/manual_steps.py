"""Methods without the training loop: for tests that take single steps on batches of their own choice."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from permll.data import LabeledData
from permll.data.streams import Batch
from permll.methods import FitInfo, Method, find_method


def prepare(
    name: str,
    data: LabeledData,
    settings: dict[str, Any] | None = None,
    *,
    epochs: int = 10,
    held_out: torch.Tensor | None = None,
) -> Method:
    """Return a method that is ready to train a linear network on points."""
    method = find_method(name).build(**(settings or {}))
    width = data.inputs.batch(torch.arange(1)).shape[1]
    method.networks["net"] = nn.Linear(width, data.num_classes)
    told = FitInfo(data.labels, data.ids, data.num_classes, epochs, steps_per_epoch=1, held_out=held_out)
    method.on_fit_start(told)
    return method


def batch_of(data: LabeledData, rows: Sequence[int], views: Sequence[str] = ("weak",)) -> Batch:
    """Return a batch of these rows, each as often as it is named."""
    index = torch.tensor(rows)
    x = data.inputs.batch(index)
    shown = {name: x if number == 0 else x + 0.1 * number for number, name in enumerate(views)}
    return Batch(index, data.labels[index], shown, torch.zeros(len(index), dtype=torch.int64))


def take_step(method: Method, batch: Batch, *, lr: float = 0.1, loss: str = "loss") -> float:
    """Move the network by a plain step and let the method follow; return the loss."""
    optimizer = torch.optim.SGD(method.networks["net"].parameters(), lr=lr)
    optimizer.zero_grad()
    value = getattr(method, loss)(batch).mean()
    value.backward()
    optimizer.step()
    method.on_step_end()
    return float(value.detach())


def weights(method: Method) -> dict[str, torch.Tensor]:
    """Return the network's weights as they are now, to move by hand."""
    return {name: value.detach().clone().requires_grad_() for name, value in method.networks["net"].named_parameters()}


def move(by_hand: dict[str, torch.Tensor], loss: torch.Tensor, *, lr: float = 0.1) -> None:
    """Move weights by the plain step that ``take_step`` takes."""
    for value, gradient in zip(by_hand.values(), torch.autograd.grad(loss, list(by_hand.values())), strict=True):
        value.data -= lr * gradient
