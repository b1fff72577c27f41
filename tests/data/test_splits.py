"""Stratified and recorded splits."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from permll.data import split
from permll.data.splits import stratified_split
from tests.helpers.toy_data import toy


@given(
    sizes=st.lists(st.integers(2, 40), min_size=2, max_size=6),
    fraction=st.floats(0.05, 0.7),
    seed=st.integers(0, 1000),
)
def test_stratified_split_is_proportional(sizes: list[int], fraction: float, seed: int) -> None:
    labels = torch.from_numpy(np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes)))
    count = round(fraction * len(labels))
    if not 0 < count <= len(labels) - len(sizes):
        return
    parts = stratified_split(labels, count, seed)
    assert len(parts.validation) == count
    assert torch.equal(torch.cat([parts.train, parts.validation]).sort().values, torch.arange(len(labels)))
    drawn = torch.bincount(labels[parts.validation], minlength=len(sizes))
    for size, n in zip(sizes, drawn.tolist(), strict=True):
        assert n < size, "every label keeps a training row"
        if size * (1 - count / len(labels)) >= 1:  # no label had to keep its last row
            assert n >= int(size * count / len(labels))


def test_stratified_split_of_paper() -> None:
    labels = torch.arange(50_000) % 10
    parts = stratified_split(labels, 5_000, seed=42)
    assert len(parts.train) == 45_000
    assert torch.bincount(labels[parts.validation]).tolist() == [500] * 10


def test_stratified_split_depends_only_on_seed() -> None:
    labels = toy(200).labels
    np.random.seed(1)
    first = stratified_split(labels, 0.2, 7)
    np.random.seed(2)
    assert torch.equal(first.validation, stratified_split(labels, 0.2, 7).validation)
    assert first.metadata["hash"] == stratified_split(labels, 0.2, 7).metadata["hash"]
    assert first.metadata["hash"] != stratified_split(labels, 0.2, 8).metadata["hash"]


def test_split_keeps_ids_and_records_itself() -> None:
    data = toy(100)
    train, validation = split(data, 0.25, seed=3)
    assert len(train) == 75
    assert set(train.ids) | set(validation.ids) == set(data.ids)
    assert torch.equal(
        validation.inputs.batch(torch.tensor([0])), data.inputs.batch(torch.tensor([data.ids.index(validation.ids[0])]))
    )
    assert validation.metadata["split"] == "validation"
    assert validation.metadata["split_how"]["seed"] == 3


def test_class_with_one_sample_stays_in_training() -> None:
    data = toy(6).relabel([0, 0, 1, 2, 1, 0])
    for seed in range(5):
        train, validation = split(data, 0.5, seed)
        assert sorted(train.labels.tolist()) == [0, 1, 2]
        assert sorted(validation.labels.tolist()) == [0, 0, 1]
    with pytest.raises(ValueError, match="got '10%'"):
        split(toy(60), "10%")  # type: ignore[arg-type]


def test_stratified_split_rejects_invalid_size() -> None:
    with pytest.raises(ValueError, match="must keep a training row"):
        stratified_split(torch.tensor([0, 0, 0, 1]), 3, 0)
    for validation in (4, 0, -1, 1.0, 2.5, 0.01):
        with pytest.raises(ValueError, match="leaves rows on both sides"):
            stratified_split(torch.tensor([0, 0, 1, 1]), validation, 0)
    with pytest.raises(ValueError, match="must keep a training row"):
        stratified_split(torch.tensor([0, 0, 1, 1]), 3, 0)
