"""Samples that belong to no class are left out, and classes that a reviewer adds are written, in every format."""

import csv
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.torch import load_file, save_file

from permll.cleaning.apply import apply, plan
from permll.cleaning.apply.api import execute
from permll.cleaning.review_decisions import Decisions
from permll.data import load
from permll.training.run import Run
from tests.helpers.apply_runs import (
    ROWS,
    csv_text,
    feature_array,
    image_folder,
    label_of,
    make_memory_run,
    make_run,
)

NUMBERS = np.arange(ROWS) % 3 * 10


def decide(run: Run, dropped: str, added: str, new_class: str) -> None:
    decisions = Decisions(run.folder)
    decisions.add(dropped, "drop", "", "Ada", expected=None)
    decisions.add(added, "choose", new_class, "Ada", expected=None)


def changes_of(path: Path) -> list[tuple[str, ...]]:
    with path.open(newline="") as file:
        return [tuple(row[name] for name in ("id", "before", "after", "source")) for row in csv.DictReader(file)]


def write_source(suffix: str, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Write a data set with integer labels; return its path and reader options."""
    source = folder / f"data.{suffix}"
    x, texts = feature_array(), np.array([f"note {row}" for row in range(ROWS)])
    if suffix in ("csv", "tsv"):
        end = {"csv": ",", "tsv": "\t"}[suffix]
        lines = [f"{value:.4f}{end}{label}" for value, label in zip(x[:, 0], NUMBERS, strict=True)]
        source.write_text("\n".join([f"size{end}label", *lines]) + "\n")
    elif suffix == "parquet":
        pl.DataFrame({"size": x[:, 0], "label": NUMBERS}).write_parquet(source)
    elif suffix == "npz":
        np.savez(source, x=x, y=NUMBERS, note=texts, info=np.array("Ada's"))
    elif suffix == "npy":
        np.save(source, x)
        np.save(folder / "y.npy", NUMBERS)
        return source, {"labels": str(folder / "y.npy")}
    else:
        save_file({"x": torch.from_numpy(x), "y": torch.from_numpy(NUMBERS), "k": torch.arange(ROWS)}, source)
    return source, {}


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "npz", "npy", "safetensors"])
def test_output_lacks_dropped_row_and_has_new_class(suffix: str, tmp_path: Path) -> None:
    source, options = write_source(suffix, tmp_path)
    run = make_run(source, tmp_path / "run", {"3": ("10", 0.99)}, **options)
    before = load(source, **options)
    decide(run, "4", "7", "70")
    out = tmp_path / f"new.{'npz' if suffix == 'npy' else suffix}"
    applied = apply(run, out)
    label = {"npz": "y", "safetensors": "y"}.get(suffix, "label")
    after = load(out, label=label, rare="keep")
    assert (applied.num_changed, applied.num_dropped, len(after)) == (1, 1, ROWS - 1)
    kept = [row for row in range(ROWS) if row != 4]
    assert [after[row].label for row in range(ROWS - 1)] == ["70" if row == 7 else before[row].label for row in kept]
    samples = [data.inputs.get_sample(row) for data, row in [(after, 4), (before, 5)]]
    assert str(samples[0]) == str(samples[1])
    assert changes_of(applied.changes_path) == [("4", "10", "", "dropped"), ("7", "10", "70", "chosen")]
    assert "New class: 70 (1 sample)." in applied.notes
    assert "Fewer than two samples are in 1 class (70)." in applied.notes
    if suffix == "npz":
        arrays = np.load(out)
        assert (arrays["note"][4], str(arrays["info"]), arrays["label_source"].tolist()[6]) == (
            "note 5",
            "Ada's",
            "chosen",
        )
    if suffix == "safetensors":
        assert load_file(out)["k"].tolist() == kept


def test_csv_without_dropped_line_preserves_the_others(tmp_path: Path) -> None:
    lines = csv_text(end="\r\n").splitlines(keepends=True)
    content = "".join([*lines[:3], "\r\n", *lines[3:]]).rstrip("\r\n")  # a blank line, and no end of the last one
    (tmp_path / "data.csv").write_bytes(content.encode())
    run = make_run(tmp_path / "data.csv", tmp_path / "run", {"n03": ("dog", 0.99)}, label="kind", id="name")
    decisions = Decisions(run.folder)
    for name in ("n00", "n05"):
        decisions.add(name, "drop", "", "Ada", expected=None)
    apply(run, tmp_path / "new.csv")
    written = (tmp_path / "new.csv").read_bytes().decode().split("\r\n")
    old = [line for line in content.split("\r\n") if not line.startswith(("n00", "n05"))]
    assert [line.split(",")[:4] for line in written] == [line.split(",") for line in old]


@pytest.mark.parametrize("mode", ["link", "copy", "csv"])
def test_dropped_image_is_moved_aside(mode: Any, tmp_path: Path) -> None:
    photos = image_folder(tmp_path / "photos")
    run = make_run(photos, tmp_path / "run", {"cat/0.png": ("dog", 0.99)})
    decide(run, "cat/1.png", "dog/2.png", "a new class")
    out = tmp_path / ("new.csv" if mode == "csv" else "new")
    applied = apply(run, out, images=mode)
    assert changes_of(applied.changes_path) == [
        ("cat/1.png", "cat", "", "dropped"),
        ("dog/2.png", "dog", "a new class", "chosen"),
    ]
    if mode == "csv":
        assert applied.dropped_path is None
        with out.open(newline="") as file:
            rows = {row["path"]: row["label"] for row in csv.DictReader(file)}
        assert (len(rows), rows["photos/dog/2.png"]) == (ROWS - 1, "a new class")
        assert "photos/cat/1.png" not in rows
        return
    assert applied.dropped_path == tmp_path / "new.dropped"
    assert (tmp_path / "new.dropped/cat/1.png").read_bytes() == (photos / "cat/1.png").read_bytes()
    assert (tmp_path / "new.dropped/cat/1.png").is_symlink() == (mode == "link")
    assert (tmp_path / "new/a new class/2.png").read_bytes() == (photos / "dog/2.png").read_bytes()
    assert not (tmp_path / "new/cat/1.png").exists()
    assert len(load(tmp_path / "new", rare="keep")) == ROWS - 1


def test_apply_refuses_existing_folder_of_dropped_images(tmp_path: Path) -> None:
    run = make_run(image_folder(tmp_path / "photos"), tmp_path / "run", {"cat/0.png": ("dog", 0.99)})
    (tmp_path / "new.dropped").mkdir()
    Decisions(run.folder).add("cat/1.png", "drop", "", "Ada", expected=None)
    with pytest.raises(FileExistsError, match=r"new\.dropped already exists"):
        apply(run, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_failed_write_leaves_no_folder_of_dropped_images(tmp_path: Path) -> None:
    photos = image_folder(tmp_path / "photos")
    run = make_run(photos, tmp_path / "run", {"cat/0.png": ("dog", 0.99)})
    Decisions(run.folder).add("owl/7.png", "drop", "", "Ada", expected=None)
    planned = plan(run)
    (photos / "owl/7.png").unlink()  # the last image that is written
    with pytest.raises(FileNotFoundError, match=r"owl/7\.png"):
        execute(planned, tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["photos", "run"]


def test_new_class_of_ordered_categories_is_added(tmp_path: Path) -> None:
    labels = pl.Series("label", [("low", "high")[row % 2] for row in range(ROWS)], dtype=pl.Enum(["low", "high"]))
    pl.DataFrame({"size": feature_array()[:, 0], "label": labels}).write_parquet(tmp_path / "data.parquet")
    run = make_run(tmp_path / "data.parquet", tmp_path / "run", {"3": ("low", 0.99)})
    Decisions(run.folder).add("0", "choose", "middle", "Ada", expected=None)
    apply(run, tmp_path / "new.parquet")
    column = pl.read_parquet(tmp_path / "new.parquet")["label"]
    assert (column.dtype, column[0]) == (pl.Enum(["low", "high", "middle"]), "middle")


def test_new_class_of_numbered_names_gets_the_next_number(tmp_path: Path) -> None:
    names = np.array(["cat", "dog", "owl"])
    np.savez(tmp_path / "data.npz", x=feature_array(), y=(np.arange(ROWS) % 3).astype(np.uint8), names=names)
    run = make_run(tmp_path / "data.npz", tmp_path / "run", {"0": ("dog", 0.99)}, classes="names")
    decide(run, "5", "7", "a longer name")
    apply(run, tmp_path / "new.npz")
    after = load(tmp_path / "new.npz", classes="names", rare="keep")
    assert (after.classes, after[6].label, len(after)) == (("cat", "dog", "owl", "a longer name"), "a longer name", 23)
    given = make_run(tmp_path / "data.npz", tmp_path / "run2", {"0": ("dog", 0.99)}, classes=["cat", "dog", "owl"])
    Decisions(given.folder).add("7", "choose", "ox", "Ada", expected=None)
    applied = apply(given, tmp_path / "two.npz")
    assert np.load(tmp_path / "two.npz")["y"][7] == 3
    (command,) = applied.commands
    assert 'data.options.classes=["cat", "dog", "owl", "ox"]' in shlex.split(command)


@pytest.mark.parametrize("suffix", ["npz", "safetensors", "parquet"])
def test_new_class_must_fit_the_type_of_the_labels(suffix: str, tmp_path: Path) -> None:
    labels = NUMBERS.astype(np.uint8)
    if suffix == "parquet":
        pl.DataFrame({"size": feature_array()[:, 0], "label": labels}).write_parquet(tmp_path / "data.parquet")
    elif suffix == "npz":
        np.savez(tmp_path / "data.npz", x=feature_array(), y=labels)
    else:
        save_file({"x": torch.from_numpy(feature_array()), "y": torch.from_numpy(labels)}, tmp_path / f"data.{suffix}")
    run = make_run(tmp_path / f"data.{suffix}", tmp_path / "run", {"3": ("10", 0.99)})
    Decisions(run.folder).add("7", "choose", "300", "Ada", expected=None)
    with pytest.raises(ValueError, match="a new class does not fit the labels, which are"):
        apply(run, tmp_path / f"new.{suffix}")
    assert not (tmp_path / f"new.{suffix}").exists()


def test_boolean_labels_take_no_new_class(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=feature_array(), y=np.arange(ROWS) % 2 == 0)
    run = make_run(tmp_path / "data.npz", tmp_path / "run", {"3": ("True", 0.99)})
    Decisions(run.folder).add("7", "choose", "maybe", "Ada", expected=None)
    with pytest.raises(ValueError, match="are true or false, so 'maybe' cannot be added as a class"):
        apply(run, tmp_path / "new.npz")


def test_data_in_memory_are_listed_without_dropped_samples(tmp_path: Path) -> None:
    run = make_memory_run(tmp_path / "run")
    decide(run, "2", "3", "ox")
    applied = apply(run, tmp_path / "new.csv")
    with applied.path.open(newline="") as file:
        rows = {row["id"]: row["label"] for row in csv.DictReader(file)}
    assert list(rows) == [str(row) for row in range(ROWS) if row != 2]
    assert rows["3"] == "ox"


def test_built_in_set_with_dropped_sample_has_no_train_command(tmp_path: Path) -> None:
    digits = load("digits")
    run = make_run("digits", tmp_path / "run", {digits.ids[0]: ("1", 0.9)})
    Decisions(run.folder).add(digits.ids[5], "drop", "", "Ada", expected=None)
    applied = apply(run, tmp_path / "new.csv")
    assert applied.commands == ()
    assert len(applied.path.read_text().splitlines()) == len(digits)  # the header instead of the dropped sample


def test_second_round_keeps_history_after_a_drop(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text(csv_text())
    one = make_run(tmp_path / "data.csv", tmp_path / "run", {"n03": ("dog", 0.99)}, label="kind", id="name")
    decide(one, "n01", "n02", "ox")
    apply(one, tmp_path / "one.csv")
    options = {"label": "kind", "id": "name", "rare": "keep"}
    two = make_run(tmp_path / "one.csv", tmp_path / "run2", {"n03": ("dog", 0.99)}, **options)
    Decisions(two.folder).add("n03", "accept", "dog", "Ada", expected=None)
    apply(two, tmp_path / "two.csv")
    with (tmp_path / "two.csv").open(newline="") as file:
        rows = {row["name"]: (row["kind"], row["label_original"], row["label_source"]) for row in csv.DictReader(file)}
    assert "n01" not in rows
    assert rows["n02"] == ("ox", label_of(2), "chosen")
    assert rows["n03"] == ("dog", "cat", "accepted")


def test_integer_labels_take_no_other_class(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=feature_array(), y=NUMBERS)
    run = make_run(tmp_path / "data.npz", tmp_path / "run", {"3": ("10", 0.99)})
    Decisions(run.folder).add("7", "choose", "maybe", "Ada", expected=None)
    with pytest.raises(ValueError, match="are integers, so 'maybe' cannot be added as a class"):
        apply(run, tmp_path / "new.npz")
