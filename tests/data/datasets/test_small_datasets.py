"""Digits, MNIST and Fashion-MNIST, and the idx format."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from permll.data.datasets.mnist import DEBIAN_FOLDER, read_idx
from permll.data.inputs import Images
from permll.data.registry import find_dataset
from tests.helpers.dataset_files import truncate, write_idx


def pixels(data) -> torch.Tensor:
    assert isinstance(data.inputs, Images)
    return data.inputs.pixels


def test_digits_splits_are_stratified(tmp_path: Path) -> None:
    train, test = (find_dataset("digits").load(tmp_path, split) for split in ("train", "test"))
    assert (len(train), len(test)) == (1347, 450)
    values, labels = load_digits(return_X_y=True)
    assert not set(train.ids) & set(test.ids)
    for data in (train, test):
        rows = [int(name) for name in data.ids]
        assert rows == sorted(rows)
        assert data.labels.tolist() == labels[rows].tolist()
        gray = pixels(data)
        assert gray.shape[1:] == (1, 8, 8)
        assert (gray.numpy().reshape(-1, 64) == np.round(values[rows] * 255 / 16)).all()
        assert gray.max() == 255
    fractions = test.class_counts / (train.class_counts + test.class_counts)
    assert (fractions - 450 / 1797).abs().max() < 0.005
    assert find_dataset("digits").load(tmp_path, "test").ids == test.ids


def make_mnist(folder: Path, ending: str = "") -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    images, labels = random.integers(0, 256, (20, 28, 28), dtype=np.uint8), np.arange(20, dtype=np.uint8) % 10
    for stem, rows in (("train", slice(0, 15)), ("t10k", slice(15, 20))):
        write_idx(folder / f"{stem}-images-idx3-ubyte{ending}", images[rows])
        write_idx(folder / f"{stem}-labels-idx1-ubyte{ending}", labels[rows])
    return images, labels


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("mnist", "mnist"),
        ("mnist", "MNIST/raw"),
        ("fashion_mnist", "fashion_mnist"),
        ("fashion_mnist", "FashionMNIST/raw"),
        ("fashion_mnist", "fashion-mnist"),
    ],
)
def test_idx_files_are_found_in_usual_folders(name: str, folder: str, ending: str, tmp_path: Path) -> None:
    images, labels = make_mnist(tmp_path / folder, ending)
    train, test = (find_dataset(name).load(tmp_path, split) for split in ("train", "test"))
    assert (pixels(train).numpy()[:, 0] == images[:15]).all()
    assert (pixels(test).numpy()[:, 0] == images[15:]).all()
    assert train.labels.tolist() == labels[:15].tolist()
    assert test.ids == ("test/00000", "test/00001", "test/00002", "test/00003", "test/00004")
    assert train.classes[:2] == (("0", "1") if name == "mnist" else ("T-shirt/top", "Trouser"))
    assert train.metadata["source"] == str(tmp_path / folder)


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("fraction", [0.0, 0.0002, 0.5, 0.999])
def test_truncated_idx_file_raises(fraction: float, ending: str, tmp_path: Path) -> None:
    make_mnist(tmp_path / "mnist", ending)
    path = tmp_path / "mnist" / f"train-images-idx3-ubyte{ending}"
    truncate(path, fraction)
    with pytest.raises(ValueError, match=r"is truncated|is not an idx file of bytes") as caught:
        find_dataset("mnist").load(tmp_path, "train")
    assert str(path) in str(caught.value)
    assert "get it again" in str(caught.value)


def test_truncated_idx_file_error_names_sizes(tmp_path: Path) -> None:
    write_idx(tmp_path / "labels", np.zeros(100, np.uint8))
    truncate(tmp_path / "labels", 0.5)
    with pytest.raises(ValueError, match="its header announces 108 bytes, it has 54; get it again"):
        read_idx(tmp_path / "labels")
    write_idx(tmp_path / "labels", np.zeros(100, np.uint8))
    (tmp_path / "labels").write_bytes((tmp_path / "labels").read_bytes() + b"x")
    with pytest.raises(ValueError, match="its header announces 108 bytes, it has more"):
        read_idx(tmp_path / "labels")


@pytest.mark.parametrize(
    "content",
    [b"", b"\x1f\x8b\x08\0 not unpacked", b"\0\0\x0d\x01\0\0\0\x01....", b"\0\0\x08\x00", b"\0\0\x08\x03\0\0"],
)
def test_other_files_are_not_idx(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ValueError, match=r"is not an idx file of bytes|is truncated in its header"):
        read_idx(tmp_path / "file")


def test_mnist_rejects_invalid_labels(tmp_path: Path) -> None:
    make_mnist(tmp_path / "mnist")
    path = tmp_path / "mnist" / "train-labels-idx1-ubyte"
    write_idx(path, np.arange(14, dtype=np.uint8))
    with pytest.raises(ValueError, match=r"do not match, shapes \(15, 28, 28\) and \(14,\)"):
        find_dataset("mnist").load(tmp_path, "train")
    write_idx(path, np.full(15, 10, np.uint8))
    with pytest.raises(ValueError, match=r"labels must be in 0\.\.9, but 15 records \(0, 1, .* are not: get it with"):
        find_dataset("mnist").load(tmp_path, "train")


def test_missing_idx_labels_are_named(tmp_path: Path) -> None:
    make_mnist(tmp_path / "mnist")
    (tmp_path / "mnist" / "train-labels-idx1-ubyte").unlink()
    with pytest.raises(FileNotFoundError, match=r"is incomplete, 1 file \(train-labels-idx1-ubyte\) missing: get it"):
        find_dataset("mnist").load(tmp_path, "train")
    assert len(find_dataset("mnist").load(tmp_path, "test")) == 5


@pytest.mark.skipif(not DEBIAN_FOLDER.is_dir(), reason="Debian's package dataset-fashion-mnist is not installed")
@pytest.mark.slow
def test_real_fashion_mnist(tmp_path: Path) -> None:
    train, test = (find_dataset("fashion_mnist").load(tmp_path, split) for split in ("train", "test"))
    assert train.class_counts.tolist() == [6000] * 10
    assert test.class_counts.tolist() == [1000] * 10
    assert [train.classes[label] for label in train.labels[:3].tolist()] == ["Ankle boot", "T-shirt/top", "T-shirt/top"]
    counts = np.bincount(pixels(train).numpy().ravel(), minlength=256) / (60_000 * 784)
    values = np.arange(256) / 255
    mean = float(counts @ values)
    assert round(mean, 4) == 0.2860
    assert round(float(np.sqrt(counts @ (values - mean) ** 2)), 4) == 0.3530
