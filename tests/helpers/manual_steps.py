"""Single steps of a method without the trainer, on given batches."""

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
    """Return a method with a linear network, after ``on_fit_start``."""
    method = find_method(name).build(**(settings or {}))
    width = data.inputs.batch(torch.arange(1)).shape[1]
    method.networks["net"] = nn.Linear(width, data.num_classes)
    method.on_fit_start(FitInfo(data.labels, data.ids, data.num_classes, epochs, steps_per_epoch=1, held_out=held_out))
    return method


def batch_of(data: LabeledData, rows: Sequence[int], views: Sequence[str] = ("weak",)) -> Batch:
    """Return a batch of these rows, which may repeat."""
    index = torch.tensor(rows)
    x = data.inputs.batch(index)
    inputs = {name: x if number == 0 else x + 0.1 * number for number, name in enumerate(views)}
    return Batch(index, data.labels[index], inputs, torch.zeros(len(index), dtype=torch.int64))


def take_step(method: Method, batch: Batch, *, lr: float = 0.1, loss: str = "loss") -> float:
    """Take an SGD step with the network and call ``on_step_end``; return the loss."""
    optimizer = torch.optim.SGD(method.networks["net"].parameters(), lr=lr)
    optimizer.zero_grad()
    value = getattr(method, loss)(batch).mean()
    value.backward()
    optimizer.step()
    method.on_step_end()
    return float(value.detach())


def weights(method: Method) -> dict[str, torch.Tensor]:
    """Return a copy of the network's weights, for manual steps."""
    return {name: value.detach().clone().requires_grad_() for name, value in method.networks["net"].named_parameters()}


def move(manual: dict[str, torch.Tensor], loss: torch.Tensor, *, lr: float = 0.1) -> None:
    """Take the SGD step of ``take_step`` with manual weights."""
    for value, gradient in zip(manual.values(), torch.autograd.grad(loss, list(manual.values())), strict=True):
        value.data -= lr * gradient
