"""``LabeledData``, and decoding of images."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from permll.data import Items, LabeledData, LazyImages, Table, Texts, Vectors
from permll.data.decoding import FileOpener, to_pixels
from tests.helpers.toy_data import toy


def test_take_selects_everything() -> None:
    data = toy(6)
    part = data.take([4, 1])
    assert part.ids == ("4.png", "1.png")
    assert torch.equal(part.labels, data.labels[[4, 1]])
    assert torch.equal(part.inputs.batch(torch.arange(2)), data.inputs.batch(torch.tensor([4, 1])))
    assert part.classes == data.classes
    mask = torch.tensor([False, True, False, False, True, False])
    assert data.take(mask).ids == ("1.png", "4.png")


@pytest.mark.parametrize("rows", [[6], [-1], [0.5], [True], [[0, 1]]])
def test_take_rejects_invalid_rows(rows: list[object]) -> None:
    with pytest.raises(ValueError, match=r"^rows must be|^a mask must have shape"):
        toy(6).take(rows)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": ("a", "b")}, "3 samples, 3 labels and 2 ids"),
        ({"ids": ("a", "b", "a")}, r"ids must be unique; repeated: 1 id \(a\)"),
        ({"labels": torch.tensor([0, 2, -1])}, r"must be in 0\.\.1, but 2 samples \(b, c\) are not"),
        ({"labels": torch.tensor([0.0, 1.0, 0.0])}, "must be int64"),
        ({"classes": ("x", "x")}, "class names must be unique"),
    ],
)
def test_labeled_data_rejects_inconsistent_values(change: dict[str, object], message: str) -> None:
    parts = {
        "inputs": Vectors(torch.rand(3, 2)),
        "labels": torch.tensor([0, 1, 0]),
        "classes": ("x", "y"),
        "ids": tuple("abc"),
    }
    with pytest.raises(ValueError, match=message):
        LabeledData(**(parts | change))  # type: ignore[arg-type]


def test_relabel_copies_labels() -> None:
    labels = torch.zeros(6, dtype=torch.int64)
    data = toy(6).relabel(labels)
    labels[0] = 1
    assert data.labels[0] == 0


def test_16_bit_images_are_scaled_and_other_ranges_raise(tmp_path: Path) -> None:
    ramp = np.arange(0, 65536, 256, dtype=np.uint16).reshape(16, 16)
    Image.fromarray(ramp).save(tmp_path / "deep.png")
    with Image.open(tmp_path / "deep.png") as image:
        np.testing.assert_array_equal(to_pixels(image, None)[0], ramp >> 8)
    with pytest.raises(ValueError, match="mode F"):
        to_pixels(Image.fromarray(ramp.astype(np.float32)), None)


def test_unreadable_image_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"no image")
    images = LazyImages(FileOpener(tmp_path, ("broken.png", "gone.png")), torch.arange(2))
    for position, name in enumerate(("broken.png", "gone.png")):
        with pytest.raises(ValueError, match=f"image {name} of files in .* cannot be read"):
            images.batch(torch.tensor([position]))


def test_jpeg_draft_does_not_change_resized_image(tmp_path: Path) -> None:
    """Decoding at a reduced scale gives nearly the same pixels."""
    smooth = np.linspace(0, 255, 1600)[:, None, None] * np.ones((1, 1200, 3))
    Image.fromarray(smooth.astype(np.uint8)).save(tmp_path / "large.jpg", quality=95)
    with Image.open(tmp_path / "large.jpg") as image:
        fast = to_pixels(image, 64)
    full = Image.open(tmp_path / "large.jpg").convert("RGB").resize((64, 64), Image.Resampling.BILINEAR)
    assert np.abs(fast.transpose(1, 2, 0).astype(int) - np.asarray(full)).max() <= 2


def test_items_batch_accepts_no_rows() -> None:
    items = Items([(torch.full((2,), float(i)), i) for i in range(3)], torch.arange(3))
    assert items.batch(torch.tensor([2, 0])).tolist() == [[2.0, 2.0], [0.0, 0.0]]
    assert len(items.batch(torch.empty(0, dtype=torch.int64))) == 0
    ragged = Items([(torch.zeros(2), 0), (torch.zeros(3), 0)], torch.arange(2))
    with pytest.raises(ValueError, match="differ in size"):
        ragged.batch(torch.arange(2))


def test_getitem_returns_sample(tmp_path: Path) -> None:
    data = toy(6)
    assert data[4].id == "4.png"
    assert data[-1].id == "5.png"
    assert data[2].label == data.classes[data.labels[2]]
    assert data[2].input.shape == (3, 8, 8)
    with pytest.raises(IndexError):
        _ = data[6]
    Image.new("RGB", (30, 20)).save(tmp_path / "a.png")
    lazy = LazyImages(FileOpener(tmp_path, ("a.png",)), torch.arange(1))
    others = {
        "a text": Texts(("a text",)),
        1.5: Table({"x": np.array([1.5])}),
        (30, 20): lazy,
        7: Items([(7, 0)], torch.arange(1)),
    }
    for expected, inputs in others.items():
        sample = LabeledData(inputs, torch.tensor([0]), ("x",), ("1",))[0].input
        assert expected in (
            sample,
            getattr(sample, "size", None),
            sample.get("x") if isinstance(sample, dict) else None,
        )
