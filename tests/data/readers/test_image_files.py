"""Lists of image paths."""

from pathlib import Path

import pytest
import torch

from permll.data import Images, LazyImages, Texts
from permll.data.readers import read
from tests.helpers.reader_files import noisy_jpeg, save_image, truncate

Y = ["cat", "dog", "dog", "cat"]
NAMES = ["b/3.png", "a.PNG", "0.jpeg", "c.bmp"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for k, name in enumerate(NAMES):
        save_image(tmp_path / name, 50 * k)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_image_paths_are_ids(folder: Path) -> None:
    for paths in (NAMES, tuple(NAMES), [Path(name) for name in NAMES]):
        data = read(paths, labels=Y)
        assert isinstance(data.inputs, Images)
        assert data.ids == tuple(NAMES)
        assert [data.classes[label] for label in data.labels.tolist()] == Y
        assert (data.inputs.pixels[:, 0, 0, 0] - torch.tensor([0, 50, 100, 150])).abs().max() <= 3  # one is a JPEG
        assert data.metadata["kind"] == "images"
    mixed = [folder / NAMES[0], *NAMES[1:]]
    assert read(mixed, labels=Y).ids == (str(folder / NAMES[0]), *NAMES[1:])
    assert read(NAMES, labels=Y, ids=list("wxyz")).ids == ("w", "x", "y", "z")


def test_large_images_are_opened_from_any_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for k, name in enumerate(NAMES):
        save_image(folder / name, 50 * k, (80, 90))
    data = read(NAMES, labels=Y)
    assert isinstance(data.inputs, LazyImages)
    monkeypatch.chdir("/")
    assert data.inputs.resize(8).batch(torch.tensor([3]))[0, 0, 0, 0] == 150
    monkeypatch.chdir(folder)
    assert read(NAMES, labels=Y, image_size=16).inputs.pixels.shape == (4, 3, 16, 16)


def test_image_paths_expand_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    paths = [f"~/{name}" for name in NAMES]
    assert read(paths, labels=Y).ids == tuple(paths)


def test_missing_and_damaged_images_are_named(folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"file not found for 2 images \(x.png, y.jpg\), relative to "):
        read([*NAMES, "x.png", "y.jpg"], labels=[*Y, "cat", "dog"])
    truncate(noisy_jpeg(folder / "0.jpeg"))
    with pytest.raises(ValueError, match=r"1 image \(0.jpeg: damaged\) cannot be read"):
        read(NAMES, labels=Y)
    with pytest.raises(ValueError, match=r"got 4 images, 3 labels and 4 ids"):
        read(NAMES, labels=Y[:3])


def test_other_strings_are_texts(folder: Path) -> None:
    assert isinstance(read([*NAMES[:3], "no path"], labels=Y).inputs, Texts)
