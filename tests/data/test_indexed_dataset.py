"""``IndexedDataset``: samples with their index."""

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import permll


def test_indexed_dataset_survives_shuffling() -> None:
    x, y = torch.arange(20.0)[:, None], torch.arange(20) % 3
    loader = DataLoader(permll.IndexedDataset(TensorDataset(x, y)), batch_size=6, shuffle=True)
    seen = []
    for values, labels, index in loader:
        assert torch.equal(values, x[index])
        assert torch.equal(labels, y[index])
        seen += index.tolist()
    assert sorted(seen) == list(range(20))


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [([(5, 1)], (5, 1, 0)), ([[5, 1]], (5, 1, 0)), ([{"x": 5}], {"x": 5, "index": 0}), ([5], (5, 0))],
)
def test_indexed_dataset_takes_any_sample(dataset: list[object], expected: object) -> None:
    assert permll.IndexedDataset(dataset)[0] == permll.IndexedDataset(dataset)[-1] == expected


def test_indexed_dataset_refuses_iterable_dataset() -> None:
    with pytest.raises(TypeError, match="needs a map-style dataset"):
        permll.IndexedDataset(iter([1, 2]))
