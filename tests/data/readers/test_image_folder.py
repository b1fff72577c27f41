"""Image folders: classes, ids, images in memory, and invalid folders."""

import json
import pickle
import re
import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image

from permll.data import Images, LazyImages
from permll.data.readers import read
from tests.helpers.reader_files import noisy_jpeg, save_image, truncate


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    """Two classes, nested folders, unusual suffixes, and files that are not images."""
    root = tmp_path / "pets"
    for k, name in enumerate(["dog/3.png", "cat/b/2.PNG", "cat/1.Jpg", "dog/a/1.bmp", "cat/ü.gif"]):
        save_image(root / name, 10 * k)
    for name in (".hidden.png", "cat/.b.png", ".git/x/1.png", "__MACOSX/cat/1.png"):
        save_image(root / name)
    (root / "cat" / "notes.txt").write_text("no image")
    return root


def test_image_folder_classes_and_ids(pets: Path) -> None:
    data = read(pets)
    assert data.classes == ("cat", "dog")
    assert data.ids == ("cat/1.Jpg", "cat/b/2.PNG", "cat/ü.gif", "dog/3.png", "dog/a/1.bmp")
    assert data.labels.tolist() == [0, 0, 0, 1, 1]
    assert isinstance(data.inputs, Images)
    assert data.inputs.pixels.shape == (5, 3, 8, 8)
    assert data.inputs.pixels[3, :, 0, 0].tolist() == [0, 0, 0]
    assert data.inputs.pixels[4, :, 0, 0].tolist() == [30, 0, 0]
    assert (data.metadata["name"], data.metadata["kind"], data.metadata["source"]) == ("pets", "images", str(pets))
    assert data.metadata["left_out"] == [
        {"what": "file", "why": "not an image file", "count": 1, "names": ["cat/notes.txt"]}
    ]
    json.dumps(data.metadata)


