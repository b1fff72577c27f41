"""Hugging Face datasets."""

import io
import json
import pickle

import datasets
import numpy as np
import pytest
import torch
from datasets import Array2D, ClassLabel, Dataset, DatasetDict, Features, Value, concatenate_datasets
from PIL import Image

from permll.data import Images, LazyImages, Table, Texts, Vectors
from permll.data.readers import read

STARS = ClassLabel(names=["1", "2", "10"])  # names that are digits, but not indices


def image_dataset(count: int = 4, size: int = 8, **extra: list) -> Dataset:
    """Return images of one color, labeled 0, 2, 0, 2, ..."""
    images = [Image.new("RGB", (size, size), (20 * k, 0, 0)) for k in range(count)]
    columns = {"image": images, "stars": [2 * (k % 2) for k in range(count)], **extra}
    features = {"image": datasets.Image(), "stars": STARS, **{name: Value("string") for name in extra}}
    return Dataset.from_dict(columns, features=Features(features))


def test_huggingface_images_and_class_names() -> None:
    data = read(image_dataset(), rare="keep")
    assert data.classes == ("1", "2", "10")
    assert data.labels.tolist() == [0, 2, 0, 2]
    assert isinstance(data.inputs, Images)
    assert data.inputs.pixels[:, 0, 0, 0].tolist() == [0, 20, 40, 60]
    assert (data.metadata["kind"], data.metadata["label"]) == ("images", "stars")
    json.dumps(data.metadata)
    assert read(image_dataset(), rare="drop").classes == ("1", "10")


def test_huggingface_images_are_opened_in_workers() -> None:
    data = read(image_dataset(size=80, key=["d", "c", "b", "a"]).with_format("torch"), id="key", rare="drop")
    assert isinstance(data.inputs, LazyImages)
    assert data.ids == ("d", "c", "b", "a")
    sent = pickle.loads(pickle.dumps(data.inputs)).resize(16)
    assert sent.batch(torch.tensor([3, 1]))[:, 0, 0, 0].tolist() == [60, 20]
    assert read(image_dataset(size=80), image_size=16, rare="drop").inputs.pixels.shape == (4, 3, 16, 16)


def test_huggingface_images_without_decoding() -> None:
    raw = image_dataset().cast_column("image", datasets.Image(decode=False))
    assert read(raw, rare="drop").inputs.pixels[:, 0, 0, 0].tolist() == [0, 20, 40, 60]


def test_huggingface_names_damaged_images() -> None:
    file = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (90, 90, 3), dtype=np.uint8)
    Image.fromarray(noise).save(file, "JPEG")
    valid, truncated = {"bytes": file.getvalue(), "path": None}, {"bytes": file.getvalue()[:2000], "path": None}
    features = Features({"image": datasets.Image(), "label": Value("int64")})
    mixed = Dataset.from_dict(
        {"image": [valid, truncated, valid, None, valid, valid], "label": [0, 1, 0, 1, 1, 1]}, features
    )
    with pytest.raises(ValueError, match=r"2 images \(1: damaged, 3: not an image\) cannot be read: .*skip_unreadable"):
        read(mixed)
    assert read(mixed, skip_unreadable=True).ids == ("0", "2", "4", "5")


def test_huggingface_texts() -> None:
    sentences = ["a good day", "a bad day", "good", "bad"]
    columns = {"sentences": sentences, "label": [1, 0, 1, 0]}
    features = Features({"sentences": Value("string"), "label": ClassLabel(names=["neg", "pos"])})
    data = read(Dataset.from_dict(columns, features), text="sentences")
    assert isinstance(data.inputs, Texts)
    assert data.inputs.texts == tuple(sentences)
    assert (data.classes, data.labels.tolist()) == (("neg", "pos"), [1, 0, 1, 0])
    part = read(Dataset.from_dict(columns, features).select([3, 1, 0, 2]), text="sentences")
    assert part.inputs.texts == ("bad", "a bad day", "a good day", "good")


def test_huggingface_table() -> None:
    columns = {"size": [1.5, None, 2.0, 3.0], "color": [0, 1, 1, 0], "y": [True, False, True, False]}
    colors = ClassLabel(names=["red", "blue"])
    data = read(Dataset.from_dict(columns, Features({"size": Value("float32"), "color": colors, "y": Value("bool")})))
    assert isinstance(data.inputs, Table)
    np.testing.assert_array_equal(data.inputs.columns["size"], [1.5, np.nan, 2, 3])
    assert data.inputs.columns["color"].tolist() == ["red", "blue", "blue", "red"]
    assert data.classes == ("False", "True")


@pytest.mark.parametrize("kind", ["list", "array"])
def test_huggingface_vectors(kind: str) -> None:
    rows = [[[1.0, 2.0]], [[3.0, 4.0]], [[5.0, 6.0]], [[7.0, 8.0]]]
    if kind == "array":
        features = Features({"v": Array2D((1, 2), "float32"), "label": Value("string")})
        dataset = Dataset.from_dict({"v": rows, "label": ["a", "b", "a", "b"]}, features)
    else:
        dataset = Dataset.from_dict({"v": [row[0] for row in rows], "label": ["a", "b", "a", "b"]})
    data = read(dataset)
    assert isinstance(data.inputs, Vectors)
    assert data.inputs.values.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]


def test_huggingface_class_label_minus_one() -> None:
    hidden = Dataset.from_dict({"x": [1.0, 5.0, 2.0, 7.0, 1.0], "stars": [0, -1, 1, 1, 0]}).cast_column("stars", STARS)
    with pytest.raises(ValueError, match=r"labels are -1 in 1 row \(1\): pass no_label=-1"):
        read(hidden)
    assert read(hidden, no_label=-1, rare="drop").ids == ("0", "2", "3", "4")


RAGGED = Dataset.from_dict({"v": [[1.0], [2.0, 3.0]], "label": [0, 1]})
PLAIN = Dataset.from_dict({"x": [1.0, 2.0, 5.0], "label": [0, 1, 0]})


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (
            lambda: DatasetDict(train=PLAIN, test=PLAIN),
            {},
            r"the DatasetDict has 2 splits \(train, test\): pass one",
        ),
        (PLAIN.to_iterable_dataset, {}, r"an IterableDataset has no positions: load it as a Dataset"),
        (
            lambda: PLAIN,
            {"label": "lable"},
            r"no column 'lable', did you mean label\? It has 2 columns \(x: Value, label",
        ),
        (
            lambda: PLAIN.remove_columns("label"),
            {},
            r"has 1 column \(x: Value\): choose the labels with label=",
        ),
        (lambda: PLAIN, {"image": "x"}, r"column 'x' holds Value, not images"),
        (lambda: RAGGED, {}, r"column 'v' has rows of different lengths"),
        (
            lambda: concatenate_datasets([RAGGED, RAGGED]).add_column("x", [1, 2, 1, 2]),
            {},
            r"column 'v' holds List\(Float64\), neither numbers nor categories",
        ),
        (lambda: PLAIN.select([]), {}, r"has no rows"),
    ],
)
def test_huggingface_rejects_unsupported_datasets(make, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read(make(), **options)
    assert "\n" not in str(caught.value)


def test_huggingface_two_image_columns_need_option() -> None:
    two = Dataset.from_dict({"a": image_dataset()["image"], "b": image_dataset()["image"], "label": [0, 1, 0, 1]})
    with pytest.raises(ValueError, match=r"2 image columns \(a, b\): choose one with image="):
        read(two)
    assert len(read(two, image="b")) == 4
