"""Digits, MNIST and Fashion-MNIST: the sets of grey images, and the idx format."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from permll.data.datasets.idx import read_idx
from permll.data.datasets.mnist import DEBIAN
from permll.data.inputs import Images
from permll.data.registry import find
from tests.helpers.dataset_files import cut, write_idx


def pixels(data) -> torch.Tensor:
    assert isinstance(data.inputs, Images)
    return data.inputs.pixels


def test_digits_are_scikit_learns_in_two_stratified_parts(tmp_path: Path) -> None:
    train, test = (find("digits").load(tmp_path, split) for split in ("train", "test"))
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
    share = test.counts / (train.counts + test.counts)
    assert (share - 450 / 1797).abs().max() < 0.005
    assert find("digits").load(tmp_path, "test").ids == test.ids


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
def test_idx_files_are_read_wherever_people_keep_them(name: str, folder: str, ending: str, tmp_path: Path) -> None:
    images, labels = make_mnist(tmp_path / folder, ending)
    train, test = (find(name).load(tmp_path, split) for split in ("train", "test"))
    assert (pixels(train).numpy()[:, 0] == images[:15]).all()
    assert (pixels(test).numpy()[:, 0] == images[15:]).all()
    assert train.labels.tolist() == labels[:15].tolist()
    assert test.ids == ("test/00000", "test/00001", "test/00002", "test/00003", "test/00004")
    assert train.classes[:2] == (("0", "1") if name == "mnist" else ("T-shirt/top", "Trouser"))
    assert train.metadata["source"] == str(tmp_path / folder)


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("keep", [0.0, 0.0002, 0.5, 0.999])
def test_a_truncated_idx_file_is_one_sentence(keep: float, ending: str, tmp_path: Path) -> None:
    make_mnist(tmp_path / "mnist", ending)
    path = tmp_path / "mnist" / f"train-images-idx3-ubyte{ending}"
    cut(path, keep)
    with pytest.raises(ValueError, match=r"is truncated|is no idx file of bytes") as caught:
        find("mnist").load(tmp_path, "train")
    assert str(path) in str(caught.value)
    assert "get it again" in str(caught.value)


def test_the_sizes_of_a_truncated_idx_file_are_named(tmp_path: Path) -> None:
    write_idx(tmp_path / "labels", np.zeros(100, np.uint8))
    cut(tmp_path / "labels", 0.5)
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
def test_what_is_no_idx_file_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ValueError, match=r"is no idx file of bytes|is truncated in its header"):
        read_idx(tmp_path / "file")


def test_labels_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    make_mnist(tmp_path / "mnist")
    path = tmp_path / "mnist" / "train-labels-idx1-ubyte"
    write_idx(path, np.arange(14, dtype=np.uint8))
    with pytest.raises(ValueError, match=r"do not fit, shapes \(15, 28, 28\) and \(14,\)"):
        find("mnist").load(tmp_path, "train")
    write_idx(path, np.full(15, 10, np.uint8))
    with pytest.raises(ValueError, match=r"labels lie outside 0\.\.9 in 15 records \(0, 1, "):
        find("mnist").load(tmp_path, "train")


def test_a_missing_labels_file_is_named(tmp_path: Path) -> None:
    make_mnist(tmp_path / "mnist")
    (tmp_path / "mnist" / "train-labels-idx1-ubyte").unlink()
    with pytest.raises(FileNotFoundError, match=r"is incomplete, 1 file \(train-labels-idx1-ubyte\) missing: get it"):
        find("mnist").load(tmp_path, "train")
    assert len(find("mnist").load(tmp_path, "test")) == 5


@pytest.mark.skipif(not DEBIAN.is_dir(), reason="Debian's package dataset-fashion-mnist is not installed")
def test_the_real_fashion_mnist(tmp_path: Path) -> None:
    train, test = (find("fashion_mnist").load(tmp_path, split) for split in ("train", "test"))
    assert train.counts.tolist() == [6000] * 10
    assert test.counts.tolist() == [1000] * 10
    assert [train.classes[label] for label in train.labels[:3].tolist()] == ["Ankle boot", "T-shirt/top", "T-shirt/top"]
    counts = np.bincount(pixels(train).numpy().ravel(), minlength=256) / (60_000 * 784)
    values = np.arange(256) / 255
    mean = float(counts @ values)
    assert round(mean, 4) == 0.2860
    assert round(float(np.sqrt(counts @ (values - mean) ** 2)), 4) == 0.3530