def test_image_folder_order_is_sorted(pets: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    for path in sorted(pets.rglob("*"), reverse=True):
        if path.is_file():
            (other / path.relative_to(pets)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, other / path.relative_to(pets))
    first, second = read(pets), read(str(other))
    assert first.ids == second.ids
    assert torch.equal(first.inputs.pixels, second.inputs.pixels)


def test_gray_images_have_one_channel(tmp_path: Path) -> None:
    for k in range(4):
        save_image(tmp_path / f"{k % 2}" / f"{k}.png", 50 * k, (28, 20), "L")
    data = read(tmp_path)
    assert data.inputs.pixels.shape == (4, 1, 20, 28)
    assert data.inputs.pixels[:, 0, 0, 0].tolist() == [0, 100, 50, 150]
    save_image(tmp_path / "0" / "color.png", 200, (28, 20))
    assert read(tmp_path).inputs.pixels.shape == (5, 3, 20, 28)


@pytest.mark.parametrize(("size", "other"), [((65, 8), (65, 8)), ((8, 8), (9, 8))], ids=["large", "of two sizes"])
def test_large_or_mixed_images_stay_lazy(size: tuple[int, int], other: tuple[int, int], tmp_path: Path) -> None:
    for k in range(4):
        save_image(tmp_path / f"{k % 2}" / f"{k}.png", 50 * k, other if k == 3 else size)
    data = read(tmp_path)
    assert isinstance(data.inputs, LazyImages)
    sent = pickle.loads(pickle.dumps(data.inputs))
    assert sent.resize(4).batch(torch.tensor([3, 0]))[:, 0, 0, 0].tolist() == [150, 0]


def test_image_size_resizes_images(tmp_path: Path) -> None:
    for k in range(4):
        save_image(tmp_path / f"{k % 2}" / f"{k}.png", 50 * k, (70 + k, 30))
    small = read(tmp_path, image_size=16)
    assert small.inputs.pixels.shape == (4, 3, 16, 16)
    assert small.inputs.pixels[:, 0, 0, 0].tolist() == [0, 100, 50, 150]
    large = read(tmp_path, image_size=96)
    assert isinstance(large.inputs, LazyImages)
    assert large.inputs.batch(torch.tensor([1])).shape == (1, 3, 96, 96)


def test_image_folder_follows_symlink_cycles(pets: Path) -> None:
    (pets / "cat" / "again").symlink_to(pets, target_is_directory=True)
    assert len(read(pets)) == 5


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Nine images, three of them damaged: truncated, empty, and a text."""
    for k in range(9):
        noisy_jpeg(tmp_path / f"{'ab'[k % 2]}" / f"{k}.jpg", k)
    truncate(tmp_path / "a" / "2.jpg")
    (tmp_path / "b" / "3.jpg").write_bytes(b"")
    (tmp_path / "a" / "4.jpg").write_text("not an image")
    return tmp_path


def test_all_damaged_images_are_named(damaged: Path) -> None:
    with pytest.raises(
        ValueError,
        match=r"^3 images \(a/2.jpg: damaged, a/4.jpg: not an image, b/3.jpg: not an image\) cannot be read: .*skip_un",
    ):
        read(damaged)


def test_damaged_images_can_be_left_out(damaged: Path) -> None:
    data = read(damaged, skip_unreadable=True)
    assert data.ids == ("a/0.jpg", "a/6.jpg", "a/8.jpg", "b/1.jpg", "b/5.jpg", "b/7.jpg")
    assert data.metadata["left_out"] == [
        {"what": "image", "why": "cannot be read: damaged", "count": 1, "names": ["a/2.jpg"]},
        {"what": "image", "why": "cannot be read: not an image", "count": 2, "names": ["a/4.jpg", "b/3.jpg"]},
    ]


def test_check_false_does_not_open_large_files(damaged: Path) -> None:
    data = read(damaged, check=False)
    assert len(data) == 9
    with pytest.raises(ValueError, match=r"image a/2.jpg of files in .* cannot be read: .*truncated"):
        data.inputs.batch(torch.tensor([0, data.ids.index("a/2.jpg")]))
    with pytest.raises(ValueError, match=r"^3 images \(a/2.jpg: damaged, .*\) cannot be read"):
        read(damaged, check=False, image_size=32)  # read into memory


def test_damaged_image_can_make_class_rare(damaged: Path) -> None:
    for k in (1, 5):
        (damaged / "b" / f"{k}.jpg").unlink()
    with pytest.raises(ValueError, match=r"fewer than two samples in 1 class \(b: b/7.jpg\)"):
        read(damaged, skip_unreadable=True)


def test_images_outside_class_folders(pets: Path) -> None:
    save_image(pets / "stray.png")
    with pytest.raises(ValueError, match=r"pets contains 1 image \(stray.png\) outside the class folders: .*no_label"):
        read(pets)
    data = read(pets, no_label="")
    assert len(data) == 5
    assert data.metadata["left_out"][0]["names"] == ["stray.png"]


def flat(root: Path) -> None:
    save_image(root / "1.png")
    save_image(root / "2.png")


def splits(root: Path) -> None:
    for name in ("train/cat/1.png", "train/dog/1.png", "Test/cat/1.png"):
        save_image(root / name)


def empty_class(root: Path) -> None:
    save_image(root / "cat" / "1.png")
    (root / "dog").mkdir()


def saved_dataset(root: Path) -> None:
    for name in ("dataset_info.json", "state.json", "data.arrow"):
        (root / name).touch()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda _: None, r"contains no images \(.png, .jpg"),
        (
            lambda root: (root / "data.csv").touch(),
            r"contains no images .*only 1 other file \(data.csv\): give the path",
        ),
        (saved_dataset, r"is a saved Hugging Face dataset: pass datasets.load_from_disk"),
        (flat, r"contains 2 images \(1.png, 2.png\) but no class folders: sort them"),
        (empty_class, r"no images in 1 class folder \(dog\) of .*: fill or remove"),
        (splits, r"are splits, not classes \(Test, train\): read one of them, like .*Test"),
        (lambda root: save_image(root / "cat" / "1.png"), r"at least two classes are needed, but every class has one"),
        (lambda root: flat(root / "cat"), r"at least two classes are needed, but all labels are 'cat'"),
    ],
)
def test_image_folder_rejects_invalid_folders(make, message: str, tmp_path: Path) -> None:
    make(tmp_path)
    with pytest.raises(ValueError, match=message) as caught:
        read(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("keyword", ["label", "text", "image", "features", "id", "labels", "ids"])
def test_unsupported_options_raise(keyword: str, pets: Path) -> None:
    value = ["x"] if keyword in ("labels", "ids") else "x"
    with pytest.raises(ValueError, match=f"{keyword}= is not supported for a folder of images"):
        read(pets, **{keyword: value})


def test_missing_path_raises(pets: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no such file or folder: .*petz, did you mean pets\?"):
        read(pets.parent / "petz")
    with pytest.raises(FileNotFoundError, match=re.escape("no such file or folder: nowhere/at/all.")):
        read("nowhere/at/all")
    with pytest.raises(ValueError, match="pass the folder, with one sub-folder"):
        read(pets / "dog" / "3.png")


def test_unreadable_image_reasons(damaged: Path) -> None:
    Image.new("F", (8, 8)).save(damaged / "a" / "floats.tif")
    with pytest.raises(ValueError, match=r"4 images \(.*, a/floats.tif: unsupported mode F, b/3.jpg: not an image"):
        read(damaged)
    entries = read(damaged, skip_unreadable=True).metadata["left_out"]
    assert {entry["why"]: entry["names"] for entry in entries} == {
        "cannot be read: damaged": ["a/2.jpg"],
        "cannot be read: not an image": ["a/4.jpg", "b/3.jpg"],
        "cannot be read: unsupported mode F": ["a/floats.tif"],
    }
