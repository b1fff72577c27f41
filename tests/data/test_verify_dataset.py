"""Verification of datasets, and decoding of their images."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from permll.data.decoding import FileOpener, decode_images, find_unreadable
from permll.data.inputs import Images, LazyImages
from permll.data.verify_dataset import CheckResult, find_complete, verify_dataset
from tests.helpers.clothing1m_files import CLEAN_KEYS, TRAIN, write_clothing1m
from tests.helpers.dataset_files import truncate, write_jpeg, write_noise_jpeg
from tests.helpers.real_data import real_cifar


@pytest.fixture(scope="session")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return real_cifar(tmp_path_factory)


def failed(results: list[CheckResult]) -> list[tuple[str, str]]:
    return [(result.split, result.check) for result in results if not result.passed]


def lazy(folder: Path, names: list[str]) -> LazyImages:
    return LazyImages(FileOpener(folder, tuple(names)), torch.arange(len(names)))


def test_find_unreadable_finds_all_damaged_images(tmp_path: Path) -> None:
    readable = [f"good{n:03d}.jpg" for n in range(150)]
    for n, name in enumerate(readable):
        write_jpeg(tmp_path / name, (n, n, n))
    for name, mode in (("grey.png", "L"), ("transparent.png", "RGBA"), ("palette.png", "P"), ("print.jpg", "CMYK")):
        Image.new(mode, (9, 7)).save(tmp_path / name)
        readable.append(name)
    broken = []
    for keep in (0.1, 0.5, 0.9, 0.99):
        broken.append(f"cut{keep}.jpg")
        write_noise_jpeg(tmp_path / broken[-1], seed=1)
        truncate(tmp_path / broken[-1], keep)
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)).save(tmp_path / "cut.png")
    truncate(tmp_path / "cut.png", 0.6)
    (tmp_path / "text.jpg").write_text("not an image")
    (tmp_path / "empty.jpg").touch()
    broken += ["cut.png", "text.jpg", "empty.jpg", "missing.jpg"]
    Image.new("F", (9, 7)).save(tmp_path / "floats.tif")
    Image.new("I", (9, 7)).save(tmp_path / "whole.tif")
    names = sorted([*readable, *broken, "floats.tif", "whole.tif"])
    reasons = dict.fromkeys(broken, "damaged") | {
        "text.jpg": "not an image",
        "empty.jpg": "not an image",
        "missing.jpg": "file not found",
        "floats.tif": "unsupported mode F",
        "whole.tif": "unsupported mode I",
    }
    found = find_unreadable(lazy(tmp_path, names), names)
    assert list(found) == sorted(reasons)
    assert found == reasons
    assert find_unreadable(lazy(tmp_path, readable), readable) == {}


def test_decode_images_uses_selected_rows_and_keeps_pixels(tmp_path: Path) -> None:
    names = [f"{n}.jpg" for n in range(6)]
    for n, name in enumerate(names):
        write_jpeg(tmp_path / name, (40 * n, 0, 0), (5, 3))
    truncate(tmp_path / "4.jpg", 0.5)
    images = lazy(tmp_path, names).take(torch.tensor([5, 4, 1]))
    assert find_unreadable(images, ["five", "four", "one"]) == {"four": "damaged"}
    decoded = decode_images(images)
    assert (decoded.errors, decoded.sizes.tolist()) == ({1: "damaged"}, [[3, 5], [0, 0], [3, 5]])
    inputs = decoded.select([0, 2])
    assert isinstance(inputs, Images)
    assert inputs.pixels.shape == (2, 3, 3, 5)
    assert (inputs.pixels[:, 0].float().mean((1, 2)) / 40).round().tolist() == [5, 1]


def test_decode_images_opens_each_file_once(tmp_path: Path) -> None:
    for n in range(6):
        write_jpeg(tmp_path / f"{n}.jpg", (40 * n, 0, 0), (90, 70))
    opened: list[int] = []

    class CountingOpener(FileOpener):
        def __call__(self, position: int) -> Image.Image:
            opened.append(position)
            return super().__call__(position)

    images = LazyImages(CountingOpener(tmp_path, tuple(f"{n}.jpg" for n in range(6))), torch.arange(6))
    small = decode_images(images, 16).select(range(6))
    assert isinstance(small, Images)
    assert sorted(opened) == list(range(6))
    assert torch.equal(small.pixels, images.resize(16).batch(torch.arange(6)))


def test_decoded_images_stay_lazy_if_sizes_differ(tmp_path: Path) -> None:
    sizes = [(5, 3), (5, 3), (9, 9), (500, 300)]
    for n, size in enumerate(sizes):
        write_jpeg(tmp_path / f"{n}.jpg", (40 * n, 0, 0), size)
    decoded = decode_images(lazy(tmp_path, [f"{n}.jpg" for n in range(4)]))
    assert decoded.pixels is None
    assert decoded.sizes.tolist() == [[3, 5], [3, 5], [9, 9], [300, 500]]
    assert isinstance(decoded.select(range(4)), LazyImages)
    assert isinstance(decoded.select([3]), LazyImages)  # too large
    same = decoded.select([0, 1])  # the others were left out
    assert isinstance(same, Images)
    assert same.pixels.shape == (2, 3, 3, 5)


def test_verify_real_cifar10(cifar: Path) -> None:
    results = verify_dataset("cifar10", cifar)
    assert [result.check for result in results] == ["location", "samples", "classes", "content"] * 2
    assert failed(results) == []
    assert results[0].detail == str(cifar / "cifar-10-batches-bin")
    assert results[1].detail == "50,000"
    assert results[2].detail == "10 classes, 5,000 samples each"


def test_verify_detects_one_changed_byte(cifar: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cifar-100-binary"
    shutil.copytree(cifar / "cifar-100-binary", folder)
    content = bytearray((folder / "test.bin").read_bytes())
    content[1_000_000] ^= 1
    (folder / "test.bin").write_bytes(content)
    results = verify_dataset("cifar100", tmp_path)
    assert failed(results) == [("train", "location"), ("test", "content")]
    assert "CIFAR-100 not found" in results[0].detail
    assert results[-1].detail == "1 file (test.bin) not as published: get it again"
    assert results[-1].names == ("test.bin",)


def test_verify_decodes_image_files(tmp_path: Path) -> None:
    write_clothing1m(tmp_path, annotations=True, prefix=True)
    write_noise_jpeg(tmp_path / CLEAN_KEYS[1], seed=0)
    truncate(tmp_path / CLEAN_KEYS[1], 0.8)
    results = {(result.split, result.check): result for result in verify_dataset("clothing1m", tmp_path)}
    assert results["train", "samples"].detail == "28, not 1,000,000"
    assert not results["train", "samples"].passed
    assert results["train", "classes"].detail == "14 classes, 2 samples each"
    assert results["train", "images"].passed
    assert results["val", "images"].names == (CLEAN_KEYS[1],)
    assert not results["val", "images"].passed
    assert results["val", "classes"].detail.startswith("14 classes, 0 to 1 samples, none in 10 classes (T-Shirt, ")
    assert results["test", "images"].passed
    for key in TRAIN:
        (tmp_path / key).unlink()
    results = {(result.split, result.check): result for result in verify_dataset("clothing1m", tmp_path)}
    assert "lacks 28 image files" in results["train", "location"].detail
    assert results["test", "images"].passed  # one incomplete split does not hide the others


def test_verify_names_all_unreadable_animals(tmp_path: Path) -> None:
    for number in range(30):
        write_noise_jpeg(tmp_path / "training" / f"{number % 10}_{number}.jpg", seed=number)
        if number % 2:
            truncate(tmp_path / "training" / f"{number % 10}_{number}.jpg", 0.5)
    first, second = verify_dataset("animal10n", tmp_path)
    assert (first.split, first.check, first.passed) == ("train", "images", False)
    assert first.names == tuple(f"{number % 10}_{number}.jpg" for number in range(1, 30, 2))
    assert (second.split, second.check, second.passed) == ("test", "location", False)


def test_verify_reports_missing_dataset_once(tmp_path: Path) -> None:
    (result,) = verify_dataset("clothing1m", tmp_path)
    assert (result.split, result.check, result.passed) == ("train, val, test", "location", False)
    assert result.detail.startswith(
        f"Clothing1M not found: no noisy_train_key_list.txt in these folders of {tmp_path}: ."
    )


def test_verify_formats_one_sample(tmp_path: Path) -> None:
    for part in ("training", "testing"):
        for number in range(10):
            write_noise_jpeg(tmp_path / part / f"{number}_{number}.jpg", seed=number)
    details = [result.detail for result in verify_dataset("animal10n", tmp_path) if result.check == "classes"]
    assert details == ["10 classes, 1 sample each"] * 2


@pytest.mark.slow
def test_find_complete_accepts_any_official_layout(cifar: Path, tmp_path: Path) -> None:
    assert find_complete("cifar10", cifar) == [cifar / "cifar-10-batches-bin"]
    assert find_complete("cifar100", cifar) == []  # the training split is missing
    folder = tmp_path / "CIFAR10" / "cifar-10-batches-bin"
    shutil.copytree(cifar / "cifar-10-batches-bin", folder)
    assert find_complete("cifar10", tmp_path) == [folder]
    content = bytearray((folder / "test_batch.bin").read_bytes())
    content[2_000_000] ^= 1
    (folder / "test_batch.bin").write_bytes(content)
    assert find_complete("cifar10", tmp_path) == []
