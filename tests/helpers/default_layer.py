"""Simulated trainings of the default layer."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from permll import PermutationLayer

N, C = 400, 4  # the smallest data set with held-out samples
EXACT = {"rtol": 1e-10, "atol": 1e-12}
FORMATS: dict[str, dict[str, Any]] = {
    "dense": {},
    "float64": {"dtype": torch.float64},
    "bfloat16": {"dtype": torch.bfloat16},
    "disk": {"file": True},
    "top_k": {"top_k": 2},
    "all of them": {"top_k": 2, "dtype": torch.bfloat16, "file": True},
}
ALL_FORMATS = pytest.mark.parametrize("fmt", FORMATS.values(), ids=FORMATS)


def held_out_rows(layer: PermutationLayer) -> Tensor:
    return (layer.loss_weight.values == 0).nonzero().flatten()


def end_warm_up(layer: PermutationLayer, *, influence: float = 0.0, accuracy: float = 0.7) -> PermutationLayer:
    """Set the estimates by hand, with a random transition matrix; all classes are learned."""
    generator = torch.Generator().manual_seed(5)
    off_diagonal = torch.rand(C, C, generator=generator).fill_diagonal_(0.0)
    T = 0.6 * torch.eye(C) + 0.4 * off_diagonal / off_diagonal.sum(1, keepdim=True)
    layer.estimates.is_warm_up = 0.0
    layer.estimates.influence, layer.estimates.accuracy = influence, accuracy
    layer.log_likelihood.copy_(T.T.log())
    layer.learned.fill_(True)
    return layer


def visit(layer: PermutationLayer, logits: Tensor, index: Any, **kwargs: Any) -> Tensor:
    """Run ``backward``; return the gradient of the logits."""
    z = logits.clone().requires_grad_()
    layer(z, index, **kwargs).backward()
    assert z.grad is not None
    return z.grad


def mean_predictions(layer: PermutationLayer) -> Tensor:
    """Return t (N, c), with all visits so far."""
    return layer.state_dict()["predictions.values"]


def same_state(one: PermutationLayer, two: PermutationLayer) -> bool:
    first, second = one.state_dict(), two.state_dict()
    return first.keys() == second.keys() and all(
        first[key].shape == second[key].shape and first[key].allclose(second[key], rtol=0, atol=0, equal_nan=True)
        for key in first
    )


class Simulation:
    """Logits of a network that knows the true classes, and memorizes labels and is overconfident from epoch 2 on."""

    def __init__(
        self,
        rows: int = 600,
        classes: int = 3,
        noise: float = 0.3,
        seed: int = 0,
        shares: tuple[float, ...] | None = None,
    ) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.classes = classes
        self.truth = torch.randint(classes, (rows,), generator=self.generator)
        if shares is not None:  # fraction of samples of each class
            self.truth = torch.multinomial(torch.tensor(shares), rows, replacement=True, generator=self.generator)
        wrong = torch.rand(rows, generator=self.generator) < noise
        shift = torch.randint(1, classes, (rows,), generator=self.generator)
        self.labels = torch.where(wrong, (self.truth + shift) % classes, self.truth)
        self.noise = 0.7 * torch.randn(rows, classes, generator=self.generator)

    def logits(self, trained: Tensor, memorization: float) -> Tensor:
        known = 4.0 * one_hot(self.truth, self.classes) + self.noise
        confident = (1 + memorization / 4) * known  # so that held-out labels become less likely
        return confident + memorization * trained[:, None] * one_hot(self.labels, self.classes)

    def train(
        self, layer: PermutationLayer, epochs: int, memorization: float = 2.0, first: int = 0, batch: int = 100
    ) -> PermutationLayer:
        """Visit all samples in every epoch; ``first`` is the number of earlier epochs."""
        trained = layer.loss_weight.values != 0
        for epoch in range(first, first + epochs):
            logits = self.logits(trained, memorization if epoch else 0.0)
            order = torch.randperm(len(logits), generator=torch.Generator().manual_seed(epoch))
            for index in order.split(batch):
                visit(layer, logits[index], index)
                layer.step()
        return layer
