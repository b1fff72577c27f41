"""PyTorch datasets: where labels come from, what the items are, and which positions they have."""

import json
import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import ConcatDataset, Dataset, IterableDataset, Subset, TensorDataset, random_split

from permll.data import Images, Items, LazyImages, Texts, Vectors
from permll.data.readers import read


class Pictures(Dataset):
    """As torchvision's: PIL images, a list of targets, class names; counts how often an item is asked for."""

    def __init__(self, count: int = 6, size: int = 8, target_transform=None) -> None:
        self.targets = [k % 3 for k in range(count)]
        self.classes = ["1", "10", "2"]  # folder names in order: digits, but not their own places
        self.size, self.target_transform, self.asked = size, target_transform, 0

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, k: int):
        self.asked += 1
        target = self.targets[k]
        image = Image.new("RGB", (self.size, self.size), (20 * k, 0, 0))
        return image, target if self.target_transform is None else self.target_transform(target)


class Listed(Dataset):
    """Any list of items, and other attributes by keyword."""

    def __init__(self, items: list, **attributes: object) -> None:
        self.items = items
        vars(self).update(attributes)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, k: int):
        item = self.items[k]
        if isinstance(item, Exception):
            raise item
        return item


def test_small_images_with_targets() -> None:
    data = read(Pictures())
    assert isinstance(data.inputs, Images)
    assert data.inputs.pixels[:, 0, 0, 0].tolist() == [0, 20, 40, 60, 80, 100]
    assert data.classes == ("1", "10", "2")
    assert data.labels.tolist() == [0, 1, 2, 0, 1, 2]
    assert data.metadata["label"] == "the dataset's own list"
    json.dumps(data.metadata)


def test_large_images_stay_in_dataset() -> None:
    dataset = Pictures(size=80)
    data = read(dataset, check=False)
    assert dataset.asked == 2  # one to see what it is, one to see how large
    assert isinstance(data.inputs, LazyImages)
    sent = pickle.loads(pickle.dumps(data.inputs)).resize(8)
    assert sent.batch(torch.tensor([4, 0]))[:, 0, 0, 0].tolist() == [80, 0]
    read(dataset)
    assert dataset.asked >= 8


def test_target_transform_is_applied() -> None:
    data = read(Pictures(target_transform=lambda target: (0, 2, 1)[target]))  # the first item does not show it
    assert data.labels.tolist() == [0, 2, 1, 0, 2, 1]
    assert data.metadata["label"] == "each item's"


def test_targets_that_disagree_with_items_are_ignored() -> None:
    dataset = Listed([(torch.zeros(2), k % 2) for k in range(4)], targets=[1, 0, 1, 0])
    assert read(dataset).labels.tolist() == [0, 1, 0, 1]


def test_subset_keeps_positions_of_underlying_dataset() -> None:
    data = read(Subset(Pictures(12), [7, 2, 4, 11, 8, 1]), rare="keep")
    assert data.ids == ("7", "2", "4", "11", "8", "1")
    assert data.labels.tolist() == [1, 2, 1, 2, 2, 1]
    assert data.inputs.pixels[:, 0, 0, 0].tolist() == [140, 40, 80, 220, 160, 20]
    inner = read(Subset(Subset(Pictures(12), [7, 2, 4, 11, 8, 1]), [5, 4, 3, 2]), rare="drop")
    assert inner.ids == ("1", "8", "11", "4")
    part, _ = random_split(Pictures(12), [9, 3], torch.Generator().manual_seed(0))
    assert read(part, rare="keep").ids == tuple(map(str, part.indices))


def test_tensors_become_items() -> None:
    items = [(torch.full((3, 4, 4), float(k)), torch.tensor(k % 2)) for k in range(4)]
    data = read(Listed(items))
    assert isinstance(data.inputs, Items)
    assert data.inputs.batch(torch.tensor([2, 1]))[:, 0, 0, 0].tolist() == [2, 1]
    assert data.metadata["label"] == "each item's"
    arrays = read(Listed([(np.full(3, k), "ab"[k % 2]) for k in range(4)]))
    assert arrays.classes == ("a", "b")
    assert arrays.inputs.batch(torch.tensor([3])).tolist() == [[3, 3, 3]]


