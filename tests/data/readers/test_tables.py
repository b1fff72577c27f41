"""Tables in files and frames: labels, ids, features, texts and images."""

import datetime as dt
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from permll.data import Images, Table, Texts, Vectors
from permll.data.readers import read
from tests.helpers.reader_files import save_image, truncate, write

FRAME = pl.DataFrame(
    {
        "id": ["r3", "r1", "r4", "r2", "r0"],
        "size": [3.0, 1.0, 4.0, None, 0.0],
        "color": ["red", "blue", "red", None, "blue"],
        "land": ["de"] * 5,
        "species": ["cat", "dog", "cat", "dog", "cat"],
    }
)


def as_file(frame: pl.DataFrame, form: str, folder: Path) -> object:
    """Return the frame in another form or as a file."""
    if form == "polars":
        return frame
    if form == "lazy":
        return frame.lazy()
    if form == "pandas":
        return pd.DataFrame(frame.to_dict(as_series=False))
    path = folder / f"table.{form}"
    if form == "parquet":
        frame.write_parquet(path)
    else:
        frame.write_csv(path, separator="\t" if form == "tsv" else ",")
    return path


@pytest.mark.parametrize("form", ["csv", "tsv", "parquet", "polars", "lazy", "pandas"])
def test_all_table_formats_give_same_data(form: str, tmp_path: Path) -> None:
    data = read(as_file(FRAME, form, tmp_path), label="species", id="id")
    assert data.classes == ("cat", "dog")
    assert data.ids == ("r3", "r1", "r4", "r2", "r0")
    assert data.labels.tolist() == [0, 1, 0, 1, 0]
    assert list(data.inputs.columns) == ["size", "color"]
    np.testing.assert_array_equal(data.inputs.columns["size"], [3, 1, 4, np.nan, 0])
    assert data.inputs.columns["color"].tolist() == ["red", "blue", "red", "", "blue"]
    assert data.metadata["kind"] == "table"
    assert data.metadata["label"] == "species"
    assert data.metadata["left_out"] == [
        {"what": "column", "why": "the same in every row", "count": 1, "names": ["land"]},
    ]
    json.dumps(data.metadata)


@pytest.mark.parametrize("form", ["csv", "parquet", "polars", "pandas"])
def test_row_order_does_not_change_rows(form: str, tmp_path: Path) -> None:
    first = read(as_file(FRAME, form, tmp_path), label="species", id="id", features=["size", "color"])
    second = read(as_file(FRAME.sort("id"), form, tmp_path), label="species", id="id", features=["size", "color"])
    assert second.ids == ("r0", "r1", "r2", "r3", "r4")
    assert first.classes == second.classes
    again = second.take([second.ids.index(name) for name in first.ids])
    assert torch.equal(again.labels, first.labels)
    for name, column in first.inputs.columns.items():
        np.testing.assert_array_equal(again.inputs.columns[name], column)


def test_named_features_are_kept(tmp_path: Path) -> None:
    data = read(FRAME, label="species", features=["land", "id"])
    assert list(data.inputs.columns) == ["land", "id"]
    assert data.metadata["left_out"] == []
    assert list(read(FRAME, label="species", features="size").inputs.columns) == ["size"]


def test_row_number_column_is_left_out() -> None:
    frame = pl.DataFrame({"row": range(1, 21), "x": [0.5, 1.5] * 10, "y": ["a", "b"] * 10})
    data = read(frame)
    assert list(data.inputs.columns) == ["x"]
    assert data.metadata["left_out"] == [{"what": "column", "why": "row numbers", "count": 1, "names": ["row"]}]
    assert list(read(frame, features=["row"]).inputs.columns) == ["row"]
    assert list(read(frame[:6]).inputs.columns) == ["row", "x"]  # too few rows


