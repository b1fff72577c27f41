"""Parquet, NumPy and safetensors files with new labels: names, types and all other values are preserved."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from permll.cleaning.apply import apply
from permll.cleaning.apply.corrections import LABEL_SOURCES
from permll.cleaning.review_decisions import Decisions
from permll.data import load
from permll.training.run import Run
from tests.helpers.apply_runs import CLASSES, ROWS, feature_array, label_of, make_run, train_run


def labels_as(kind: str) -> list[Any]:
    """Return the labels as text, numbers or booleans."""
    words = [label_of(row) for row in range(ROWS)]
    return {
        "text": words,
        "numbers": [10 * CLASSES.index(word) for word in words],
        "boolean": [w == "cat" for w in words],
    }[kind]


@pytest.mark.parametrize(
    ("labels", "kind", "new"),
    [
        ("text", pl.String, ("owl", "owl")),
        ("text", pl.Categorical, ("owl", "owl")),
        ("text", pl.Enum(["owl", "dog", "cat"]), ("owl", "owl")),
        ("numbers", pl.Int16, ("20", 20)),
        ("boolean", pl.Boolean, ("False", False)),
    ],
)
def test_parquet_writer_preserves_types(labels: str, kind: Any, new: tuple[str, Any], tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "when": pl.Series([f"2024-01-{row + 1:02d}" for row in range(ROWS)]).str.to_date(),
            "label": pl.Series(labels_as(labels), dtype=kind),
            "size": pl.Series(feature_array()[:, 0]),
            "few": pl.Series([None if row % 3 else row % 5 for row in range(ROWS)], dtype=pl.UInt8),
        }
    )
    frame.write_parquet(tmp_path / "data.parquet", metadata={"shop": "Ada's"})
    run = make_run(tmp_path / "data.parquet", tmp_path / "run", {"3": (new[0], 0.99)})
    applied = apply(run, tmp_path / "new.parquet", auto=True)
    after = pl.read_parquet(tmp_path / "new.parquet")
    assert after.columns == [*frame.columns, "label_original", "label_source"]
    assert after.drop("label", "label_original", "label_source").equals(frame.drop("label"))
    assert after["label"].dtype == after["label_original"].dtype == frame["label"].dtype
    assert after["label_original"].to_list() == frame["label"].to_list()
    assert after["label"].to_list() == [new[1] if row == 3 else value for row, value in enumerate(frame["label"])]
    assert after["label_source"].to_list() == ["auto" if row == 3 else "given" for row in range(ROWS)]
    assert pl.read_parquet_metadata(tmp_path / "new.parquet")["shop"] == "Ada's"
    assert load(applied.path)[3].label == new[0]


def test_parquet_writer_second_round(tmp_path: Path) -> None:
    pl.DataFrame({"size": feature_array()[:, 0], "label": labels_as("text")}).write_parquet(tmp_path / "data.parquet")
    one = make_run(tmp_path / "data.parquet", tmp_path / "run", {"3": ("owl", 0.99)})
    apply(one, tmp_path / "one.parquet", auto=True)
    two = make_run(tmp_path / "one.parquet", tmp_path / "run2", {"3": ("dog", 0.99), "4": ("cat", 0.99)})
    Decisions(two.folder).add("3", "accept", "dog", "Ada", expected=None)
    apply(two, tmp_path / "two.parquet")
    rows = pl.read_parquet(tmp_path / "two.parquet").select("label", "label_original", "label_source").rows()
    assert rows[3:5] == [("dog", "cat", "accepted"), ("dog", "dog", "given")]


def write_vectors(path: Path) -> None:
    pl.DataFrame({"embedding": feature_array().tolist(), "label": labels_as("text")}).write_parquet(path)


def test_train_command_names_vector_column(tmp_path: Path) -> None:
    write_vectors(tmp_path / "data.parquet")
    run = make_run(tmp_path / "data.parquet", tmp_path / "run", {"3": ("owl", 0.99)})
    (command,) = apply(run, tmp_path / "new.parquet", auto=True).commands
    assert command.endswith("""--label label --set 'data.options.features=["embedding"]'""")
    assert load(tmp_path / "new.parquet", label="label", features=["embedding"])[3].label == "owl"


def test_parquet_vectors_survive_two_rounds(tmp_path: Path) -> None:
    write_vectors(tmp_path / "data.parquet")
    before = load(tmp_path / "data.parquet")
    one = make_run(tmp_path / "data.parquet", tmp_path / "run", {"3": ("owl", 0.99)})
    apply(one, tmp_path / "one.parquet", auto=True)
    after = load(tmp_path / "one.parquet")
    assert (after.ids, after.classes, repr(after.inputs)) == (before.ids, before.classes, "Vectors of 3")
    every = torch.arange(ROWS)
    assert torch.equal(after.inputs.batch(every), before.inputs.batch(every))
    assert (after.labels != before.labels).nonzero()[:, 0].tolist() == [3]
    assert after.metadata["features"] == ["embedding"]
    assert [note["names"] for note in after.metadata["left_out"]] == [["label_original", "label_source"]]
    two = train_run(tmp_path / "one.parquet", tmp_path / "run2", {"4": ("cat", 0.99)})
    apply(two, tmp_path / "two.parquet", auto=True)
    rows = pl.read_parquet(tmp_path / "two.parquet").select("label", "label_original", "label_source").rows()
    assert rows[3:5] == [("owl", "cat", "auto"), ("cat", "dog", "auto")]
    with pytest.raises(ValueError, match="neither numbers nor categories"):
        load(tmp_path / "one.parquet", features=["embedding", "label_source"])  # named explicitly


def arrays_of(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    with np.load(path, allow_pickle=False) as saved:
        return {name: saved[name] for name in saved.files}


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    ("labels", "kind", "new"),
    [("text", "<U3", ("owl", "owl")), ("text", "S3", ("owl", b"owl")), ("numbers", "int16", ("20", 20))],
)
def test_npz_writer_preserves_arrays(
    labels: str, kind: str, new: tuple[str, Any], compressed: bool, tmp_path: Path
) -> None:
    before = {
        "x": feature_array(),
        "y": np.array(labels_as(labels), kind),
        "file": np.arange(3),
        "note": np.array("Ada's"),
    }
    save_npz(tmp_path / "data.npz", before, compressed=compressed)
    run = make_run(tmp_path / "data.npz", tmp_path / "run", {"3": (new[0], 0.99)})
    apply(run, tmp_path / "new.npz", auto=True)
    after = arrays_of(tmp_path / "new.npz")
    assert set(after) == {*before, "label_original", "label_source"}
    for name in ("x", "file", "note"):
        assert after[name].dtype == before[name].dtype
        np.testing.assert_array_equal(after[name], before[name])
    assert after["y"].dtype == after["label_original"].dtype == before["y"].dtype
    assert after["label_original"].tolist() == before["y"].tolist()
    assert np.flatnonzero(after["y"] != before["y"]).tolist() == [3]
    assert after["y"][3] == new[1]
    assert after["label_source"].tolist() == ["auto" if row == 3 else "given" for row in range(ROWS)]
    assert load(tmp_path / "new.npz")[3].label == new[0]
    kinds = {info.compress_type for info in zipfile.ZipFile(tmp_path / "new.npz").infolist()}
    assert kinds == {zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED}


def save_npz(path: Path, arrays: dict[str, np.ndarray[Any, Any]], *, compressed: bool) -> None:
    """Write arrays of any name; np.savez does not accept one called ``file``."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as file:
        for name, array in arrays.items():
            with file.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def test_npz_writer_second_round(tmp_path: Path) -> None:
    labels = np.array([("ox", "dove")[row % 2] for row in range(ROWS)])
    np.savez(tmp_path / "data.npz", x=feature_array(), y=labels)
    one = make_run(tmp_path / "data.npz", tmp_path / "run", {"0": ("dove", 0.99)})
    apply(one, tmp_path / "one.npz", auto=True)
    two = make_run(tmp_path / "one.npz", tmp_path / "run2", {"0": ("ox", 0.99), "1": ("ox", 0.99)}, label="y")
    Decisions(two.folder).add("1", "accept", "ox", "Ada", expected=None)
    apply(two, tmp_path / "two.npz")
    after = arrays_of(tmp_path / "two.npz")
    columns = [after[name][:3].tolist() for name in ("y", "label_original", "label_source")]
    assert columns == [["dove", "ox", "ox"], ["ox", "dove", "ox"], ["auto", "accepted", "given"]]


