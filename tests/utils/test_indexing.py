"""``split_repeats``: every position once, in order of occurrence, no sample twice in a group."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from permll.utils.indexing import split_repeats


@given(st.lists(st.integers(0, 5), max_size=12))
def test_split_repeats_orders_occurrences(index: list[int]) -> None:
    groups = [
        torch.arange(len(index))[group].tolist() for group in split_repeats(torch.tensor(index, dtype=torch.int64))
    ]
    positions = [position for group in groups for position in group]
    assert sorted(positions) == list(range(len(index)))
    for sample in set(index):
        expected = [position for position, other in enumerate(index) if other == sample]
        assert [position for position in positions if index[position] == sample] == expected
    for group in groups:
        samples = [index[position] for position in group]
        assert 0 < len(samples) == len(set(samples))
        assert group == sorted(group)
