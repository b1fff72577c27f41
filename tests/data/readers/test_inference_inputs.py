"""Unlabeled samples, read as in training."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image

from permll.data import encode, load
from permll.data.encoding import from_arrays
from permll.data.inputs import Images, LazyImages, Vectors
from permll.data.readers.inference_inputs import read_unlabeled
from permll.data.readers.input_spec import InputSpec


def make_spec(source: Any, **options: Any) -> InputSpec:
    """Return the spec of a training on ``source``, saved and loaded."""
    data, encoder = encode(load(source, **options))
    saved = InputSpec.of(data, encoder, options).to_dict()
    return InputSpec.from_dict(saved, None if encoder is None else from_arrays(encoder.to_arrays()))


def write_images(folder: Path, number: int, size: tuple[int, int], mode: str = "RGB") -> None:
    generator = np.random.default_rng(number)
    folder.mkdir(parents=True, exist_ok=True)
    for name in range(number):
        pixels = generator.integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
        Image.fromarray(pixels).convert(mode).save(folder / f"{name}.png")


@pytest.fixture
def houses(tmp_path: Path) -> Path:
    """A table with words and numbers in the column floor, and empty cells in the column age."""
    lines = ["floor;age;town;number;sold"]
    for row in range(30):
        age = "" if row % 10 == 3 else f"{row},5"
        lines.append(
            f"{'G' if row % 4 == 3 else row % 4};{age};{('Bonn', 'Köln')[row % 2]};h{row};{('no', 'yes')[row % 2]}"
        )
    path = tmp_path / "houses.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_single_row_is_encoded_as_in_training(houses: Path, tmp_path: Path) -> None:
    options = {"label": "sold", "id": "number"}
    spec = make_spec(houses, **options)
    assert spec.kind == "table"
    data, encoder = encode(load(houses, **options))
    unlabeled = read_unlabeled(houses, spec)
    assert torch.equal(unlabeled.inputs.batch(torch.arange(30)), data.inputs.batch(torch.arange(30)))
    assert unlabeled.ids == data.ids
    assert unlabeled.given is None
    lines = houses.read_text().splitlines()
    for row in (2, 3, 7):  # a floor that looks like a number, an empty age, a word
        one = tmp_path / "one.csv"
        one.write_text(f"{lines[0]}\n{lines[1 + row]}\n")
        single = read_unlabeled(one, spec)
        assert torch.equal(single.inputs.batch(torch.arange(1))[0], data.inputs.batch(torch.tensor([row]))[0])
        assert single.ids == (f"h{row}",)
    assert encoder is not None


def test_table_columns_must_match_training(houses: Path, tmp_path: Path) -> None:
    spec = make_spec(houses, label="sold", id="number")
    cells = pl.read_csv(houses, separator=";", infer_schema_length=0)
    cells.select("town", "sold").write_csv(tmp_path / "less.csv")
    with pytest.raises(
        ValueError, match=r"less.csv lacks 2 columns \(floor, age\) that .* has 2 columns \(town, sold\)"
    ):
        read_unlabeled(tmp_path / "less.csv", spec)
    cells.drop("number", "sold").write_csv(tmp_path / "bare.csv", separator=";")
    unlabeled = read_unlabeled(tmp_path / "bare.csv", spec)
    assert unlabeled.ids[:2] == ("0", "1"), "row numbers without an id column"
    with_labels = read_unlabeled(houses, spec, label="sold")
    assert with_labels.given is not None
    assert with_labels.given[:3] == ("no", "yes", "no")
    cells.with_columns(pl.col("age").str.replace(",", ".").cast(pl.Float64)).write_parquet(tmp_path / "same.parquet")
    parquet = read_unlabeled(tmp_path / "same.parquet", spec)
    assert torch.equal(parquet.inputs.batch(torch.arange(30)), unlabeled.inputs.batch(torch.arange(30)))
    wrong = cells.with_columns(pl.Series("age", ["old"] * 30))
    wrong.write_csv(tmp_path / "wrong.csv", separator=";")
    with pytest.raises(ValueError, match="column 'age' holds text, but it held numbers"):
        read_unlabeled(tmp_path / "wrong.csv", spec)


def test_texts_of_table(tmp_path: Path) -> None:
    words = ["a good film", "a bad film", "good acting", "bad acting", "very good", "very bad"]
    frame = pl.DataFrame({"review": words, "mood": ["+", "-"] * 3, "id": list("abcdef")})
    frame.write_csv(tmp_path / "train.csv")
    spec = make_spec(tmp_path / "train.csv", text="review", label="mood")
    assert (spec.kind, dict(spec.names)) == ("texts", {"text": "review"})
    pl.DataFrame({"review": ["good good film"], "id": ["x"]}).write_csv(tmp_path / "new.csv")
    unlabeled = read_unlabeled(tmp_path / "new.csv", spec)
    assert unlabeled.ids == ("x",)
    assert tuple(unlabeled.inputs.batch(torch.arange(1)).shape) == (1, *spec.shape)
    pl.DataFrame({"body": ["good good film"], "revew": [""]}).write_csv(tmp_path / "other.csv")
    with pytest.raises(ValueError, match=r"has no column 'review', did you mean revew\?"):
        read_unlabeled(tmp_path / "other.csv", spec)
    same = read_unlabeled(tmp_path / "other.csv", spec, text="body")
    assert torch.equal(same.inputs.batch(torch.arange(1)), unlabeled.inputs.batch(torch.arange(1)))
    with pytest.raises(ValueError, match="the inputs are vectors of 2, but the network was trained on texts"):
        read_unlabeled(np.zeros((3, 2)), spec)


def test_unlabeled_arrays(tmp_path: Path) -> None:
    values, labels = np.arange(24.0).reshape(6, 4), np.arange(6) % 2
    np.savez(tmp_path / "train.npz", embedding=values, y=labels)
    spec = make_spec(tmp_path / "train.npz", features="embedding")
    np.savez(tmp_path / "new.npz", embedding=values[:2], x=values[:3], y=labels[:2].astype(np.float64))
    unlabeled = read_unlabeled(tmp_path / "new.npz", spec, label="y")
    assert isinstance(unlabeled.inputs, Vectors)
    assert torch.equal(unlabeled.inputs.values, torch.from_numpy(values[:2]).float())
    assert unlabeled.given == ("0", "1")
    assert len(read_unlabeled(tmp_path / "new.npz", spec, features="x").ids) == 3
    np.save(tmp_path / "new.npy", values)
    assert len(read_unlabeled(tmp_path / "new.npy", spec).ids) == 6
    np.save(tmp_path / "wide.npy", np.zeros((3, 7)))
    with pytest.raises(ValueError, match=r"the inputs are vectors of 7, but the network was trained on vectors of 4\."):
        read_unlabeled(tmp_path / "wide.npy", spec)
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        read_unlabeled(tmp_path / "nothing.npy", spec)


def test_images_are_resized_as_in_training(tmp_path: Path) -> None:
    for name in "ab":
        write_images(tmp_path / "train" / name, 2, (90, 80))
    spec = make_spec(tmp_path / "train", image_size=70)
    assert (spec.kind, spec.shape, spec.size) == ("images", (3, 70, 70), 70)
    write_images(tmp_path / "new" / "deeper", 3, (100, 50))
    write_images(tmp_path / "new", 1, (20, 20), "L")
    unlabeled = read_unlabeled(tmp_path / "new", spec)
    assert isinstance(unlabeled.inputs, LazyImages)
    assert unlabeled.ids == ("0.png", "deeper/0.png", "deeper/1.png", "deeper/2.png")
    assert tuple(unlabeled.inputs.batch(torch.arange(4)).shape) == (4, 3, 70, 70)
    assert read_unlabeled(tmp_path / "new" / "0.png", spec).ids == ("0.png",)
    (tmp_path / "new" / "broken.png").write_bytes(b"not an image")
    with pytest.raises(ValueError, match=r"1 image \(broken.png: not an image\) cannot be read"):
        read_unlabeled(tmp_path / "new", spec)
    left = read_unlabeled(tmp_path / "new", spec, skip_unreadable=True)
    assert (len(left.ids), left.left_out) == (4, ("broken.png",))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty contains no images"):
        read_unlabeled(tmp_path / "empty", spec)
    with pytest.raises(ValueError, match="label= is not supported for images in files"):
        read_unlabeled(tmp_path / "new", spec, label="cat")


def test_small_images_must_match_training_size_and_color(tmp_path: Path) -> None:
    for name in "ab":
        write_images(tmp_path / "train" / name, 2, (12, 10), "L")
    spec = make_spec(tmp_path / "train")
    assert (spec.shape, spec.size) == ((1, 10, 12), None)
    again = read_unlabeled(tmp_path / "train", spec)
    assert isinstance(again.inputs, Images)
    before = load(tmp_path / "train").inputs
    assert isinstance(before, Images)
    assert torch.equal(again.inputs.pixels, before.pixels)
    write_images(tmp_path / "new", 2, (10, 12), "L")
    with pytest.raises(
        ValueError, match=r"size of training, 10 x 12; got another for 2 images \(0.png: 12 x 10, 1.png: 12 x 10\)"
    ):
        read_unlabeled(tmp_path / "new", spec)
    write_images(tmp_path / "new", 2, (12, 10))
    with pytest.raises(ValueError, match=r"got color in 2 images \(0.png, 1.png\)"):
        read_unlabeled(tmp_path / "new", spec)
    with pytest.raises(
        ValueError, match="the inputs are images of 1 x 28 x 28, but the network was trained on images of 1 x 10"
    ):
        read_unlabeled(np.zeros((2, 28, 28), np.uint8), spec)
    pl.DataFrame({"path": ["train/a/0.png"], "size": [3]}).write_csv(tmp_path / "list.csv")
    with pytest.raises(ValueError, match=r"the inputs are rows of a table, .* choose the column of paths with image="):
        read_unlabeled(tmp_path / "list.csv", spec, features=["size"])
    listed = read_unlabeled(tmp_path / "list.csv", spec, image="path")
    assert listed.ids == ("train/a/0.png",)
    assert torch.equal(listed.inputs.batch(torch.arange(1)), before.pixels[:1])


def test_built_in_datasets() -> None:
    spec = make_spec("digits")
    unlabeled = read_unlabeled("digits", spec, split="test")
    assert len(unlabeled.ids) == 450
    assert unlabeled.given is not None
    assert set(unlabeled.given) == set("0123456789")
    with pytest.raises(ValueError, match="split and root are for built-in datasets"):
        read_unlabeled(np.zeros((2, 8, 8), np.uint8), spec, split="test")