def test_pandas_index_becomes_ids() -> None:
    frame = pd.DataFrame({"x": [1.0, 5.0, 2.0, 7.0], "y": [0, 1, 0, 1]}, index=[3, 9, 4, 1])
    assert read(frame).ids == ("3", "9", "4", "1")
    assert read(frame[frame["x"] > 1].assign(y=[0, 0, 1]), rare="keep").ids == ("9", "4", "1")
    frame.index = [1, 1, 2, 3]
    assert read(frame).ids == ("0", "1", "2", "3")


def test_pandas_types() -> None:
    frame = pd.DataFrame(
        {
            "category": pd.Categorical(["a", None, "b", "a"]),
            "nullable": pd.array([1, None, 3, 5], dtype="Int64"),
            "flag": pd.array([True, None, False, True], dtype="boolean"),
            "when": pd.to_datetime(["1970-01-02", None, "1970-01-03", "1970-01-05"]),
            "words": pd.array(["u", pd.NA, "v", "u"], dtype="string"),
            "empty_is_nan": [0.5, np.nan, 1.0, 2.0],
            "label": [True, False, True, False],
        }
    )
    data = read(frame)
    columns = data.inputs.columns
    assert columns["category"].tolist() == ["a", "", "b", "a"]
    np.testing.assert_array_equal(columns["nullable"], [1, np.nan, 3, 5])
    np.testing.assert_array_equal(columns["flag"], [1, np.nan, 0, 1])
    np.testing.assert_array_equal(columns["when"], [1, np.nan, 2, 4])
    assert columns["words"].tolist() == ["u", "", "v", "u"]
    np.testing.assert_array_equal(columns["empty_is_nan"], [0.5, np.nan, 1, 2])
    assert data.classes == ("False", "True")


def test_polars_types() -> None:
    frame = pl.DataFrame(
        {
            "day": [dt.date(1970, 1, 3), None, dt.date(1970, 1, 1)],
            "moment": [dt.datetime(1970, 1, 2, 12), None, dt.datetime(1970, 1, 1)],
            "span": [dt.timedelta(hours=36), None, dt.timedelta(0)],
            "clock": [dt.time(6), None, dt.time(0)],
            "small": pl.Series([1, None, 3], dtype=pl.Int8),
            "enum": pl.Series(["a", None, "a"], dtype=pl.Enum(["a", "b"])),
            "exact": pl.Series(["1.50", None, "2.25"]).cast(pl.Decimal(10, 2)),
            "label": ["x", "y", "x"],
        }
    )
    columns = read(frame, rare="keep").inputs.columns
    np.testing.assert_array_equal(columns["day"], [2, np.nan, 0])
    np.testing.assert_array_equal(columns["moment"], [1.5, np.nan, 0])
    np.testing.assert_array_equal(columns["span"], [1.5, np.nan, 0])
    np.testing.assert_array_equal(columns["clock"], [0.25, np.nan, 0])
    np.testing.assert_array_equal(columns["small"], [1, np.nan, 3])
    np.testing.assert_array_equal(columns["exact"], [1.5, np.nan, 2.25])
    assert columns["enum"].tolist() == ["a", "", "a"]


@pytest.mark.parametrize("name", ["label", "Labels", "class", "TARGET", "y"])
def test_default_label_columns(name: str) -> None:
    assert read(pl.DataFrame({"x": [1.0, 5.0, 2.0, 2.5], name: ["a", "b", "a", "b"]})).metadata["label"] == name


def test_free_text_column_is_read_as_text_if_only_feature() -> None:
    words = ["a good day", "a bad day", "a good day", "no day at all"]
    labels = ["x", "y", "x", "y"]
    only = read(pl.DataFrame({"sentence": words, "land": ["de"] * 4, "label": labels}))
    assert isinstance(only.inputs, Texts)
    assert only.metadata["text"] == "sentence"
    assert [entry["names"] for entry in only.metadata["left_out"]] == [["land"]]
    mixed = read(pl.DataFrame({"sentence": words, "size": [1.0, 2.0, 1.0, 3.0], "label": labels}))
    assert list(mixed.inputs.columns) == ["size"]
    assert mixed.metadata["left_out"] == [{"what": "column", "why": "free text", "count": 1, "names": ["sentence"]}]


