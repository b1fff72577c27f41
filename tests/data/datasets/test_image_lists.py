"""WebVision, Food-101N and ANIMAL-10N: small copies of their folders."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from permll.data.datasets import class_names
from permll.data.decoding import UnreadableImagesError
from permll.data.inputs import Images
from permll.data.registry import find_dataset
from tests.helpers.dataset_files import truncate, write_jpeg, write_lines, write_noise_jpeg


def make_webvision(root: Path, val: str = "val_images_256") -> None:
    train = [(f"google/q{label + 1:04d}/photo{n}.jpg", label) for n in range(2) for label in (0, 7, 49, 50, 999)]
    held_out = [(f"val{n:06d}.jpg", label) for n, label in enumerate((49, 0, 50, 7))]
    write_lines(root / "info" / "train_filelist_google.txt", [f"{name} {label}" for name, label in train])
    write_lines(root / "info" / "val_filelist.txt", [f"{name} {label}" for name, label in held_out])
    write_lines(root / "info" / "synsets.txt", [f"n{1440764 + n:08d} name {n}, other name" for n in range(1000)])
    for name, label in train:
        if label < 50:
            write_jpeg(root / name, (4 * label, 10, 20))
    for name, label in held_out:
        if label < 50:
            write_jpeg(root / val / name, (4 * label, 10, 20))


@pytest.mark.parametrize("home", [".", "webvision"])
@pytest.mark.parametrize("val_folder", ["val_images_256", "val_images"])
def test_webvision_reads_first_50_classes(home: str, val_folder: str, tmp_path: Path) -> None:
    make_webvision(tmp_path / home, val_folder)
    train, val = (find_dataset("webvision_mini").load(tmp_path, split, size=16) for split in ("train", "val"))
    assert train.ids[:3] == ("google/q0001/photo0.jpg", "google/q0008/photo0.jpg", "google/q0050/photo0.jpg")
    assert train.labels.tolist() == [0, 7, 49, 0, 7, 49]
    assert (val.ids, val.labels.tolist()) == (("val000000.jpg", "val000001.jpg", "val000003.jpg"), [49, 0, 7])
    assert (train.num_classes, train.classes[49]) == (50, "name 49")
    assert val.inputs.batch(torch.arange(3)).float().mean((2, 3))[:, 0].tolist() == pytest.approx([196, 0, 28], abs=3)


def test_webvision_names_missing_images(tmp_path: Path) -> None:
    make_webvision(tmp_path)
    (tmp_path / "google" / "q0008" / "photo1.jpg").unlink()
    with pytest.raises(FileNotFoundError, match=r"lacks 1 image file \(google/q0008/photo1\.jpg\)"):
        find_dataset("webvision_mini").load(tmp_path, "train")
    write_lines(tmp_path / "info" / "synsets.txt", ["n01440764 tench, Tinca tinca"])
    with pytest.raises(ValueError, match=r"synsets\.txt must name 50 different classes, but it names 1"):
        find_dataset("webvision_mini").load(tmp_path, "val")


DISHES = [f"dish_{n:03d}" for n in range(101)]


def make_food(root: Path, header: bool = True) -> list[str]:
    keys = [f"{DISHES[n]}/{n:08x}.jpg" for n in (5, 0, 100, 5)]
    keys[3] = "dish_005/other.jpg"
    folder = root / "Food-101N_release"
    write_lines(folder / "meta" / "imagelist.tsv", (["class_name/key"] if header else []) + keys)
    write_lines(folder / "meta" / "classes.txt", (["class_name"] if header else []) + DISHES)
    for key in keys:
        write_jpeg(folder / "images" / key, (200, 100, 50))
    return keys


@pytest.mark.parametrize("header", [True, False])
def test_food101n_labels_are_folders(header: bool, tmp_path: Path) -> None:
    keys = make_food(tmp_path, header)
    train = find_dataset("food101n").load(tmp_path, "train")
    assert train.ids == tuple(keys)
    assert train.labels.tolist() == [5, 0, 100, 5]
    assert train.classes == tuple(DISHES)
    assert find_dataset("food101n").load(tmp_path / "Food-101N_release", "train").ids == train.ids


@pytest.mark.parametrize("home", ["food-101", "Food-101N_release/food-101"])
def test_food101n_test_split_is_food101(home: str, tmp_path: Path) -> None:
    make_food(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no meta/test\.txt in these folders of .*: food-101"):
        find_dataset("food101n").load(tmp_path, "test")
    write_lines(tmp_path / home / "meta" / "test.txt", ["dish_007/1011328", "dish_000/55"])
    write_lines(tmp_path / home / "meta" / "classes.txt", DISHES[::-1])
    for key in ("dish_007/1011328.jpg", "dish_000/55.jpg"):
        write_jpeg(tmp_path / home / "images" / key, (1, 2, 3))
    test = find_dataset("food101n").load(tmp_path, "test")
    assert (test.ids, test.labels.tolist()) == (("dish_007/1011328.jpg", "dish_000/55.jpg"), [7, 0])
    assert test.classes == find_dataset("food101n").load(tmp_path, "train").classes


def test_food101n_rejects_unknown_classes(tmp_path: Path) -> None:
    make_food(tmp_path)
    meta = tmp_path / "Food-101N_release" / "meta"
    write_lines(meta / "imagelist.tsv", ["class_name/key", "pizza/1.jpg"])
    with pytest.raises(
        FileNotFoundError, match=r"lacks labels in 0\.\.100 for 1 image \(pizza/1\.jpg\) and 1 image file"
    ):
        find_dataset("food101n").load(tmp_path, "train")
    write_lines(meta / "classes.txt", ["class_name", *DISHES[:100]])
    with pytest.raises(ValueError, match=r"classes\.txt must name 101 different classes, but it names 100"):
        find_dataset("food101n").load(tmp_path, "train")


def make_animals(root: Path) -> None:
    for number, label in enumerate((3, 1, 9, 3, 0, 7, 7, 2, 5, 4, 6, 8)):
        write_jpeg(root / "training" / f"{label}_{number}.jpg", (20 * label, 7, 99), (64, 64))
    for number, label in enumerate((9, 0)):
        write_jpeg(root / "testing" / f"{label}_{number}.jpg", (20 * label, 7, 99), (64, 64))


@pytest.mark.parametrize("home", [".", "animal10n"])
def test_animal10n_order_is_by_number(home: str, tmp_path: Path) -> None:
    make_animals(tmp_path / home)
    (tmp_path / home / "training" / ".DS_Store").write_text("no image")
    train, test = (find_dataset("animal10n").load(tmp_path, split) for split in ("train", "test"))
    assert train.labels.tolist() == [3, 1, 9, 3, 0, 7, 7, 2, 5, 4, 6, 8]
    assert (train.ids[2], train.ids[10], train.ids[11]) == (
        "training/9_2.jpg",
        "training/6_10.jpg",
        "training/8_11.jpg",
    )
    assert isinstance(train.inputs, Images)
    assert train.inputs.pixels.shape == (12, 3, 64, 64)
    expected = Image.open(tmp_path / home / "training" / "9_2.jpg")
    assert (train.inputs.pixels[2].permute(1, 2, 0).numpy() == np.asarray(expected)).all()
    assert (test.ids, test.labels.tolist()) == (("testing/9_0.jpg", "testing/0_1.jpg"), [9, 0])
    assert train.classes == class_names.ANIMAL10N


def test_animal10n_names_unreadable_images(tmp_path: Path) -> None:
    make_animals(tmp_path)
    for file in ("1_100.jpg", "2_200.jpg"):
        write_noise_jpeg(tmp_path / "training" / file, seed=1)
        truncate(tmp_path / "training" / file, 0.7)
    with pytest.raises(
        UnreadableImagesError, match=r"2 images \(1_100\.jpg: damaged, 2_200\.jpg: damaged\) in .* cannot be read"
    ) as caught:
        find_dataset("animal10n").load(tmp_path, "train")
    assert caught.value.names == ("1_100.jpg", "2_200.jpg")


def test_animal10n_rejects_other_sizes_and_names(tmp_path: Path) -> None:
    make_animals(tmp_path)
    write_jpeg(tmp_path / "testing" / "5_77.jpg", (0, 0, 0), (64, 63))
    with pytest.raises(ValueError, match=r"must contain images of 64 x 64, got another size for 1 image \(5_77\.jpg\)"):
        find_dataset("animal10n").load(tmp_path, "test")
    write_jpeg(tmp_path / "testing" / "cat_5.jpg", (0, 0, 0), (64, 64))
    with pytest.raises(ValueError, match=r"named label_number\.jpg, but has 1 file \(cat_5\.jpg\)"):
        find_dataset("animal10n").load(tmp_path, "test")
    (tmp_path / "empty" / "testing").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"named label_number\.jpg, but has nothing"):
        find_dataset("animal10n").load(tmp_path / "empty", "test")
