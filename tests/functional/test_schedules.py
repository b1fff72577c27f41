"""Schedules against formulas and the code of Co-teaching."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permll.functional.schedules import Schedule, linear_rampup, sigmoid_rampup, small_loss_drop_rate


def test_sigmoid_rampup_increases_to_one() -> None:
    values = [sigmoid_rampup(u / 10) for u in range(-2, 13)]
    assert values[:3] == [math.exp(-5)] * 3
    assert values[-3:] == [1.0] * 3
    assert values[2:13] == sorted(values[2:13])
    assert sigmoid_rampup(0.4) == pytest.approx(math.exp(-5 * 0.36))


def test_linear_rampup_is_clipped() -> None:
    assert [linear_rampup(u) for u in (-3.0, 0.0, 0.3, 1.0, 7.0)] == [0.0, 0.0, 0.3, 1.0, 1.0]


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("ramp", [1, 4, 10])
def test_drop_rate_of_paper(exponent: float, ramp: int) -> None:
    for epoch in range(30):
        expected = 0.4 * min(epoch**exponent / ramp, 1)
        assert small_loss_drop_rate(epoch, 0.4, ramp, exponent) == pytest.approx(expected)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("ramp", [1, 4, 10])
def test_drop_rate_of_code(exponent: float, ramp: int) -> None:
    rates = np.full(30, 0.4)
    rates[:ramp] = np.linspace(0, 0.4**exponent, ramp)
    drop_rates = [small_loss_drop_rate(epoch, 0.4, ramp, exponent, "code") for epoch in range(30)]
    assert drop_rates == pytest.approx(rates.tolist())


@pytest.mark.parametrize("schedule", ["paper", "code"])
@given(st.floats(0, 0.99), st.integers(1, 20))
def test_drop_rate_rises_from_zero_to_noise_rate(schedule: Schedule, rate: float, ramp: int) -> None:
    rates = [small_loss_drop_rate(epoch, rate, ramp, schedule=schedule) for epoch in range(ramp + 3)]
    assert rates[0] == 0.0
    assert rates == sorted(rates)
    assert rates[ramp:] == [rate] * 3
