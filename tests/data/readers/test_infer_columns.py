"""Id and text columns inferred from their names."""

import json
from pathlib import Path

import pandas as pd
import polars as pl
import pytest
from datasets import ClassLabel, Dataset, Features, Value

from permll.data import Table, Texts
from permll.data.readers import read
from tests.helpers.reader_files import save_image, write

TEXTS = ["good", "bad", "good", "bad", "good", "bad"]  # repeats
LABELS = ["x", "y"] * 3
NUMBERS = [0.5, 1.5, 0.5, 2.5, 0.0, 1.0]


def forms(columns: dict, folder: Path) -> list:
    """Return a table as files, frames and a dataset."""
    frame = pl.DataFrame(columns)
    frame.write_csv(folder / "a.csv")
    frame.write_parquet(folder / "a.parquet")
    return [folder / "a.csv", folder / "a.parquet", frame, pd.DataFrame(columns), Dataset.from_dict(columns)]


def test_text_column_is_inferred(tmp_path: Path) -> None:
    for source in forms({"text": TEXTS, "length": NUMBERS, "label": LABELS}, tmp_path):
        data = read(source)
        assert isinstance(data.inputs, Texts)
        assert data.inputs.texts == tuple(TEXTS)
        assert data.metadata["assumed"] == ["column 'text' is the text"]
        assert data.metadata["left_out"] == [
            {"what": "column", "why": "besides the text", "count": 1, "names": ["length"]}
        ]
        assert (data.metadata["kind"], data.metadata["text"]) == ("texts", "text")
        json.dumps(data.metadata)
        chosen = read(source, features=["length", "text"])
        assert list(chosen.inputs.columns) == ["length", "text"]
        assert "assumed" not in chosen.metadata
        assert "assumed" not in read(source, text="text").metadata


def test_text_dataset_without_options() -> None:
    features = Features({"text": Value("string"), "label": ClassLabel(names=["neg", "pos"])})
    data = read(Dataset.from_dict({"text": TEXTS, "label": [1, 0] * 3}, features))
    assert isinstance(data.inputs, Texts)
    assert data.classes == ("neg", "pos")


def test_text_column_is_not_inferred_from_numbers(tmp_path: Path) -> None:
    for source in forms({"text": NUMBERS, "label": LABELS}, tmp_path):
        data = read(source)
        assert isinstance(data.inputs, Table)
        assert data.inputs.columns["text"].tolist() == NUMBERS
    for source in forms({"Text": TEXTS, "label": LABELS}, tmp_path):  # another name
        assert isinstance(read(source).inputs, Table)
    for source in forms({"text": TEXTS, "x": NUMBERS}, tmp_path):
        assert read(source, label="text").classes == ("bad", "good")


@pytest.mark.parametrize("name", ["id", "ID", "Id"])
def test_id_column_is_inferred(name: str, tmp_path: Path) -> None:
    for source in forms({"x": NUMBERS, name: [13, 11, 12, 20, 19, 18], "label": LABELS}, tmp_path):
        data = read(source)
        assert data.ids == ("13", "11", "12", "20", "19", "18")
        assert list(data.inputs.columns) == ["x"]
        assert data.metadata["assumed"] == [f"column {name!r} holds the ids"]
        assert data.metadata["left_out"] == []
        json.dumps(data.metadata)
        given = read(source, ids=list("uvwxyz"))
        assert given.ids == ("u", "v", "w", "x", "y", "z")
        kept = read(source, features=["x", name])
        assert list(kept.inputs.columns) == ["x", name]
        assert kept.ids == ("0", "1", "2", "3", "4", "5")


@pytest.mark.parametrize("values", [[1, 1, 2, 3, 4, 5], ["a", None, "b", "c", "d", "e"]])
def test_id_column_is_not_inferred_without_unique_values(values: list, tmp_path: Path) -> None:
    for source in forms({"x": NUMBERS, "id": values, "label": LABELS}, tmp_path):
        data = read(source)
        assert data.ids == ("0", "1", "2", "3", "4", "5")
        assert "assumed" not in data.metadata


def test_id_column_is_not_inferred_from_two(tmp_path: Path) -> None:
    for source in forms({"x": NUMBERS, "id": list("abcdef"), "ID": list("ghijkl"), "label": LABELS}, tmp_path):
        assert read(source).ids == ("0", "1", "2", "3", "4", "5")


def test_id_column_is_inferred_for_images(tmp_path: Path) -> None:
    for k in range(4):
        save_image(tmp_path / f"{k}.png", 50 * k)
    path = write(tmp_path / "a.csv", "file,id,label\n0.png,p,a\n1.png,q,b\n2.png,r,a\n3.png,s,b\n")
    assert read(path, image="file").ids == ("p", "q", "r", "s")