def test_single_list_column_becomes_vectors() -> None:
    data = read(pl.DataFrame({"embedding": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]], "y": [0, 1, 0, 1]}))
    assert isinstance(data.inputs, Vectors)
    assert data.inputs.values.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]


def test_labels_argument_with_frame() -> None:
    data = read(FRAME.select("size", "color"), labels=FRAME["species"], ids=FRAME["id"].to_list())
    assert data.classes == ("cat", "dog")
    assert data.ids[0] == "r3"


@pytest.mark.parametrize(("no_label", "kept"), [(-1, "0134"), ("-1", "0134"), (-1.0, "0134"), ((-1, 7), "013")])
def test_unlabeled_rows_are_left_out(no_label: object, kept: str, tmp_path: Path) -> None:
    frame = pl.DataFrame({"x": [1.0, 5.0, 2.0, 7.0, 1.5], "label": [2, 3, -1, 3, 7]})
    data = read(as_file(frame, "csv", tmp_path), no_label=no_label, rare="keep")
    assert data.ids == tuple(kept)
    assert data.inputs.columns["x"][2] == 7
    (entry,) = data.metadata["left_out"]
    assert (entry["what"], entry["count"], entry["names"][0]) == ("row", 5 - len(kept), "2")


@pytest.mark.parametrize("no_label", ["", float("nan"), ["unknown", ""]], ids=repr)
def test_empty_cells_can_mean_no_label(no_label: object) -> None:
    frame = pl.DataFrame({"x": [1.0, 5.0, 2.0, 7.0, 3.0], "label": ["a", None, "a", "b", "b"]})
    assert read(frame, no_label=no_label).ids == ("0", "2", "3", "4")


@pytest.fixture
def listing(tmp_path: Path) -> Path:
    for k in range(4):
        save_image(tmp_path / "images" / f"{k}.png", 50 * k)
    return write(
        tmp_path / "list.csv",
        "file,label\nimages/2.png,a\nimages\\0.png,a\nimages/3.png,b\nimages/1.png,b\n",
    )


def test_image_column(listing: Path) -> None:
    data = read(listing, image="file")
    assert data.ids == ("images/2.png", "images/0.png", "images/3.png", "images/1.png")
    assert isinstance(data.inputs, Images)
    assert data.inputs.pixels[:, 0, 0, 0].tolist() == [100, 0, 150, 50]
    assert read(listing, image="file", image_size=4).inputs.pixels.shape == (4, 3, 4, 4)


def test_image_column_names_missing_files(listing: Path) -> None:
    truncate(listing.parent / "images" / "3.png", 0.3)
    with pytest.raises(ValueError, match=r"1 image \(images/3.png: damaged\) cannot be read"):
        read(listing, image="file")
    (listing.parent / "images" / "2.png").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"file not found for 1 image \(images/2.png\) of column 'file', relative to"
    ):
        read(listing, image="file")
    write(listing, "file,label\nimages/1.png,a\n,b\nimages/1.png,b\n")
    with pytest.raises(ValueError, match=r"image column 'file' is empty in 1 line \(3\)"):
        read(listing, image="file")
    write(listing, "file,label\nimages/1.png,a\nimages/0.png,b\nimages/1.png,b\n")
    with pytest.raises(ValueError, match=r"repeated: 1 id \(images/1.png in lines 2 and 4\)"):
        read(listing, image="file")