def test_tensor_dataset_becomes_arrays() -> None:
    y = torch.tensor([0, 1, 0, 1])
    vectors = read(TensorDataset(torch.arange(8.0).reshape(4, 2), y))
    assert isinstance(vectors.inputs, Vectors)
    assert read(
        Subset(TensorDataset(torch.arange(8.0).reshape(4, 2), y), [3, 0]), rare="keep"
    ).inputs.values.tolist() == [
        [6, 7],
        [0, 1],
    ]
    assert isinstance(read(TensorDataset(torch.zeros(4, 3, 5, 5, dtype=torch.uint8), y)).inputs, Images)
    assert isinstance(read(TensorDataset(torch.zeros(4, 7, 5, 5), y)).inputs, Items)


def test_dict_text_and_bare_items() -> None:
    data = read(Listed([{"image": torch.zeros(2), "target": k % 2} for k in range(4)]))
    assert data.inputs.key == "image"
    chosen = read(
        Listed([{"a": torch.zeros(2), "b": torch.ones(3), "kind": k % 2, "label": 7} for k in range(4)]),
        features="b",
        label="kind",
    )
    assert chosen.labels.tolist() == [0, 1, 0, 1]
    assert chosen.inputs.batch(torch.tensor([0])).tolist() == [[1, 1, 1]]
    texts = read(Listed([("some text", 0), ("more text", 1)]), rare="keep")
    assert isinstance(texts.inputs, Texts)
    assert texts.inputs.texts == ("some text", "more text")
    bare = read(Listed([torch.full((2,), float(k)) for k in range(4)], labels=["x", "y", "x", "y"]))
    assert bare.inputs.batch(torch.tensor([3])).tolist() == [[3, 3]]
    given = read(Listed([torch.zeros(2)] * 4), labels=["x", "y", "x", "y"], ids=list("abcd"))
    assert (given.ids, given.classes) == (("a", "b", "c", "d"), ("x", "y"))


def test_duck_typed_dataset() -> None:
    class Plain:
        def __len__(self) -> int:
            return 4

        def __getitem__(self, k: int):
            return torch.full((2,), float(k)), k % 2

    assert read(Plain()).labels.tolist() == [0, 1, 0, 1]
    joined = ConcatDataset([Listed([(torch.zeros(2), 0)] * 2), Listed([(torch.ones(2), 1)] * 2)])
    assert read(joined).labels.tolist() == [0, 0, 1, 1]


def test_unreadable_items_are_named_or_left_out() -> None:
    items: list = [(torch.zeros(2), k % 2) for k in range(6)]
    items[2] = OSError("disk on fire")
    with pytest.raises(ValueError, match=r"1 item \(2: disk on fire\) cannot be read: .*skip_unreadable=True"):
        read(Listed(items))
    data = read(Listed(items), skip_unreadable=True)
    assert data.ids == ("0", "1", "3", "4", "5")
    assert data.metadata["left_out"][0]["why"] == "cannot be read"


class Stream(IterableDataset):
    def __iter__(self):
        return iter([(torch.zeros(2), 0)])


@pytest.mark.parametrize(
    ("make", "asked", "message"),
    [
        (Stream, {}, r"an IterableDataset has no rows to name"),
        (lambda: Listed([]), {}, r"the Listed is empty"),
        (lambda: Listed([torch.zeros(2)] * 4), {}, r"the items of Listed hold no label: give labels="),
        (
            lambda: Listed([(torch.zeros(2), torch.zeros(3))] * 4),
            {},
            r"label of item 0 is not one value but of shape \(3,\)",
        ),
        (lambda: Listed([({1, 2}, 0), ({3}, 1)]), {}, r"must be PIL images, tensors, arrays or texts, got set"),
        (lambda: Listed([{"a": 1, "b": 2}] * 4), {}, r"dicts with 2 keys \(a, b\): say which is the input"),
        (lambda: Listed([(torch.zeros(2), 0)] * 4), {"label": "y"}, r"items of this dataset have no names"),
        (lambda: Listed([(torch.zeros(2), 0)] * 4), {"id": "y"}, r"id= has no meaning for a PyTorch dataset"),
        (lambda: Listed([(torch.zeros(2), 0)] * 4), {"labels": [0, 1]}, r"there are 4 items, 2 labels and 4 ids"),
        (lambda: Subset(Pictures(), [0, 1, 0]), {}, r"more than once: 1 id \(0 in items 0 and 2\)"),
        (lambda: Listed([(torch.zeros(2), None)] * 4), {}, r"labels are missing in 4 items"),
        (lambda: Listed([(torch.zeros(2), k) for k in (0, "a", 1)]), {}, r"mix text and numbers: text in 1 item \(1\)"),
    ],
)
def test_torch_reader_rejects_unsupported_datasets(make, asked: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read(make(), **asked)
    assert "\n" not in str(caught.value)
