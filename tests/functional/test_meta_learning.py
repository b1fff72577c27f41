"""MLNT: functions against loops, and the meta-gradient against a manual derivation."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy
from torch.testing import assert_close

from permll.functional.meta_learning import (
    batch_nearest_neighbors,
    consistency_loss,
    differentiable_sgd_step,
    synthetic_noisy_labels,
)

FEW_EXAMPLES = settings(max_examples=40)


@given(st.integers(1, 12), st.integers(1, 4), st.integers(1, 12), st.integers(0, 2**31))
@FEW_EXAMPLES
def test_nearest_neighbors_match_loops(batch: int, width: int, k: int, seed: int) -> None:
    features = torch.randn(batch, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    neighbors = batch_nearest_neighbors(features, k)
    assert neighbors.shape == (batch, min(k, batch - 1))
    for i, row in enumerate(features.tolist()):
        others = [j for j in range(batch) if j != i]
        others.sort(key=lambda j: sum((a - b) ** 2 for a, b in zip(row, features[j].tolist(), strict=True)))
        assert neighbors[i].tolist() == others[:k]


def test_nearest_neighbors_exclude_the_sample_itself() -> None:
    features = torch.tensor([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [9.0, 9.0]])
    neighbors = batch_nearest_neighbors(features, 2)
    assert [set(row) for row in neighbors[:3].tolist()] == [{1, 2}, {0, 2}, {0, 1}]


def test_nearest_neighbors_resolve_small_distances() -> None:
    features = 1e4 + torch.tensor([[0.0], [0.25], [0.375], [0.875]])  # exact in float32, unlike their squares
    assert batch_nearest_neighbors(features.repeat(20, 1)[:4], 1)[:, 0].tolist() == [1, 2, 1, 2]
    many = torch.cat([features, 1e6 + 1e4 * torch.arange(40.0)[:, None]])
    assert batch_nearest_neighbors(many, 1)[:4, 0].tolist() == [1, 2, 1, 2]


@given(st.integers(2, 10), st.integers(1, 4), st.integers(0, 10), st.integers(0, 2**31))
@FEW_EXAMPLES
def test_synthetic_labels_come_from_picked_neighbors(batch: int, k: int, chosen: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(100, (batch,), generator=generator)
    neighbors = torch.randint(batch, (batch, k), generator=generator)
    rows = torch.randperm(batch, generator=generator)[:chosen]
    picks = torch.randint(k, rows.shape, generator=generator)
    before = labels.clone()
    expected = labels.tolist()
    for row, pick in zip(rows.tolist(), picks.tolist(), strict=True):
        expected[row] = before[neighbors[row, pick]].item()
    assert synthetic_noisy_labels(labels, neighbors, rows, picks).tolist() == expected
    assert torch.equal(labels, before)


@given(st.integers(2, 8), st.integers(0, 2**31))
@FEW_EXAMPLES
def test_consistency_loss_matches_loops(classes: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(3, classes, generator=generator, dtype=torch.float64)
    q = torch.randn(3, classes, generator=generator, dtype=torch.float64).softmax(1)
    p = logits.softmax(1)
    for n, value in enumerate(consistency_loss(logits, q).tolist()):
        expected = sum(a * math.log(a / b) for a, b in zip(q[n].tolist(), p[n].tolist(), strict=True))
        assert value == pytest.approx(expected, rel=1e-9)
        assert value >= 0
    assert_close(consistency_loss(logits, p), torch.zeros(3, dtype=torch.float64), atol=1e-12, rtol=0)
    logits.requires_grad_()
    (gradient,) = torch.autograd.grad(consistency_loss(logits, q).sum(), logits)
    assert_close(gradient, p - q)


def test_consistency_loss_of_one_hot_teacher_is_cross_entropy() -> None:
    logits, labels = torch.randn(4, 3, dtype=torch.float64), torch.tensor([0, 1, 2, 2])
    certain = nn.functional.one_hot(labels, 3).double()
    assert_close(consistency_loss(logits, certain), cross_entropy(logits, labels, reduction="none"))


def manual_gradient(W: Tensor, x: Tensor, labels: Tensor, q: Tensor, lr: float, second_order: bool) -> Tensor:
    """Return ∇_W of the mean KL(q ‖ p(W - lr G)), G = ∇ of the mean CE, for logits x Wᵀ.

    With p the predictions at W and p' those after the step, D = (p' - q) ᵀ x / B is the gradient there. Second
    order adds -lr H D, with H D the derivative of G along D: D changes the logits by v = x Dᵀ, and p by p (v - <p, v>).
    """
    batch = len(x)
    p = (x @ W.T).softmax(1)
    step = (p - nn.functional.one_hot(labels, len(W)).to(p)).T @ x / batch
    after = (x @ (W - lr * step).T).softmax(1)
    D = (after - q).T @ x / batch
    if not second_order:
        return D
    v = x @ D.T
    return D - lr * (p * (v - (p * v).sum(1, keepdim=True))).T @ x / batch


@pytest.mark.parametrize("second_order", [False, True])
def test_gradient_through_sgd_step_matches_manual_gradient(second_order: bool) -> None:
    net = nn.Linear(3, 4, bias=False, dtype=torch.float64)
    x, labels = torch.randn(6, 3, dtype=torch.float64), torch.tensor([0, 1, 2, 3, 3, 1])
    q = torch.randn(6, 4, dtype=torch.float64).softmax(1)
    parameters = dict(net.named_parameters())
    after = differentiable_sgd_step(cross_entropy(net(x), labels), parameters, 0.7, second_order)
    loss = consistency_loss(functional_call(net, after, x), q).mean()
    (gradient,) = torch.autograd.grad(loss, net.weight)
    assert_close(
        gradient, manual_gradient(net.weight.detach(), x, labels, q, 0.7, second_order), rtol=1e-10, atol=1e-12
    )


def test_differentiable_sgd_step_matches_sgd_without_side_effects() -> None:
    net = nn.Linear(3, 2)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    x, labels = torch.randn(5, 3), torch.tensor([0, 1, 1, 0, 1])
    after = differentiable_sgd_step(
        cross_entropy(net(x), labels), dict(net.named_parameters()), 0.3, second_order=False
    )
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(value.grad is None for value in net.parameters())
    cross_entropy(net(x), labels).backward()
    for name, value in net.named_parameters():
        assert_close(after[name], value - 0.3 * value.grad)


def test_differentiable_sgd_step_keeps_unused_and_frozen_parameters() -> None:
    used, idle, frozen = (torch.tensor(2.0, requires_grad=grad) for grad in (True, True, False))
    after = differentiable_sgd_step((used * frozen).square(), {"used": used, "idle": idle, "frozen": frozen}, 0.1, True)
    assert after["used"].item() == pytest.approx(2.0 - 0.1 * 2 * 2 * 4)
    assert after["idle"] is idle
    assert after["frozen"] is frozen
