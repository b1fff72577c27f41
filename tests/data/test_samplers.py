"""Orders and batches against slow versions."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from permll.data import samplers


@given(count=st.integers(1, 400), size=st.integers(1, 130))
def test_split_batches_keeps_order_and_avoids_tiny_batches(count: int, size: int) -> None:
    rows = torch.arange(count)
    parts = samplers.split_batches(rows, size)
    assert torch.equal(torch.cat(parts), rows)
    assert len(parts) == samplers.num_batches(count, size)
    assert all(len(part) == size for part in parts[:-1])
    if len(parts) > 1:
        assert size / 8 <= len(parts[-1]) < size * 9 / 8 + 1
        assert len(parts[-1]) > 1 or size == 1


@given(labels=st.lists(st.integers(0, 4), min_size=1, max_size=60), count=st.integers(1, 80), seed=st.integers(0, 99))
def test_balanced_sample_is_as_even_as_possible(labels: list[int], count: int, seed: int) -> None:
    rows = torch.arange(len(labels)) + 100
    given_ = torch.tensor(labels)
    order = samplers.balanced_sample(rows, given_, count, seed, 0) - 100
    assert len(order.unique()) == len(order) == min(count, len(labels))
    taken = torch.bincount(given_[order], minlength=5)
    have = torch.bincount(given_, minlength=5)
    for label in range(5):  # a label with fewer rows than another has no more
        assert taken[label] == have[label] or taken[label] >= taken.max() - 1


def test_weighted_sample_follows_weights() -> None:
    rows, weights = torch.tensor([7, 8, 9]), torch.tensor([1.0, 0.0, 3.0], dtype=torch.float64)
    drawn = samplers.weighted_sample(rows, weights, 8000, 0, 0)
    counts = torch.bincount(drawn, minlength=10)
    assert counts[8] == 0
    assert abs(counts[9] / 8000 - 0.75) < 0.02
    assert torch.equal(drawn, samplers.weighted_sample(rows, weights, 8000, 0, 0))
    assert not torch.equal(drawn, samplers.weighted_sample(rows, weights, 8000, 0, 1))


def test_orders_are_deterministic() -> None:
    """A seed gives the same order in every version of the package."""
    assert samplers.shuffle(torch.arange(8), seed=42, epoch=3).tolist() == [3, 1, 2, 7, 0, 5, 4, 6]
