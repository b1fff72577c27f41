"""Which samples are chosen, against loops over a batch; weights, schedules and JoCoR's loss against their formulas."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from permll.functional.refurbish import divergence
from permll.functional.schedules import Schedule, small_loss_drop_rate
from permll.functional.selection import (
    disagreement_mask,
    jocor_loss,
    selection_weights,
    small_loss_mask,
)

MASKS = st.lists(st.booleans(), min_size=1, max_size=12)


def softmax(row: list[float]) -> list[float]:
    powers = [math.exp(value - max(row)) for value in row]
    return [power / sum(powers) for power in powers]


# --- Who is chosen -------------------------------------------------------------------------------------------------


def test_disagreement_is_what_loops_find() -> None:
    one, other = torch.randn(40, 3), torch.randn(40, 3)
    expected = [a.index(max(a)) != b.index(max(b)) for a, b in zip(one.tolist(), other.tolist(), strict=True)]
    assert disagreement_mask(one, other).tolist() == expected
    assert not disagreement_mask(one, 3 * one + 1).any(), "how sure they are does not matter"


def slow_small_losses(losses: list[float], drop: float, among: list[bool]) -> list[bool]:
    places = sorted((place for place in range(len(losses)) if among[place]), key=lambda place: losses[place])
    count = max(math.floor((1 - drop) * len(places) + 1e-4), 1)
    return [place in places[:count] for place in range(len(losses))]


@given(
    st.lists(st.tuples(st.floats(0, 5, width=32), st.booleans()), min_size=1, max_size=20),
    st.integers(0, 99).map(lambda percent: percent / 100),
)
def test_small_losses_are_those_a_sort_finds(rows: list[tuple[float, bool]], drop: float) -> None:
    losses, among = ([row[part] for row in rows] for part in (0, 1))
    found = small_loss_mask(torch.tensor(losses), drop, torch.tensor(among, dtype=torch.bool))
    assert found.tolist() == slow_small_losses(losses, drop, among)
    every = small_loss_mask(torch.tensor(losses), torch.tensor(drop))
    assert every.tolist() == slow_small_losses(losses, drop, [True] * len(losses))


@pytest.mark.parametrize(("drop", "kept"), [(0.0, 10), (0.05, 9), (0.2, 8), (0.7, 3), (0.8, 2), (0.9, 1), (0.99, 1)])
def test_as_many_are_kept_as_the_share_says(drop: float, kept: int) -> None:
    for rate in (drop, torch.tensor(drop)):
        assert int(small_loss_mask(torch.rand(10), rate).sum()) == kept, "rounding takes none away, and one remains"


def test_a_loss_that_is_none_is_not_small() -> None:
    losses = torch.tensor([math.nan, 3.0, math.inf, 1.0])
    assert small_loss_mask(losses, 0.5).tolist() == [False, True, False, True]
    among = torch.tensor([True, True, False, False])
    assert small_loss_mask(losses, 0.5, among).tolist() == [False, True, False, False]
    assert not small_loss_mask(losses, 0.5, torch.zeros(4, dtype=torch.bool)).any()


# --- Weights -------------------------------------------------------------------------------------------------------


@given(MASKS)
def test_a_weighted_mean_is_that_over_the_chosen(chosen: list[bool]) -> None:
    losses = torch.rand(len(chosen), dtype=torch.float64)
    mean = (selection_weights(torch.tensor(chosen)) * losses).mean().item()
    of = [loss for loss, is_chosen in zip(losses.tolist(), chosen, strict=True) if is_chosen]
    assert mean == pytest.approx(sum(of) / len(of) if of else 0.0)


@given(MASKS, st.floats(0, 1))
def test_few_have_less_weight(chosen: list[bool], least: float) -> None:
    weights = selection_weights(torch.tensor(chosen), least).tolist()
    size, count = len(chosen), sum(chosen)
    for weight, is_chosen in zip(weights, chosen, strict=True):
        assert weight == pytest.approx(size / max(count, least * size, 1) if is_chosen else 0.0)
    assert sum(weights) / size <= 1 + 1e-6


# --- Schedules -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("ramp", [1, 4, 10])
def test_the_papers_schedule(exponent: float, ramp: int) -> None:
    for epoch in range(30):
        expected = 0.4 * min(epoch**exponent / ramp, 1)
        assert small_loss_drop_rate(epoch, 0.4, ramp, exponent) == pytest.approx(expected)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("ramp", [1, 4, 10])
def test_the_codes_schedule(exponent: float, ramp: int) -> None:
    rates = np.full(30, 0.4)
    rates[:ramp] = np.linspace(0, 0.4**exponent, ramp)
    found = [small_loss_drop_rate(epoch, 0.4, ramp, exponent, "code") for epoch in range(30)]
    assert found == pytest.approx(rates.tolist())


@pytest.mark.parametrize("schedule", ["paper", "code"])
@given(st.floats(0, 0.99), st.integers(1, 20))
def test_all_is_kept_at_first_and_a_straight_line_ends_at_the_noise_rate(
    schedule: Schedule, rate: float, ramp: int
) -> None:
    rates = [small_loss_drop_rate(epoch, rate, ramp, schedule=schedule) for epoch in range(ramp + 3)]
    assert rates[0] == 0.0
    assert rates == sorted(rates)
    assert rates[ramp:] == [rate] * 3


# --- JoCoR ---------------------------------------------------------------------------------------------------------


def test_the_joint_loss_is_what_loops_make() -> None:
    one, other = 2 * torch.randn(8, 4, dtype=torch.float64), 2 * torch.randn(8, 4, dtype=torch.float64)
    labels = torch.arange(8) % 4
    found = jocor_loss(one, other, labels, 0.85)
    for i, y in enumerate(labels.tolist()):
        p, q = softmax(one[i].tolist()), softmax(other[i].tolist())
        apart = sum(a * math.log(a / b) + b * math.log(b / a) for a, b in zip(p, q, strict=True))
        expected = 0.15 * (-math.log(p[y]) - math.log(q[y])) + 0.85 * apart
        assert found[i].item() == pytest.approx(expected)
    torch.testing.assert_close(jocor_loss(one, other, labels, 1.0), divergence(one, other) + divergence(other, one))
    torch.testing.assert_close(jocor_loss(one, other, labels, 0.85), jocor_loss(other, one, labels, 0.85))


def test_the_gradient_of_the_joint_loss() -> None:
    one, other = (torch.randn(5, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    labels = torch.tensor([0, 1, 2, 0, 1])
    assert torch.autograd.gradcheck(lambda a, b: jocor_loss(a, b, labels, 0.7), (one, other))
    labeled: Tensor = torch.nn.functional.cross_entropy(one, labels, reduction="sum")
    (expected,) = torch.autograd.grad(0.3 * labeled, one)
    same = one.detach().clone()
    (found,) = torch.autograd.grad(jocor_loss(one, same, labels, 0.7).sum(), one)
    torch.testing.assert_close(found, expected, msg="networks that agree are not pulled to each other")


def test_sure_networks_give_finite_losses() -> None:
    sure = torch.tensor([[200.0, 0.0], [0.0, 200.0]])
    assert jocor_loss(sure, sure.flip(1), torch.tensor([0, 0]), 0.9).isfinite().all()