X = {"x": [1.0, 5.0, 2.0, 7.0]}
Y = {"y": ["a", "b", "a", "b"]}
NESTED = {"tags": [["u"], ["v"], [], ["u"]]}


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        ({**X, **Y}, {"label": "Yy"}, r"the frame has no column 'Yy', did you mean y\? It has 2 columns \(x, y\)"),
        ({**X, **Y}, {"features": ["x", "w"]}, r"no column 'w'. It has 2 columns"),
        ({**X, **Y}, {"text": "txt"}, r"no column 'txt'"),
        ({**X, **Y}, {"id": "key"}, r"no column 'key'"),
        (X, {}, r"the frame has 1 column \(x\), and none is named label: choose it with label="),
        ({**X, **Y, "label": Y["y"]}, {}, r"y and label could all be the labels: choose it with label="),
        ({**X, **Y}, {"label": "y", "labels": [0]}, r"label= and labels= exclude each other"),
        ({**X, **Y}, {"text": "x", "features": "x"}, r"text= and features= exclude each other"),
        ({**X, **Y}, {"labels": [0, 1]}, r"got 4 rows, 2 labels and 4 ids"),
        ({**X, **Y}, {"ids": ["a"]}, r"got 4 rows, 4 labels and 1 id\."),
        ({**X, **Y, "k": ["1", "2", "1", "3"]}, {"id": "k"}, r"repeated: 1 id \(1 in rows 0 and 2\)"),
        ({**X, **Y, "k": ["1", None, "2", "3"]}, {"id": "k"}, r"id column 'k' is empty in 1 row \(1\)"),
        ({**X, **Y, **NESTED}, {}, r"column 'tags' holds List\(String\), neither numbers nor categories"),
        ({**Y, **NESTED}, {}, r"column 'tags' holds List\(String\), not lists of numbers of one length"),
        ({**Y, "v": [[1.0], [2.0, 3.0], [1.0], [2.0]]}, {}, r"not lists of numbers of one length"),
        ({**Y, "v": [[1.0], [np.nan], [1.0], [2.0]]}, {}, r"column 'v' holds NaN or infinity in 1 row \(1\)"),
        ({**X, **Y, **NESTED}, {"text": "tags"}, r"column 'tags' holds List\(String\), not text"),
        ({"x": [1.0, np.nan, np.inf, 2.0], **Y}, {}, r"NaN or infinity in column 'x' in 2 rows \(1, 2\)"),
        ({"x": [5, 5, 5, 5], **Y}, {}, r"has no feature column \(the same in every row: x\): choose one with"),
        (Y, {}, r"has no feature column: choose one with"),
        ({"t": ["a", " ", None, "b"], **Y}, {"text": "t"}, r"text column 't' is empty in 2 rows \(1, 2\)"),
        ({**X, **Y}, {"image_size": 8}, r"image_size= is only supported for images"),
        ({**X, **Y}, {"image_size": 0}, r"image_size must be a number of pixels, the side of a square; got 0"),
        ({**X, **Y}, {"classes": "names"}, r"classes must be a list of names, got the text 'names'"),
        ({**X, **Y}, {"classes": ["a", "c"]}, r"one of the 2 classes; unknown labels in 2 rows \(1: b, 3: b\)"),
        ({**X, **Y}, {"rare": "merge"}, r"rare must be one of refuse, drop, keep; got 'merge'"),
        ({"x": [*"abcab"], "y": ["a", "b", None, "b", "a"]}, {}, r"labels are missing in 1 row \(2\): .*no_label=\"\""),
        ({**X, "y": ["?", "?", "?", "?"]}, {"no_label": "?"}, r"no row has a label: all 4 are '\?'"),
    ],
)
def test_table_reader_rejects_invalid_tables(frame: dict, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read(pl.DataFrame(frame), **options)
    assert "\n" not in str(caught.value)


def test_mixed_pandas_column_is_named() -> None:
    with pytest.raises(ValueError, match=r"mix text and numbers: text in 1 row \(1\)"):
        read(pd.DataFrame({"x": [1, 2, 5], "y": [1, "a", 2]}))
    with pytest.raises(ValueError, match=r"column 'x' holds values of several types"):
        read(pd.DataFrame({"x": [1, "a", 2], "y": [1, 2, 2]}))
    repeated = pd.DataFrame([[1, 2, 3]], columns=["x", "x", "y"])
    with pytest.raises(ValueError, match=r"column names must be unique; repeated: 1 name \(x\)"):
        read(repeated)


def test_damaged_parquet_file_raises(tmp_path: Path) -> None:
    path = as_file(FRAME, "parquet", tmp_path)
    truncate(path)
    with pytest.raises(ValueError, match=r"table.parquet cannot be read as Parquet: ") as caught:
        read(path)
    assert "\n" not in str(caught.value)


def test_missing_polars_gives_install_hint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "x,y\n1,a\n")
    monkeypatch.setitem(sys.modules, "polars", None)  # makes the import fail
    monkeypatch.delitem(sys.modules, "permll.data.readers.tables", raising=False)
    with pytest.raises(ImportError, match=r"tables need polars: pip install 'permll\[table\]'"):
        read(path)