def test_npz_writer_keeps_indices_into_class_names(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=feature_array(), y=np.arange(ROWS) % 3, names=np.array(["7", "5", "3", "1"]))
    options = {"classes": "names", "rare": "keep"}
    run = make_run(tmp_path / "data.npz", tmp_path / "run", {"0": ("3", 0.99)}, **options)
    Decisions(run.folder).add("1", "choose", "1", "Ada", expected=None)
    apply(run, tmp_path / "new.npz", auto=True)
    assert arrays_of(tmp_path / "new.npz")["y"][:3].tolist() == [2, 3, 2]
    assert [load(tmp_path / "new.npz", **options)[row].label for row in range(3)] == ["3", "1", "3"]


@pytest.mark.parametrize("labels", ["text", "numbers"])
def test_npy_writer_merges_labels_into_npz(labels: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", feature_array())
    np.save(tmp_path / "y.npy", np.array(labels_as(labels)))
    new = {"text": "owl", "numbers": "20"}[labels]
    run = make_run(tmp_path / "x.npy", tmp_path / "run", {"3": (new, 0.99)}, labels=str(tmp_path / "y.npy"))
    with pytest.raises(ValueError, match=r"must end in \.npz"):
        apply(run, tmp_path / "new.npy", auto=True)
    applied = apply(run, tmp_path / "new.npz", auto=True)
    assert applied.commands == (f"permll train --data {tmp_path}/new.npz --label label",)
    data = load(tmp_path / "new.npz", label="label")
    np.testing.assert_array_equal(data.inputs.batch(torch.arange(ROWS)).numpy(), feature_array())
    assert data[3].label == new
    assert arrays_of(tmp_path / "new.npz")["label_original"].tolist() == labels_as(labels)


def test_safetensors_writer_preserves_tensors_and_metadata(tmp_path: Path) -> None:
    x, y = torch.from_numpy(feature_array()).to(torch.bfloat16), torch.tensor(labels_as("numbers"), dtype=torch.int32)
    save_file({"x": x, "y": y}, tmp_path / "data.safetensors", metadata={"shop": "Ada's"})
    run = make_run(tmp_path / "data.safetensors", tmp_path / "run", {"3": ("20", 0.99)})
    apply(run, tmp_path / "one.safetensors", auto=True)
    after = load_file(tmp_path / "one.safetensors")
    assert torch.equal(after["x"], x)
    assert torch.equal(after["label_original"], y)
    assert after["y"].dtype == torch.int32
    assert after["y"].tolist() == [20 if row == 3 else value for row, value in enumerate(y.tolist())]
    assert [LABEL_SOURCES[k] for k in after["label_source"].tolist()] == [
        "auto" if r == 3 else "given" for r in range(ROWS)
    ]
    with safe_open(tmp_path / "one.safetensors", framework="pt") as file:
        assert file.metadata()["shop"] == "Ada's"
        assert "5 = auto" in file.metadata()["label_source"]
    two = make_run(tmp_path / "one.safetensors", tmp_path / "run2", {"3": ("10", 0.99), "4": ("0", 0.9)}, label="y")
    Decisions(two.folder).add("4", "accept", "0", "Ada", expected=None)
    apply(two, tmp_path / "two.safetensors")
    twice = load_file(tmp_path / "two.safetensors")
    assert (twice["y"][3:5].tolist(), twice["label_original"][3:5].tolist()) == ([20, 0], [0, 10])
    assert [LABEL_SOURCES[k] for k in twice["label_source"][3:5].tolist()] == ["auto", "accepted"]


@pytest.mark.parametrize("suffix", ["parquet", "npz", "npy", "safetensors"])
def test_apply_does_not_change_source_or_run(suffix: str, tmp_path: Path) -> None:
    source, options = tmp_path / f"data.{suffix}", {}
    if suffix == "parquet":
        pl.DataFrame({"size": feature_array()[:, 0], "label": labels_as("numbers")}).write_parquet(source)
    elif suffix == "npz":
        np.savez(source, x=feature_array(), y=np.array(labels_as("numbers")))
    elif suffix == "npy":
        np.save(source, feature_array())
        np.save(tmp_path / "y.npy", np.array(labels_as("numbers")))
        options = {"labels": str(tmp_path / "y.npy")}
    else:
        save_file({"x": torch.from_numpy(feature_array()), "y": torch.tensor(labels_as("numbers"))}, source)
    run: Run = make_run(source, tmp_path / "run", {"3": ("20", 0.99)}, **options)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    apply(run, tmp_path / f"new.{'npz' if suffix == 'npy' else suffix}", auto=True)
    assert {path: path.read_bytes() for path in before} == before
