"""PyTorch datasets: labels, items and positions."""

import json
import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import ConcatDataset, Dataset, IterableDataset, Subset, TensorDataset, random_split

from permll.data import Images, Items, LazyImages, Texts, Vectors
from permll.data.readers import read


class ImageDataset(Dataset):
    """Like torchvision's: PIL images, targets and class names; counts item accesses."""

    def __init__(self, count: int = 6, size: int = 8, target_transform=None) -> None:
        self.targets = [k % 3 for k in range(count)]
        self.classes = ["1", "10", "2"]  # folder names that are digits, but not indices
        self.size, self.target_transform, self.accesses = size, target_transform, 0

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, k: int):
        self.accesses += 1
        target = self.targets[k]
        image = Image.new("RGB", (self.size, self.size), (20 * k, 0, 0))
        return image, target if self.target_transform is None else self.target_transform(target)


class ListDataset(Dataset):
    """A list of items, and other attributes by keyword."""

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
    data = read(ImageDataset())
    assert isinstance(data.inputs, Images)
    assert data.inputs.pixels[:, 0, 0, 0].tolist() == [0, 20, 40, 60, 80, 100]
    assert data.classes == ("1", "10", "2")
    assert data.labels.tolist() == [0, 1, 2, 0, 1, 2]
    assert data.metadata["label"] == "the dataset's list of labels"
    json.dumps(data.metadata)


def test_large_images_stay_in_dataset() -> None:
    dataset = ImageDataset(size=80)
    data = read(dataset, check=False)
    assert dataset.accesses == 2  # for the type and for the size
    assert isinstance(data.inputs, LazyImages)
    sent = pickle.loads(pickle.dumps(data.inputs)).resize(8)
    assert sent.batch(torch.tensor([4, 0]))[:, 0, 0, 0].tolist() == [80, 0]
    read(dataset)
    assert dataset.accesses >= 8


def test_target_transform_is_applied() -> None:
    data = read(ImageDataset(target_transform=lambda target: (0, 2, 1)[target]))  # the first item does not change
    assert data.labels.tolist() == [0, 2, 1, 0, 2, 1]
    assert data.metadata["label"] == "the items"


def test_targets_that_disagree_with_items_are_ignored() -> None:
    dataset = ListDataset([(torch.zeros(2), k % 2) for k in range(4)], targets=[1, 0, 1, 0])
    assert read(dataset).labels.tolist() == [0, 1, 0, 1]


def test_subset_keeps_positions_of_underlying_dataset() -> None:
    data = read(Subset(ImageDataset(12), [7, 2, 4, 11, 8, 1]), rare="keep")
    assert data.ids == ("7", "2", "4", "11", "8", "1")
    assert data.labels.tolist() == [1, 2, 1, 2, 2, 1]
    assert data.inputs.pixels[:, 0, 0, 0].tolist() == [140, 40, 80, 220, 160, 20]
    inner = read(Subset(Subset(ImageDataset(12), [7, 2, 4, 11, 8, 1]), [5, 4, 3, 2]), rare="drop")
    assert inner.ids == ("1", "8", "11", "4")
    part, _ = random_split(ImageDataset(12), [9, 3], torch.Generator().manual_seed(0))
    assert read(part, rare="keep").ids == tuple(map(str, part.indices))


