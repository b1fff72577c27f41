"""``PermutationLayer`` does not lose classes that are learned slowly."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy

from permll import PermutationLayer


def slow_class_data(sizes: tuple[int, int, int], slowdown: float, extra: int = 0) -> tuple[Tensor, Tensor]:
    """Return features and clean labels; class 1 is class 0 plus a feature that is learned ``slowdown`` times slower.

    ``extra`` random features identify the samples, so that labels can be memorized.
    """
    y = torch.arange(3).repeat_interleave(torch.tensor(sizes))
    x = torch.zeros(len(y), 3)
    x[y != 2, 0] = 1.0
    x[y == 1, 1] = slowdown**-0.5  # its weight moves and acts with this factor
    x[y == 2, 2] = 1.0
    generator = torch.Generator().manual_seed(0)
    x = torch.cat([x, 0.3 * torch.randn(len(y), extra, generator=generator)], 1)
    order = torch.randperm(len(y), generator=generator)
    return x[order], y[order]


def class_accuracies(x: Tensor, y: Tensor, layer: Any = None, epochs: int = 150) -> list[float]:
    """Train a linear network with full batches, with cross-entropy or a layer; return its accuracy for each class."""
    weight, rows = torch.zeros(3, x.shape[1], requires_grad=True), torch.arange(len(y))
    for _ in range(epochs):
        logits = x @ weight.T
        loss = cross_entropy(logits, y) if layer is None else layer(logits, rows)
        (gradient,) = torch.autograd.grad(loss, weight)
        weight.data -= 3.0 * gradient
        if layer is not None:
            layer.step()
    hits = (x @ weight.T).argmax(1) == y
    return [float(hits[y == k].float().mean()) for k in range(3)]


@given(st.floats(20, 40), st.integers(480, 600), st.integers(120, 200))
@settings(max_examples=5)
def test_slowly_learned_class_is_not_lost(slowdown: float, fast: int, slow: int) -> None:
    """Until class 1 is learned, the network takes it for class 0; its clean labels must outlast that."""
    x, y = slow_class_data((fast, slow, 300), slowdown)
    layer, paper = PermutationLayer(y, 3), PermutationLayer.paper(y, 3, epochs=150)
    expected, got, of_paper = (class_accuracies(x, y, one) for one in (None, layer, paper))
    assert expected[1] == 1.0
    assert all(abs(a - b) <= 0.005 for a, b in zip(got, expected, strict=True))
    assert torch.equal(layer.corrected_labels(), y)
    assert (paper.corrected_labels() != y)[y == 1].float().mean() > 0.5
    assert of_paper[1] < 0.5


@pytest.mark.parametrize(
    ("sizes", "slowdown", "extra"),
    [((400, 300, 300), 20.0, 50), ((600, 400, 1000), 40.0, 200), ((1000, 700, 1000), 40.0, 400)],
)
def test_slowly_learned_class_is_not_lost_with_memorization(
    sizes: tuple[int, int, int], slowdown: float, extra: int
) -> None:
    """As before, with features by which labels are memorized while class 1 is learned."""
    x, y = slow_class_data(sizes, slowdown, extra)
    layer = PermutationLayer(y, 3)
    expected, got = class_accuracies(x, y), class_accuracies(x, y, layer)
    assert all(a >= b - 0.025 for a, b in zip(got, expected, strict=True))
    assert torch.equal(layer.corrected_labels(), y)
