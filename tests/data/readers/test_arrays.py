"""Arrays in files and in memory."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_tensors

from permll.data import Images, LazyImages, Texts, Vectors
from permll.data.readers import read
from tests.helpers.reader_files import truncate, write

Y = np.array([0, 1, 0, 1])
X = np.arange(8, dtype=np.float32).reshape(4, 2)


def npz(folder: Path, **arrays: np.ndarray) -> Path:
    """Write named arrays."""
    path = folder / "data.npz"
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize("features", ["x", "X", "features", "data", "embeddings"])
@pytest.mark.parametrize("label", ["y", "labels", "label", "targets"])
def test_default_array_names(features: str, label: str, tmp_path: Path) -> None:
    data = read(npz(tmp_path, **{features: X, label: Y, "other": np.zeros(3)}))
    assert isinstance(data.inputs, Vectors)
    assert torch.equal(data.inputs.values, torch.from_numpy(X))
    assert data.labels.tolist() == [0, 1, 0, 1]
    assert data.ids == ("0", "1", "2", "3")
    assert (data.metadata["features"], data.metadata["label"], data.metadata["kind"]) == (features, label, "vectors")
    json.dumps(data.metadata)


def test_all_array_sources_give_same_data(tmp_path: Path) -> None:
    save_file({"x": X, "y": Y}, tmp_path / "a.safetensors")
    save_tensors({"x": torch.from_numpy(X).bfloat16(), "y": torch.from_numpy(Y)}, tmp_path / "b.safetensors")
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    sources = [
        (npz(tmp_path, x=X, y=Y), {}),
        (tmp_path / "a.safetensors", {}),
        (str(tmp_path / "b.safetensors"), {}),
        (tmp_path / "x.npy", {"labels": Y}),
        (tmp_path / "x.npy", {"labels": str(tmp_path / "y.npy")}),
        (X, {"labels": Y.tolist()}),
        (X.tolist(), {"labels": torch.from_numpy(Y)}),
        (torch.from_numpy(X).requires_grad_(), {"labels": Y}),
        (list(torch.from_numpy(X)), {"labels": Y}),
        ({"x": X, "y": Y}, {}),
    ]
    for source, options in sources:
        data = read(source, **options)
        assert torch.equal(data.inputs.values, torch.from_numpy(X)), source
        assert data.labels.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("shape", "channels_first"),
    [
        ((4, 5, 6), (4, 1, 5, 6)),
        ((4, 5, 6, 1), (4, 1, 5, 6)),
        ((4, 5, 6, 3), (4, 3, 5, 6)),
        ((4, 1, 5, 6), (4, 1, 5, 6)),
        ((4, 3, 5, 6), (4, 3, 5, 6)),
    ],
)
def test_uint8_arrays_become_images(shape: tuple[int, ...], channels_first: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    array.flags.writeable = False
    data = read(array, labels=Y)
    assert isinstance(data.inputs, Images)
    assert data.inputs.pixels.shape == channels_first
    if shape[-1] == 3:
        assert data.inputs.pixels[2, :, 4, 1].tolist() == array[2, 4, 1].tolist()
    else:
        assert (data.inputs.pixels.numpy().ravel() == array.ravel()).all()


@pytest.mark.parametrize("kind", [np.float16, np.float64, ">f4", np.int16, np.uint8, bool])
def test_other_arrays_are_flattened_to_vectors(kind: object) -> None:
    array = np.array([[[0, 1]], [[1, 0]], [[1, 1]], [[0, 0]]], dtype=kind)
    array = array if kind is not np.uint8 else array[:, 0]
    data = read(array, labels=Y)
    assert data.inputs.values.dtype == torch.float32
    assert data.inputs.values.tolist() == [[0, 1], [1, 0], [1, 1], [0, 0]]
    assert read(array[:, 0, 0] if array.ndim == 3 else array[:, 0], labels=Y).inputs.values.shape == (4, 1)


def test_texts_ids_and_class_names_by_name(tmp_path: Path) -> None:
    path = npz(
        tmp_path,
        sentences=np.array(["eins", "zwei", "drei", "vier ü"]),
        weak=np.array([1, -1, 0, 1]),
        names=np.array(["10", "2"]),
        key=np.array(["d", "c", "b", "a"]),
    )
    data = read(path, text="sentences", label="weak", classes="names", id="key", no_label=-1, rare="keep")
    assert isinstance(data.inputs, Texts)
    assert data.inputs.texts == ("eins", "drei", "vier ü")
    assert data.ids == ("d", "b", "a")
    assert [data.classes[label] for label in data.labels.tolist()] == [
        "2",
        "10",
        "2",
    ]  # indices, although the names are digits


def test_string_labels_in_arrays_and_lists(tmp_path: Path) -> None:
    words = ["dog", "cat", "dog", "cat"]
    for labels in (words, np.array(words), np.array(words, dtype="S"), np.array(words, dtype=object)):
        data = read(X, labels=labels)
        assert [data.classes[label] for label in data.labels.tolist()] == words
    data = read(npz(tmp_path, x=X, y=np.array(words), names=np.array(["dog", "cat"])), classes="names")
    assert (data.classes, data.labels.tolist()) == (("dog", "cat"), [0, 1, 0, 1])


def test_list_of_pil_images() -> None:
    images = [Image.new("RGB", (8, 8), (k, 0, 0)) for k in range(4)]
    assert read(images, labels=Y).inputs.pixels[:, 0, 0, 0].tolist() == [0, 1, 2, 3]
    large = [Image.new("RGB", (80 + k, 80), (k, 0, 0)) for k in range(4)]
    data = read(large, labels=Y)
    assert isinstance(data.inputs, LazyImages)
    assert data.inputs.batch(torch.tensor([3]))[0, 0, 0, 0] == 3


def objects(folder: Path) -> Path:
    return npz(folder, x=np.array([print, 1], dtype=object), y=Y)


def object_file(folder: Path) -> Path:
    np.save(folder / "a.npy", np.array([print, 1], dtype=object))
    return folder / "a.npy"


def damaged(folder: Path) -> Path:
    return truncate(npz(folder, x=X, y=Y))


def damaged_tensors(folder: Path) -> Path:
    save_file({"x": X, "y": Y}, folder / "a.safetensors")
    return truncate(folder / "a.safetensors")


def with_nan(kind: type = np.float32) -> np.ndarray:
    array = X.astype(kind)
    array[1, 0], array[3, 1] = np.nan, np.inf
    return array


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (
            lambda f: npz(f, x_train=X, y_train=Y),
            {},
            r"has 2 arrays \(x_train 4 x 2 float32, y_train 4 int64\); none is",
        ),
        (lambda f: npz(f, x=X, X=X, y=Y), {}, r"several could be the features: choose one with features="),
        (lambda f: npz(f, x=X), {}, r"none is named y, labels, label, targets: choose one with label="),
        (lambda f: npz(f, x=X, y=Y), {"features": "xx"}, r"has no array 'xx', did you mean x\? It has 2 arrays"),
        (lambda f: npz(f, x=X, y=Y), {"features": ["x", "y"]}, r"must be read with one feature array"),
        (lambda f: npz(f, x=X, y=Y[:3]), {}, r"got 4 rows, 3 labels and 4 ids"),
        (lambda f: npz(f, x=X, y=np.eye(4)), {}, r"one label per sample, got shape \(4, 4\)"),
        (lambda f: npz(f, x=with_nan(), y=Y), {}, r"x holds NaN or infinity in 2 rows \(1, 3\)"),
        (lambda f: npz(f, x=X.astype(float) * 1e300, y=Y), {}, r"too large for float32 in 4 rows \(0, 1, 2, 3\)"),
        (lambda f: npz(f, x=X[:, :0], y=Y), {}, r"x is empty: its shape is \(4, 0\)"),
        (lambda f: npz(f, x=np.zeros((4, 5, 5, 4), np.uint8), y=Y), {}, r"images of 1 or 3 channels"),
        (lambda f: npz(f, x=X.astype(complex), y=Y), {}, r"x must hold numbers or text, got complex128"),
        (lambda f: npz(f, x=X, y=Y), {"image": "x"}, r"image= is not supported for arrays"),
        (
            lambda f: npz(f, x=X, y=np.array([0, 1, 2, 5])),
            {"classes": ["a", "b"]},
            r"in 0..1, but 2 rows \(2, 3\) are not",
        ),
        (
            lambda f: npz(f, x=X, y=np.array([0, 1, -1, 1])),
            {"classes": ["a", "b"]},
            r"-1 in 1 row \(2\): pass no_label",
        ),
        (objects, {}, r"x in .*data.npz holds Python objects, which can run code"),
        (object_file, {"labels": Y}, r"a.npy holds Python objects, which can run code"),
        (damaged, {}, r"data.npz cannot be read as .npz: "),
        (damaged_tensors, {}, r"a.safetensors cannot be read as .safetensors: "),
        (
            lambda f: write(f / "a.pkl", "x"),
            {},
            r"unsupported file type: .*a.pkl; it can run code when read, so save the arrays as .npz",
        ),
        (lambda f: write(f / "a.xlsx", "x"), {}, r"save the sheet as CSV"),
        (
            lambda f: write(f / "a.odd", "x"),
            {},
            r"unsupported file type: .*a.odd; supported are folders of images, .csv, .tsv, .parquet, .npz",
        ),
        (lambda f: write(f / "a.zip", "x"), {}, r"extract it and pass the folder"),
        (lambda _: X, {}, r"needs labels: give them with labels="),
        (lambda _: X, {"labels": Y, "label": "y"}, r"label= is not supported for a single array or list"),
        (lambda _: X, {"labels": Y[:2]}, r"got 4 rows, 2 labels and 4 ids"),
        (lambda _: X, {"labels": "abab"}, r"labels must be a list, an array or a .npy file, got 'abab'"),
        (lambda _: X, {"labels": Y, "ids": "abcd"}, r"ids must be a list \(one id per sample\), got 'abcd'"),
        (lambda _: X, {"labels": Y, "ids": ["a", "b", "a", "c"]}, r"repeated: 1 id \(a in rows 0 and 2\)"),
        (lambda _: [[1, 2], [3]], {"labels": [0, 1]}, r"rows of different lengths"),
        (lambda _: ["a", 3], {"labels": [0, 1]}, r"mixes text and numbers"),
        (lambda _: [], {"labels": []}, r"the data is empty"),
        (lambda _: with_nan().tolist(), {"labels": Y}, r"the data holds NaN or infinity in 2 rows \(1, 3\)"),
        (lambda _: np.array([["a"]]), {"labels": [0]}, r"one text per sample, got shape \(1, 1\)"),
        (lambda _: 5, {}, r"unsupported type int: pass a path, arrays, a data frame or a dataset"),
    ],
)
def test_array_reader_rejects_invalid_arrays(make, options: dict, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read(make(tmp_path), **options)
    assert "\n" not in str(caught.value)


def test_missing_labels_file_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no such file: .*y.npy"):
        read(X, labels=tmp_path / "y.npy")