def test_tensors_become_items() -> None:
    items = [(torch.full((3, 4, 4), float(k)), torch.tensor(k % 2)) for k in range(4)]
    data = read(ListDataset(items))
    assert isinstance(data.inputs, Items)
    assert data.inputs.batch(torch.tensor([2, 1]))[:, 0, 0, 0].tolist() == [2, 1]
    assert data.metadata["label"] == "the items"
    arrays = read(ListDataset([(np.full(3, k), "ab"[k % 2]) for k in range(4)]))
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
    data = read(ListDataset([{"image": torch.zeros(2), "target": k % 2} for k in range(4)]))
    assert data.inputs.key == "image"
    chosen = read(
        ListDataset([{"a": torch.zeros(2), "b": torch.ones(3), "kind": k % 2, "label": 7} for k in range(4)]),
        features="b",
        label="kind",
    )
    assert chosen.labels.tolist() == [0, 1, 0, 1]
    assert chosen.inputs.batch(torch.tensor([0])).tolist() == [[1, 1, 1]]
    texts = read(ListDataset([("some text", 0), ("more text", 1)]), rare="keep")
    assert isinstance(texts.inputs, Texts)
    assert texts.inputs.texts == ("some text", "more text")
    bare = read(ListDataset([torch.full((2,), float(k)) for k in range(4)], labels=["x", "y", "x", "y"]))
    assert bare.inputs.batch(torch.tensor([3])).tolist() == [[3, 3]]
    given = read(ListDataset([torch.zeros(2)] * 4), labels=["x", "y", "x", "y"], ids=list("abcd"))
    assert (given.ids, given.classes) == (("a", "b", "c", "d"), ("x", "y"))


def test_duck_typed_dataset() -> None:
    class Plain:
        def __len__(self) -> int:
            return 4

        def __getitem__(self, k: int):
            return torch.full((2,), float(k)), k % 2

    assert read(Plain()).labels.tolist() == [0, 1, 0, 1]
    concatenated = ConcatDataset([ListDataset([(torch.zeros(2), 0)] * 2), ListDataset([(torch.ones(2), 1)] * 2)])
    assert read(concatenated).labels.tolist() == [0, 0, 1, 1]


def test_unreadable_items_are_named_or_left_out() -> None:
    items: list = [(torch.zeros(2), k % 2) for k in range(6)]
    items[2] = OSError("read error")
    with pytest.raises(ValueError, match=r"1 item \(2: read error\) cannot be read: .*skip_unreadable=True"):
        read(ListDataset(items))
    data = read(ListDataset(items), skip_unreadable=True)
    assert data.ids == ("0", "1", "3", "4", "5")
    assert data.metadata["left_out"][0]["why"] == "cannot be read"


class Stream(IterableDataset):
    def __iter__(self):
        return iter([(torch.zeros(2), 0)])


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (Stream, {}, r"an IterableDataset has no positions"),
        (lambda: ListDataset([]), {}, r"the ListDataset is empty"),
        (lambda: ListDataset([torch.zeros(2)] * 4), {}, r"the items of ListDataset have no label: give labels="),
        (
            lambda: ListDataset([(torch.zeros(2), torch.zeros(3))] * 4),
            {},
            r"label of item 0 must be one value, got shape \(3,\)",
        ),
        (lambda: ListDataset([({1, 2}, 0), ({3}, 1)]), {}, r"must be PIL images, tensors, arrays or texts, got set"),
        (lambda: ListDataset([{"a": 1, "b": 2}] * 4), {}, r"dicts with 2 keys \(a, b\): choose the input"),
        (lambda: ListDataset([(torch.zeros(2), 0)] * 4), {"label": "y"}, r"only supported for datasets of dicts"),
        (lambda: ListDataset([(torch.zeros(2), 0)] * 4), {"id": "y"}, r"id= is not supported for a PyTorch dataset"),
        (lambda: ListDataset([(torch.zeros(2), 0)] * 4), {"labels": [0, 1]}, r"got 4 items, 2 labels and 4 ids"),
        (lambda: Subset(ImageDataset(), [0, 1, 0, 1]), {"rare": "keep"}, r"repeated: 2 ids \(0 in items 0 and 2"),
        (lambda: ListDataset([(torch.zeros(2), None)] * 4), {}, r"labels are missing in 4 items"),
        (
            lambda: ListDataset([(torch.zeros(2), k) for k in (0, "a", 1)]),
            {},
            r"mix text and numbers: text in 1 item \(1\)",
        ),
    ],
)
def test_torch_reader_rejects_unsupported_datasets(make, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read(make(), **options)
    assert "\n" not in str(caught.value)
