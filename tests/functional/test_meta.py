"""Looking one step ahead: every function against loops, and the whole gradient on a network without any magic."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy
from torch.testing import assert_close

from permll.functional.meta import (
    batch_nearest_neighbors,
    consistency_loss,
    differentiable_sgd_step,
    synthetic_noisy_labels,
)
from permll.functional.schedules import sigmoid_rampup

FEW = settings(max_examples=40)


@given(st.integers(1, 12), st.integers(1, 4), st.integers(1, 12), st.integers(0, 2**31))
@FEW
def test_neighbours_are_the_nearest_others(batch: int, width: int, k: int, seed: int) -> None:
    features = torch.randn(batch, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    found = batch_nearest_neighbors(features, k)
    assert found.shape == (batch, min(k, batch - 1))
    for i, row in enumerate(features.tolist()):
        others = [j for j in range(batch) if j != i]
        others.sort(key=lambda j: sum((a - b) ** 2 for a, b in zip(row, features[j].tolist(), strict=True)))
        assert found[i].tolist() == others[:k]


def test_a_sample_is_not_its_own_neighbour_even_beside_its_double() -> None:
    features = torch.tensor([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [9.0, 9.0]])
    found = batch_nearest_neighbors(features, 2)
    assert [set(row) for row in found[:3].tolist()] == [{1, 2}, {0, 2}, {0, 1}]


def test_small_distances_between_large_features_are_not_lost() -> None:
    features = 1e4 + torch.tensor([[0.0], [0.25], [0.375], [0.875]])  # 32-bit floats hold these, not their squares
    assert batch_nearest_neighbors(features.repeat(20, 1)[:4], 1)[:, 0].tolist() == [1, 2, 1, 2]
    many = torch.cat([features, 1e6 + 1e4 * torch.arange(40.0)[:, None]])
    assert batch_nearest_neighbors(many, 1)[:4, 0].tolist() == [1, 2, 1, 2]


@given(st.integers(2, 10), st.integers(1, 4), st.integers(0, 10), st.integers(0, 2**31))
@FEW
def test_chosen_rows_take_the_given_label_of_the_neighbour_picked(batch: int, k: int, chosen: int, seed: int) -> None:
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
@FEW
def test_consistency_is_the_divergence_from_the_teacher(classes: int, seed: int) -> None:
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


def test_a_certain_teacher_costs_no_more_than_cross_entropy() -> None:
    logits, labels = torch.randn(4, 3, dtype=torch.float64), torch.tensor([0, 1, 2, 2])
    certain = nn.functional.one_hot(labels, 3).double()
    assert_close(consistency_loss(logits, certain), cross_entropy(logits, labels, reduction="none"))


def test_the_ramp_rises_from_its_beginning_to_its_end() -> None:
    values = [sigmoid_rampup(u / 10) for u in range(-2, 13)]
    assert values[:3] == [math.exp(-5)] * 3
    assert values[-3:] == [1.0] * 3
    assert values[2:13] == sorted(values[2:13])
    assert sigmoid_rampup(0.4) == pytest.approx(math.exp(-5 * 0.36))


def imagined_gradient(W: Tensor, x: Tensor, labels: Tensor, q: Tensor, lr: float, second_order: bool) -> Tensor:
    """Return ∇_W of the mean KL(q ‖ p(W - lr G)), G = ∇ of the mean CE, for logits x Wᵀ; by hand.

    With p the predictions at W and p' those after the step, D = (p' - q) ᵀ x / B is the gradient there. First order
    stops here. Second order adds -lr H D, where H D is how G changes along D: the direction D moves the logits by
    v = x Dᵀ, and p by p (v - <p, v>).
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
def test_the_gradient_through_an_imagined_step_is_what_paper_and_pencil_give(second_order: bool) -> None:
    net = nn.Linear(3, 4, bias=False, dtype=torch.float64)
    x, labels = torch.randn(6, 3, dtype=torch.float64), torch.tensor([0, 1, 2, 3, 3, 1])
    q = torch.randn(6, 4, dtype=torch.float64).softmax(1)
    parameters = dict(net.named_parameters())
    after = differentiable_sgd_step(cross_entropy(net(x), labels), parameters, 0.7, second_order)
    loss = consistency_loss(functional_call(net, after, x), q).mean()
    (found,) = torch.autograd.grad(loss, net.weight)
    assert_close(found, imagined_gradient(net.weight.detach(), x, labels, q, 0.7, second_order), rtol=1e-10, atol=1e-12)


def test_an_imagined_step_is_a_step_of_gradient_descent_and_moves_nothing() -> None:
    net = nn.Linear(3, 2)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    x, labels = torch.randn(5, 3), torch.tensor([0, 1, 1, 0, 1])
    after = differentiable_sgd_step(cross_entropy(net(x), labels), dict(net.named_parameters()), 0.3, second_order=False)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(value.grad is None for value in net.parameters())
    cross_entropy(net(x), labels).backward()
    for name, value in net.named_parameters():
        assert_close(after[name], value - 0.3 * value.grad)


def test_what_the_loss_does_not_ask_and_what_is_frozen_stays() -> None:
    asked, idle, frozen = (torch.tensor(2.0, requires_grad=grad) for grad in (True, True, False))
    after = differentiable_sgd_step((asked * frozen).square(), {"asked": asked, "idle": idle, "frozen": frozen}, 0.1, True)
    assert after["asked"].item() == pytest.approx(2.0 - 0.1 * 2 * 2 * 4)
    assert after["idle"] is idle
    assert after["frozen"] is frozen
