"""Checking a set: what is there, what is missing, and every image that cannot be decoded."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from permll.data.decoding import OpenFile
from permll.data.inputs import LazyImages
from permll.data.verify import Finding, check, unreadable, whole
from tests.data.test_sets_clothing1m import CLEAN_KEYS, TRAIN, make
from tests.helpers.dataset_files import cut, write_jpeg, write_noise_jpeg
from tests.helpers.real_data import real_cifar


@pytest.fixture(scope="session")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return real_cifar(tmp_path_factory)


def bad(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.split, finding.what) for finding in findings if not finding.good]


def lazy(folder: Path, names: list[str]) -> LazyImages:
    return LazyImages(OpenFile(folder, tuple(names)), torch.arange(len(names)))


def test_every_broken_image_is_found_and_no_other(tmp_path: Path) -> None:
    good = [f"good{n:03d}.jpg" for n in range(150)]
    for n, name in enumerate(good):
        write_jpeg(tmp_path / name, (n, n, n))
    for name, mode in (("grey.png", "L"), ("transparent.png", "RGBA"), ("palette.png", "P"), ("print.jpg", "CMYK")):
        Image.new(mode, (9, 7)).save(tmp_path / name)
        good.append(name)
    broken = []
    for keep in (0.1, 0.5, 0.9, 0.99):
        broken.append(f"cut{keep}.jpg")
        write_noise_jpeg(tmp_path / broken[-1], seed=1)
        cut(tmp_path / broken[-1], keep)
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)).save(tmp_path / "cut.png")
    cut(tmp_path / "cut.png", 0.6)
    (tmp_path / "text.jpg").write_text("no image at all")
    (tmp_path / "empty.jpg").touch()
    broken += ["cut.png", "text.jpg", "empty.jpg", "missing.jpg"]
    Image.new("F", (9, 7)).save(tmp_path / "floats.tif")
    Image.new("I", (9, 7)).save(tmp_path / "whole.tif")
    names = sorted([*good, *broken, "floats.tif", "whole.tif"])
    reasons = dict.fromkeys(broken, "damaged") | {
        "text.jpg": "no image",
        "empty.jpg": "no image",
        "missing.jpg": "not there",
        "floats.tif": "a mode that cannot be read: F",
        "whole.tif": "a mode that cannot be read: I",
    }
    found = unreadable(lazy(tmp_path, names), names)
    assert list(found) == sorted(reasons)
    assert found == reasons
    assert unreadable(lazy(tmp_path, good), good) == {}


def test_rows_are_those_of_the_selection_and_pixels_can_be_kept(tmp_path: Path) -> None:
    names = [f"{n}.jpg" for n in range(6)]
    for n, name in enumerate(names):
        write_jpeg(tmp_path / name, (40 * n, 0, 0), (5, 3))
    cut(tmp_path / "4.jpg", 0.5)
    kept: dict[int, int] = {}

    def keep(row: int, pixels: np.ndarray) -> None:
        assert pixels.shape == (3, 3, 5)
        kept[row] = round(float(pixels[0].mean()) / 40)

    some = lazy(tmp_path, names).take(torch.tensor([5, 4, 1]))
    assert unreadable(some, ["five", "four", "one"], keep=keep) == {"four": "damaged"}
    assert kept == {0: 5, 2: 1}


def test_the_real_cifar10_is_good(cifar: Path) -> None:
    findings = check("cifar10", cifar)
    assert [finding.what for finding in findings] == ["place", "samples", "classes", "content"] * 2
    assert bad(findings) == []
    assert findings[0].detail == str(cifar / "cifar-10-batches-bin")
    assert findings[1].detail == "50,000"
    assert findings[2].detail == "10 classes, 5,000 samples each"


def test_one_changed_pixel_is_noticed(cifar: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cifar-100-binary"
    shutil.copytree(cifar / "cifar-100-binary", folder)
    content = bytearray((folder / "test.bin").read_bytes())
    content[1_000_000] ^= 1
    (folder / "test.bin").write_bytes(content)
    findings = check("cifar100", tmp_path)
    assert bad(findings) == [("train", "place"), ("test", "content")]
    assert "CIFAR-100 was not found" in findings[0].detail
    assert findings[-1].detail == "1 file (test.bin) not as published: get it again"
    assert findings[-1].names == ("test.bin",)


def test_a_set_of_files_is_decoded_image_by_image(tmp_path: Path) -> None:
    make(tmp_path, annotations=True, prefix=True)
    write_noise_jpeg(tmp_path / CLEAN_KEYS[1], seed=0)
    cut(tmp_path / CLEAN_KEYS[1], 0.8)
    findings = {(finding.split, finding.what): finding for finding in check("clothing1m", tmp_path)}
    assert findings["train", "samples"].detail == "28, not 1,000,000"
    assert not findings["train", "samples"].good
    assert findings["train", "classes"].detail == "14 classes, 2 samples each"
    assert findings["train", "images"].good
    assert findings["val", "images"].names == (CLEAN_KEYS[1],)
    assert not findings["val", "images"].good
    assert findings["val", "classes"].detail.startswith("14 classes, 0 to 1 samples, none in 10 classes (T-Shirt, ")
    assert findings["test", "images"].good
    for key in TRAIN:
        (tmp_path / key).unlink()
    findings = {(finding.split, finding.what): finding for finding in check("clothing1m", tmp_path)}
    assert "lacks 28 image files" in findings["train", "place"].detail
    assert findings["test", "images"].good  # one broken split does not hide the others


def test_animals_that_cannot_be_read_are_all_in_the_finding(tmp_path: Path) -> None:
    for number in range(30):
        write_noise_jpeg(tmp_path / "training" / f"{number % 10}_{number}.jpg", seed=number)
        if number % 2:
            cut(tmp_path / "training" / f"{number % 10}_{number}.jpg", 0.5)
    first, second = check("animal10n", tmp_path)
    assert (first.split, first.what, first.good) == ("train", "images", False)
    assert first.names == tuple(f"{number % 10}_{number}.jpg" for number in range(1, 30, 2))
    assert (second.split, second.what, second.good) == ("test", "place", False)


def test_a_set_that_is_not_there_is_told_once(tmp_path: Path) -> None:
    (finding,) = check("clothing1m", tmp_path)
    assert (finding.split, finding.what, finding.good) == ("train, val, test", "place", False)
    assert finding.detail.startswith(f"Clothing1M was not found, looked in {tmp_path} for noisy_train_key_list.txt")


def test_one_sample_each_is_one(tmp_path: Path) -> None:
    for part in ("training", "testing"):
        for number in range(10):
            write_noise_jpeg(tmp_path / part / f"{number}_{number}.jpg", seed=number)
    details = [finding.detail for finding in check("animal10n", tmp_path) if finding.what == "classes"]
    assert details == ["10 classes, 1 sample each"] * 2


def test_a_set_is_whole_in_any_official_form(cifar: Path, tmp_path: Path) -> None:
    assert whole("cifar10", cifar) == [cifar / "cifar-10-batches-bin"]
    assert whole("cifar100", cifar) == []  # half of it is not there
    folder = tmp_path / "CIFAR10" / "cifar-10-batches-bin"
    shutil.copytree(cifar / "cifar-10-batches-bin", folder)
    assert whole("cifar10", tmp_path) == [folder]
    content = bytearray((folder / "test_batch.bin").read_bytes())
    content[2_000_000] ^= 1
    (folder / "test_batch.bin").write_bytes(content)
    assert whole("cifar10", tmp_path) == []
