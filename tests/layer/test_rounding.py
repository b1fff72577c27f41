"""Stochastic rounding: fair, repeatable, and silent where there is nothing to round."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from permll.layer.rounding import class_probs, stochastic_bfloat16


@given(st.floats(-(2.0**100), 2.0**100, width=32), st.integers(0, 65535))
def test_a_number_becomes_one_of_its_neighbours(x: float, chance: int) -> None:
    value = torch.tensor([[x]])
    found = float(stochastic_bfloat16(value, torch.tensor([[chance]], dtype=torch.int32)))
    neighbors = {float(stochastic_bfloat16(value, torch.tensor([[c]], dtype=torch.int32))) for c in (0, 65535)}
    assert found in neighbors
    assert min(neighbors) <= x <= max(neighbors)
    if x == float(value.bfloat16()):
        assert neighbors == {x}


def test_what_is_not_finite_stays() -> None:
    values = torch.tensor([[torch.inf, -torch.inf, torch.nan]])
    found = stochastic_bfloat16(values, torch.full((1, 3), 65535, dtype=torch.int32))
    assert found[0, :2].tolist() == [torch.inf, -torch.inf]
    assert found[0, 2].isnan()


@pytest.mark.parametrize("x", [0.123456, -1.578, 3.14159, 1e-8])
def test_the_mean_of_many_is_the_number(x: float) -> None:
    """Over rows, over entries and over writes, each within four standard errors of it."""
    values = torch.full((4000, 1), x)
    gap = float((values[:1] * 2**-8).abs())  # the distance of neighbors, or half of it
    for found in (
        stochastic_bfloat16(values, class_probs(torch.arange(4000), 1, torch.tensor(1))),
        stochastic_bfloat16(values.T, class_probs(torch.tensor([5]), 4000, torch.tensor(1))),
        torch.cat(
            [stochastic_bfloat16(values[:1], class_probs(torch.tensor([5]), 1, torch.tensor(n))) for n in range(4000)]
        ),
    ):
        assert found.unique().numel() == 2
        assert abs(float(found.double().mean()) - x) < 4 * (2 * gap) / 2 / 4000**0.5


def test_chances_are_even_and_unlike_one_another() -> None:
    found = class_probs(torch.arange(500), 200, torch.tensor(3))
    assert found.unique().numel() > 0.6 * 65536 * (1 - 2.718 ** (-100_000 / 65536)) / 0.78
    assert abs(float(found.double().mean()) - 32767.5) < 4 * 65536 / 12**0.5 / 100_000**0.5
    for other in (class_probs(torch.arange(500), 200, torch.tensor(4)), found.roll(1, 0), found.roll(1, 1)):
        both = torch.corrcoef(torch.stack([found.flatten().double(), other.flatten().double()]))[0, 1]
        assert abs(float(both)) < 4 / 100_000**0.5
    assert torch.equal(found, class_probs(torch.arange(500), 200, torch.tensor(3)))
