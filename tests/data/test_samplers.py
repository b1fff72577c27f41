"""Orders and batches against slow versions."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from permll.data import samplers


@given(count=st.integers(1, 400), size=st.integers(1, 130))
def test_batches_hold_every_row_in_order_and_none_is_tiny(count: int, size: int) -> None:
    rows = torch.arange(count)
    parts = samplers.batches(rows, size)
    assert torch.equal(torch.cat(parts), rows)
    assert len(parts) == samplers.number_of_batches(count, size)
    assert all(len(part) == size for part in parts[:-1])
    if len(parts) > 1:
        assert size / 8 <= len(parts[-1]) < size * 9 / 8 + 1
        assert len(parts[-1]) > 1 or size == 1


@given(labels=st.lists(st.integers(0, 4), min_size=1, max_size=60), count=st.integers(1, 80), seed=st.integers(0, 99))
def test_even_orders_are_as_even_as_can_be(labels: list[int], count: int, seed: int) -> None:
    rows = torch.arange(len(labels)) + 100
    given_ = torch.tensor(labels)
    order = samplers.even(rows, given_, count, seed, 0) - 100
    assert len(order.unique()) == len(order) == min(count, len(labels))
    taken = torch.bincount(given_[order], minlength=5)
    have = torch.bincount(given_, minlength=5)
    for label in range(5):  # whoever has fewer than another by more than one has given all it had
        assert taken[label] == have[label] or taken[label] >= taken.max() - 1


def test_weighted_orders_follow_their_weights() -> None:
    rows, weights = torch.tensor([7, 8, 9]), torch.tensor([1.0, 0.0, 3.0])
    drawn = samplers.weighted(rows, weights, 8000, 0, 0)
    counts = torch.bincount(drawn, minlength=10)
    assert counts[8] == 0
    assert abs(counts[9] / 8000 - 0.75) < 0.02
    assert torch.equal(drawn, samplers.weighted(rows, weights, 8000, 0, 0))
    assert not torch.equal(drawn, samplers.weighted(rows, weights, 8000, 0, 1))


@pytest.mark.parametrize("weights", [[0.0, 0.0], [1.0, float("nan")], [1.0, float("inf")], [2.0, -1.0]])
def test_weights_that_mean_nothing_are_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="finite, not negative, and not all zero"):
        samplers.weighted(torch.arange(2), torch.tensor(weights), 3, 0, 0)


def test_orders_are_the_same_in_every_process() -> None:
    """Numbers written down once: a seed keeps its meaning from one version of the package to the next."""
    assert samplers.shuffled(torch.arange(8), seed=42, epoch=3).tolist() == [3, 1, 2, 7, 0, 5, 4, 6]
