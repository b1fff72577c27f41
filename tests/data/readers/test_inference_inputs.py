"""New samples are read as those of the training were, and what does not fit is named."""

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


def seen(source: Any, **options: Any) -> InputSpec:
    """Return what a training on ``source`` would have seen, after a trip through a file."""
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
    """A table whose column floor holds words and numbers, and whose age is empty in places."""
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
    like = seen(houses, **options)
    assert like.kind == "table"
    whole, encoder = encode(load(houses, **options))
    found = read_unlabeled(houses, like)
    assert torch.equal(found.inputs.batch(torch.arange(30)), whole.inputs.batch(torch.arange(30)))
    assert found.ids == whole.ids
    assert found.given is None
    lines = houses.read_text().splitlines()
    for row in (2, 3, 7):  # a floor that looks like a number, an age that is empty in every row there is, a word
        one = tmp_path / "one.csv"
        one.write_text(f"{lines[0]}\n{lines[1 + row]}\n")
        alone = read_unlabeled(one, like)
        assert torch.equal(alone.inputs.batch(torch.arange(1))[0], whole.inputs.batch(torch.tensor([row]))[0])
        assert alone.ids == (f"h{row}",)
    assert encoder is not None


def test_table_columns_must_match_training(houses: Path, tmp_path: Path) -> None:
    like = seen(houses, label="sold", id="number")
    cells = pl.read_csv(houses, separator=";", infer_schema_length=0)
    cells.select("town", "sold").write_csv(tmp_path / "less.csv")
    with pytest.raises(
        ValueError, match=r"less.csv lacks 2 columns \(floor, age\) that .* has 2 columns \(town, sold\)"
    ):
        read_unlabeled(tmp_path / "less.csv", like)
    cells.drop("number", "sold").write_csv(tmp_path / "bare.csv", separator=";")
    found = read_unlabeled(tmp_path / "bare.csv", like)
    assert found.ids[:2] == ("0", "1"), "without the column of ids, row numbers"
    with_labels = read_unlabeled(houses, like, label="sold")
    assert with_labels.given is not None
    assert with_labels.given[:3] == ("no", "yes", "no")
    cells.with_columns(pl.col("age").str.replace(",", ".").cast(pl.Float64)).write_parquet(tmp_path / "same.parquet")
    parquet = read_unlabeled(tmp_path / "same.parquet", like)
    assert torch.equal(parquet.inputs.batch(torch.arange(30)), found.inputs.batch(torch.arange(30)))
    wrong = cells.with_columns(pl.Series("age", ["old"] * 30))
    wrong.write_csv(tmp_path / "wrong.csv", separator=";")
    with pytest.raises(ValueError, match="column 'age' holds text, but it held numbers"):
        read_unlabeled(tmp_path / "wrong.csv", like)


def test_texts_of_table(tmp_path: Path) -> None:
    words = ["a good film", "a bad film", "good acting", "bad acting", "very good", "very bad"]
    frame = pl.DataFrame({"review": words, "mood": ["+", "-"] * 3, "id": list("abcdef")})
    frame.write_csv(tmp_path / "train.csv")
    like = seen(tmp_path / "train.csv", text="review", label="mood")
    assert (like.kind, dict(like.names)) == ("texts", {"text": "review"})
    pl.DataFrame({"review": ["good good film"], "id": ["x"]}).write_csv(tmp_path / "new.csv")
    found = read_unlabeled(tmp_path / "new.csv", like)
    assert found.ids == ("x",)
    assert tuple(found.inputs.batch(torch.arange(1)).shape) == (1, *like.shape)
    pl.DataFrame({"body": ["good good film"], "revew": [""]}).write_csv(tmp_path / "other.csv")
    with pytest.raises(ValueError, match=r"has no column 'review', did you mean revew\?"):
        read_unlabeled(tmp_path / "other.csv", like)
    same = read_unlabeled(tmp_path / "other.csv", like, text="body")
    assert torch.equal(same.inputs.batch(torch.arange(1)), found.inputs.batch(torch.arange(1)))
    with pytest.raises(ValueError, match="these are vectors of 2, but the network was trained on texts"):
        read_unlabeled(np.zeros((3, 2)), like)


