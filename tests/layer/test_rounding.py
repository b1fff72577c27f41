"""Stochastic rounding: unbiased, reproducible, and exact for representable values."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from permll.layer.rounding import rounding_bits, stochastic_bfloat16


@given(st.floats(-(2.0**100), 2.0**100, width=32), st.integers(0, 65535))
def test_number_rounds_to_a_neighbor(x: float, bits: int) -> None:
    value = torch.tensor([[x]])
    rounded = float(stochastic_bfloat16(value, torch.tensor([[bits]], dtype=torch.int32)))
    neighbors = {float(stochastic_bfloat16(value, torch.tensor([[c]], dtype=torch.int32))) for c in (0, 65535)}
    assert rounded in neighbors
    assert min(neighbors) <= x <= max(neighbors)
    if x == float(value.bfloat16()):
        assert neighbors == {x}


def test_nonfinite_values_stay() -> None:
    values = torch.tensor([[torch.inf, -torch.inf, torch.nan]])
    rounded = stochastic_bfloat16(values, torch.full((1, 3), 65535, dtype=torch.int32))
    assert rounded[0, :2].tolist() == [torch.inf, -torch.inf]
    assert rounded[0, 2].isnan()


@pytest.mark.parametrize("x", [0.123456, -1.578, 3.14159, 1e-8])
def test_rounding_is_unbiased(x: float) -> None:
    """Over rows, entries and writes, each within four standard errors."""
    values = torch.full((4000, 1), x)
    ulp = float((values[:1] * 2**-8).abs())  # spacing of bfloat16 numbers, or half of it
    for rounded in (
        stochastic_bfloat16(values, rounding_bits(torch.arange(4000), 1, torch.tensor(1))),
        stochastic_bfloat16(values.T, rounding_bits(torch.tensor([5]), 4000, torch.tensor(1))),
        torch.cat(
            [stochastic_bfloat16(values[:1], rounding_bits(torch.tensor([5]), 1, torch.tensor(n))) for n in range(4000)]
        ),
    ):
        assert rounded.unique().numel() == 2
        assert abs(float(rounded.double().mean()) - x) < 4 * (2 * ulp) / 2 / 4000**0.5


def test_rounding_bits_are_uniform_and_uncorrelated() -> None:
    rounded = rounding_bits(torch.arange(500), 200, torch.tensor(3))
    assert rounded.unique().numel() > 0.6 * 65536 * (1 - 2.718 ** (-100_000 / 65536)) / 0.78
    assert abs(float(rounded.double().mean()) - 32767.5) < 4 * 65536 / 12**0.5 / 100_000**0.5
    for other in (rounding_bits(torch.arange(500), 200, torch.tensor(4)), rounded.roll(1, 0), rounded.roll(1, 1)):
        both = torch.corrcoef(torch.stack([rounded.flatten().double(), other.flatten().double()]))[0, 1]
        assert abs(float(both)) < 4 / 100_000**0.5
    assert torch.equal(rounded, rounding_bits(torch.arange(500), 200, torch.tensor(3)))
