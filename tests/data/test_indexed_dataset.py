"""``IndexedDataset``: samples with their index."""

import pickle
from collections import UserDict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset, TensorDataset

import permll


class Sample(NamedTuple):
    x: float
    y: int


SAMPLES = {
    "tuple": lambda i: (float(i), i % 3),
    "list": lambda i: [float(i), i % 3],
    "mapping": lambda i: {"x": float(i), "y": i % 3},
    "user mapping": lambda i: UserDict(x=float(i), y=i % 3),
    "named tuple": lambda i: Sample(float(i), i % 3),
    "tensor": lambda i: torch.tensor([float(i)]),
    "number": float,
}


class Fetching(Dataset[Any]):
    """A dataset that can read a batch at once."""

    def __init__(self, samples: list[Any]) -> None:
        self.samples = samples
        self.batches: list[list[int]] = []

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        return self.samples[index]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        self.batches.append(indices)
        return [self.samples[index] for index in indices]


class Stream(IterableDataset[int]):
    """An iterable dataset that knows its length."""

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


def parts(sample: Any) -> tuple[Any, Any]:
    """Return x and the index of a sample or batch."""
    if isinstance(sample, dict):
        return sample["x"], sample["index"]
    return sample[0], sample[-1]


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
    [
        ([(5, 1)], (5, 1, 0)),
        ([[5, 1]], (5, 1, 0)),
        ([{"x": 5}], {"x": 5, "index": 0}),
        ([5], (5, 0)),
        ([()], (0,)),
        ([{}], {"index": 0}),
        ([None], (None, 0)),
        (["é"], ("é", 0)),
    ],
)
def test_indexed_dataset_takes_any_sample(dataset: list[object], expected: object) -> None:
    indexed = permll.IndexedDataset(dataset)
    assert indexed[0] == indexed[-1] == indexed[np.int64(0)] == indexed[torch.tensor(0)] == expected
    assert indexed.__getitems__([0, -1]) == [expected, expected]


@pytest.mark.parametrize("kind", SAMPLES)
@given(data=st.data(), length=st.integers(1, 12))
@settings(max_examples=25, deadline=None)
def test_index_is_the_position_of_every_sample(kind: str, data: st.DataObject, length: int) -> None:
    samples = [SAMPLES[kind](i) for i in range(length)]
    fetches = data.draw(st.booleans())
    indexed = permll.IndexedDataset(Fetching(samples) if fetches else samples)
    chosen = data.draw(st.lists(st.integers(-length, length - 1), min_size=1, max_size=10))
    expected = [i % length for i in chosen]
    assert [parts(indexed[i]) for i in chosen] == [(float(i), i) for i in expected]
    assert [parts(sample) for sample in indexed.__getitems__(chosen)] == [(float(i), i) for i in expected]
    for dataset in (Subset(indexed, chosen), ConcatDataset([Subset(indexed, chosen[:1]), Subset(indexed, chosen[1:])])):
        batches = [parts(batch) for batch in DataLoader(dataset, batch_size=4)]
        assert torch.cat([index for _, index in batches]).tolist() == expected
        assert torch.cat([x.flatten() for x, _ in batches]).tolist() == list(map(float, expected))
    if fetches:
        assert indexed.dataset.batches[0] == expected


def test_batch_is_read_in_one_call() -> None:
    dataset = Fetching([(float(i), 0) for i in range(10)])
    list(DataLoader(permll.IndexedDataset(dataset), batch_size=4))
    assert dataset.batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_named_tuple_keeps_its_names_also_from_worker_processes() -> None:
    indexed = permll.IndexedDataset([Sample(float(i), i % 3) for i in range(4)])
    assert (indexed[3].x, indexed[3].y, indexed[3].index) == (3.0, 0, 3)
    assert pickle.loads(pickle.dumps(indexed[3]))._asdict() == {"x": 3.0, "y": 0, "index": 3}
    (batch,) = DataLoader(indexed, batch_size=4, num_workers=1)
    assert batch.index.tolist() == [0, 1, 2, 3]
    assert batch.y.tolist() == [0, 1, 2, 0]


def test_items_of_a_hugging_face_dataset_get_an_index() -> None:
    datasets = pytest.importorskip("datasets")
    dataset = datasets.Dataset.from_dict({"x": [0.5, 1.5, 2.5], "label": [0, 1, 0]}).with_format("torch")
    indexed = permll.IndexedDataset(dataset)
    assert indexed[-1] == {"x": 2.5, "label": 0, "index": 2}
    batches = list(DataLoader(Subset(indexed, [2, 0, 1]), batch_size=2))
    assert [batch["index"].tolist() for batch in batches] == [[2, 0], [1]]
    assert [batch["x"].tolist() for batch in batches] == [[2.5, 0.5], [1.5]]
    with pytest.raises(TypeError, match="needs a map-style dataset"):
        permll.IndexedDataset(dataset.to_iterable_dataset())


@pytest.mark.parametrize("dataset", [iter([1, 2]), Stream(), Dataset(), None, {1, 2}])
def test_indexed_dataset_refuses_iterable_dataset(dataset: object) -> None:
    with pytest.raises(TypeError, match="needs a map-style dataset, with a length; got"):
        permll.IndexedDataset(dataset)


@pytest.mark.parametrize("kind", ["mapping", "user mapping", "named tuple"])
def test_second_index_is_refused(kind: str) -> None:
    indexed = permll.IndexedDataset([SAMPLES[kind](0)])
    with pytest.raises(ValueError, match='the samples have an "index" already: rename it in the dataset'):
        permll.IndexedDataset(indexed)[0]


@pytest.mark.parametrize("index", [3, -4])
def test_position_outside_the_dataset_is_refused(index: int) -> None:
    indexed = permll.IndexedDataset([1, 2, 3])
    with pytest.raises(IndexError, match=f"index {index} lies outside the 3 samples"):
        indexed[index]
    with pytest.raises(IndexError, match="lies outside the 3 samples"):
        indexed.__getitems__([0, index])
    assert [x for x, _ in indexed] == [1, 2, 3]


def test_slice_and_empty_dataset() -> None:
    with pytest.raises(TypeError, match="slice"):
        permll.IndexedDataset([1, 2, 3])[0:2]  # type: ignore[index]
    assert len(permll.IndexedDataset([])) == 0
    assert list(DataLoader(permll.IndexedDataset([]))) == []
