"""Counter-based random numbers."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from permll.data.transforms.counter_rng import fold_in, normal, randint, uniform, visit_keys

GOLDEN, MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1


def splitmix(value: int) -> int:
    """Return one output of splitmix64, with Python integers."""
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & MASK
    return value ^ (value >> 31)


@given(key=st.integers(-(1 << 63), (1 << 63) - 1))
def test_uniform_equals_splitmix64(key: int) -> None:
    drawn = uniform(torch.tensor([key]), 5)[0].tolist()
    slow = [(splitmix((key + (i + 1) * GOLDEN) & MASK) >> 40) / 2**24 for i in range(5)]
    assert drawn == slow
    assert all(0 <= value < 1 for value in drawn)


@given(
    seed=st.integers(0, 1 << 40),
    epoch=st.integers(0, 1 << 20),
    positions=st.lists(st.integers(0, 1 << 40), min_size=1, max_size=9),
    view=st.text(max_size=5),
)
def test_visit_keys_do_not_depend_on_batch(seed: int, epoch: int, positions: list[int], view: str) -> None:
    batch = visit_keys(seed, epoch, view, torch.tensor(positions))
    single = [visit_keys(seed, epoch, view, torch.tensor([position])).item() for position in positions]
    assert batch.tolist() == single


def test_keys_differ_between_visits_and_steps() -> None:
    positions = torch.arange(1000)
    keys = [
        visit_keys(*which, positions) for which in [(0, 0, "a"), (1, 0, "a"), (0, 1, "a"), (0, 0, "b"), (1, 1, "a")]
    ]
    keys += [fold_in(keys[0], 0), fold_in(keys[0], 1), fold_in(fold_in(keys[0], 0), 1)]
    every = torch.cat(keys)
    assert len(every.unique()) == len(every)


@pytest.mark.parametrize("which", ["one key", "many keys"])
def test_uniform_and_normal_distributions(which: str) -> None:
    keys = visit_keys(0, 0, "a", torch.arange(1 if which == "one key" else 20_000))
    count = 20_000 if which == "one key" else 1
    assert stats.kstest(uniform(keys, count).flatten().numpy(), "uniform").pvalue > 0.01
    assert stats.kstest(normal(keys, count).flatten().numpy(), "norm").pvalue > 0.01


def test_neighboring_visits_are_uncorrelated() -> None:
    drawn = uniform(visit_keys(0, 0, "a", torch.arange(20_000)), 2).double()
    across = np.corrcoef(drawn[:-1, 0], drawn[1:, 0])[0, 1], np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1]
    assert max(map(abs, across)) < 0.025  # 3.5 standard deviations


def test_randint_is_uniform() -> None:
    counts = torch.bincount(randint(visit_keys(3, 0, "a", torch.arange(9_000)), 9), minlength=9)
    assert len(counts) == 9
    assert stats.chisquare(counts.numpy()).pvalue > 0.01