def test_table_sample_has_python_types() -> None:
    inputs = read(FRAME, label="species").inputs
    assert isinstance(inputs, Table)
    assert {name: column.dtype.kind for name, column in inputs.columns.items()} == {"size": "f", "color": "O"}


SIZES = ["small", "large", "medium", "large", "small", "medium"]


def test_ordered_categories_set_class_order() -> None:
    ordered = pd.Categorical(SIZES, categories=["small", "medium", "large", "huge"], ordered=True)
    x = [1.0, 5.0, 2.0, 7.0, 3.0, 0.0]
    enum = pl.Series("label", SIZES, dtype=pl.Enum(["small", "medium", "large", "huge"]))
    sources = [
        read(pd.DataFrame({"x": x, "label": ordered})),
        read(pl.DataFrame({"x": x, "label": enum})),
        read([[value] for value in x], labels=ordered),
        read([[value] for value in x], labels=pd.Series(ordered, index=list("abcdef"))),
    ]
    for data in sources:
        assert data.classes == ("small", "medium", "large")  # no sample is huge
        assert [data.classes[label] for label in data.labels.tolist()] == SIZES
    assert read(pd.DataFrame({"x": x, "label": ordered.as_unordered()})).classes == ("large", "medium", "small")
    named = read(pd.DataFrame({"x": x, "label": ordered}), classes=["large", "medium", "small"])
    assert named.classes == ("large", "medium", "small")


def test_ordered_categories_of_numbers_and_missing_labels() -> None:
    stars = pd.Categorical([5, 1, None, 5, 1, 3, 3], categories=[5, 3, 1], ordered=True)
    frame = pd.DataFrame({"x": [1.0, 5.0, 2.0, 7.0, 3.0, 0.0, 9.0], "label": stars})
    data = read(frame, no_label="")
    assert data.classes == ("5", "3", "1")
    assert [data.classes[label] for label in data.labels.tolist()] == ["5", "1", "5", "1", "3", "3"]
    assert read(frame, no_label=["", 3]).classes == ("5", "1")
    with pytest.raises(ValueError, match=r"labels are missing in 1 row \(2\)"):
        read(frame)


def test_non_numeric_cell_in_frame_is_named_unless_categorical() -> None:
    cells = [*map(str, range(20)), "2o"]
    labels = ["a", "b"] * 10 + ["a"]
    for frame in (pl.DataFrame({"x": cells, "y": labels}), pd.DataFrame({"x": cells, "y": labels})):
        with pytest.raises(ValueError, match=r"column 'x' holds numbers except in 1 row \(20: '2o'\)"):
            read(frame)
    declared = [
        pd.DataFrame({"x": cells, "y": labels}).astype({"x": "category"}),
        pl.DataFrame({"x": pl.Series(cells, dtype=pl.Categorical), "y": labels}),
    ]
    for frame in declared:
        assert read(frame, features="x").inputs.columns["x"].tolist() == cells
