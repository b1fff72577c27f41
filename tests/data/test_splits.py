"""Splits: stratified, the same from the same seed, and written down."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from permll.data import split
from permll.data.splits import stratified
from tests.helpers.toy_data import toy


@given(
    sizes=st.lists(st.integers(2, 40), min_size=2, max_size=6),
    share=st.floats(0.05, 0.7),
    seed=st.integers(0, 1000),
)
def test_every_label_gives_its_share(sizes: list[int], share: float, seed: int) -> None:
    labels = torch.from_numpy(np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes)))
    count = round(share * len(labels))
    if not 0 < count <= len(labels) - len(sizes):
        return
    parts = stratified(labels, count, seed)
    assert len(parts.validation) == count
    assert torch.equal(torch.cat([parts.train, parts.validation]).sort().values, torch.arange(len(labels)))
    held = torch.bincount(labels[parts.validation], minlength=len(sizes))
    for size, n in zip(sizes, held.tolist(), strict=True):
        assert n < size, "every label keeps a row to train on"
        if size * (1 - count / len(labels)) >= 1:  # where none had to keep its last row
            assert n >= int(size * count / len(labels))


def test_the_papers_split_holds_500_of_each_of_ten_classes() -> None:
    labels = torch.arange(50_000) % 10
    parts = stratified(labels, 5_000, seed=42)
    assert len(parts.train) == 45_000
    assert torch.bincount(labels[parts.validation]).tolist() == [500] * 10


def test_the_same_seed_gives_the_same_split_whatever_the_global_state() -> None:
    labels = toy(200).labels
    np.random.seed(1)
    first = stratified(labels, 0.2, 7)
    np.random.seed(2)
    assert torch.equal(first.validation, stratified(labels, 0.2, 7).validation)
    assert first.metadata["hash"] == stratified(labels, 0.2, 7).metadata["hash"]
    assert first.metadata["hash"] != stratified(labels, 0.2, 8).metadata["hash"]


def test_a_split_of_data_keeps_ids_and_says_how_it_was_made() -> None:
    data = toy(100)
    train, validation = split(data, 0.25, seed=3)
    assert len(train) == 75
    assert set(train.ids) | set(validation.ids) == set(data.ids)
    assert torch.equal(
        validation.inputs.batch(torch.tensor([0])), data.inputs.batch(torch.tensor([data.ids.index(validation.ids[0])]))
    )
    assert validation.metadata["split"] == "validation"
    assert validation.metadata["split_how"]["seed"] == 3


def test_a_class_with_one_sample_is_trained_on() -> None:
    data = toy(6).relabel([0, 0, 1, 2, 1, 0])
    for seed in range(5):
        train, validation = split(data, 0.5, seed)
        assert sorted(train.labels.tolist()) == [0, 1, 2]
        assert sorted(validation.labels.tolist()) == [0, 0, 1]
    with pytest.raises(ValueError, match="got '10%'"):
        split(toy(60), "10%")  # type: ignore[arg-type]


def test_impossible_splits_are_refused() -> None:
    with pytest.raises(ValueError, match="must keep one row"):
        stratified(torch.tensor([0, 0, 0, 1]), 3, 0)
    for validation in (4, 0, -1, 1.0, 2.5, 0.01):
        with pytest.raises(ValueError, match="leaves some on both sides"):
            stratified(torch.tensor([0, 0, 1, 1]), validation, 0)
    with pytest.raises(ValueError, match="must keep one row"):
        stratified(torch.tensor([0, 0, 1, 1]), 3, 0)