def test_unlabeled_arrays(tmp_path: Path) -> None:
    values, labels = np.arange(24.0).reshape(6, 4), np.arange(6) % 2
    np.savez(tmp_path / "train.npz", embedding=values, y=labels)
    like = seen(tmp_path / "train.npz", features="embedding")
    np.savez(tmp_path / "new.npz", embedding=values[:2], x=values[:3], y=labels[:2].astype(np.float64))
    found = read_unlabeled(tmp_path / "new.npz", like, label="y")
    assert isinstance(found.inputs, Vectors)
    assert torch.equal(found.inputs.values, torch.from_numpy(values[:2]).float())
    assert found.given == ("0", "1")
    assert len(read_unlabeled(tmp_path / "new.npz", like, features="x").ids) == 3
    np.save(tmp_path / "new.npy", values)
    assert len(read_unlabeled(tmp_path / "new.npy", like).ids) == 6
    np.save(tmp_path / "wide.npy", np.zeros((3, 7)))
    with pytest.raises(ValueError, match=r"these are vectors of 7, but the network was trained on vectors of 4\."):
        read_unlabeled(tmp_path / "wide.npy", like)
    with pytest.raises(FileNotFoundError, match="there is no file or folder"):
        read_unlabeled(tmp_path / "nothing.npy", like)


def test_images_are_resized_as_in_training(tmp_path: Path) -> None:
    for name in "ab":
        write_images(tmp_path / "train" / name, 2, (90, 80))
    like = seen(tmp_path / "train", image_size=70)
    assert (like.kind, like.shape, like.size) == ("images", (3, 70, 70), 70)
    write_images(tmp_path / "new" / "deeper", 3, (100, 50))
    write_images(tmp_path / "new", 1, (20, 20), "L")
    found = read_unlabeled(tmp_path / "new", like)
    assert isinstance(found.inputs, LazyImages)
    assert found.ids == ("0.png", "deeper/0.png", "deeper/1.png", "deeper/2.png")
    assert tuple(found.inputs.batch(torch.arange(4)).shape) == (4, 3, 70, 70)
    assert read_unlabeled(tmp_path / "new" / "0.png", like).ids == ("0.png",)
    (tmp_path / "new" / "broken.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"1 image \(broken.png: no image\) cannot be read"):
        read_unlabeled(tmp_path / "new", like)
    left = read_unlabeled(tmp_path / "new", like, skip_unreadable=True)
    assert (len(left.ids), left.left_out) == (4, ("broken.png",))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty holds no images"):
        read_unlabeled(tmp_path / "empty", like)
    with pytest.raises(ValueError, match="label= has no meaning for images in files"):
        read_unlabeled(tmp_path / "new", like, label="cat")


def test_small_images_must_match_training_size_and_color(tmp_path: Path) -> None:
    for name in "ab":
        write_images(tmp_path / "train" / name, 2, (12, 10), "L")
    like = seen(tmp_path / "train")
    assert (like.shape, like.size) == ((1, 10, 12), None)
    again = read_unlabeled(tmp_path / "train", like)
    assert isinstance(again.inputs, Images)
    before = load(tmp_path / "train").inputs
    assert isinstance(before, Images)
    assert torch.equal(again.inputs.pixels, before.pixels)
    write_images(tmp_path / "new", 2, (10, 12), "L")
    with pytest.raises(ValueError, match=r"2 images \(0.png: 12 x 10, 1.png: 12 x 10\) of another size than 10 x 12"):
        read_unlabeled(tmp_path / "new", like)
    write_images(tmp_path / "new", 2, (12, 10))
    with pytest.raises(ValueError, match=r"2 images \(0.png, 1.png\) in colour"):
        read_unlabeled(tmp_path / "new", like)
    with pytest.raises(
        ValueError, match="these are images of 1 x 28 x 28, but the network was trained on images of 1 x 10"
    ):
        read_unlabeled(np.zeros((2, 28, 28), np.uint8), like)
    pl.DataFrame({"path": ["train/a/0.png"], "size": [3]}).write_csv(tmp_path / "list.csv")
    with pytest.raises(ValueError, match=r"these are rows of a table, .* name the column of paths with image="):
        read_unlabeled(tmp_path / "list.csv", like, features=["size"])
    format_list = read_unlabeled(tmp_path / "list.csv", like, image="path")
    assert format_list.ids == ("train/a/0.png",)
    assert torch.equal(format_list.inputs.batch(torch.arange(1)), before.pixels[:1])


def test_built_in_datasets() -> None:
    like = seen("digits")
    found = read_unlabeled("digits", like, split="test")
    assert len(found.ids) == 450
    assert found.given is not None
    assert set(found.given) == set("0123456789")
    with pytest.raises(ValueError, match="split and root belong to built-in data sets"):
        read_unlabeled(np.zeros((2, 8, 8), np.uint8), like, split="test")
