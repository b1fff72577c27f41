"""Export of label issues for Label Studio and as CSV."""

import base64
import csv
import io
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image

from permll.cleaning.apply import export
from permll.cleaning.review_decisions import Decisions
from permll.data import load
from permll.training.run import Run
from tests.helpers.apply_runs import (
    PROPOSALS,
    ROWS,
    csv_text,
    image_folder,
    label_of,
    make_memory_run,
    make_run,
)


def checked_tasks(path: Path) -> list[dict[str, Any]]:
    """Read tasks and check that names, fields and choices match the configuration, as Label Studio requires."""
    config = ElementTree.parse(path.with_suffix(".xml")).getroot()
    (choices,) = config.iter("Choices")
    names = {tag.get("name"): tag for tag in config.iter() if tag.get("name")}
    sample = names[choices.get("toName")]
    tasks: list[dict[str, Any]] = json.loads(path.read_text())
    for task in tasks:
        for tag in (sample, *config.iter("Header")):
            assert str(tag.get("value")).removeprefix("$") in task["data"]
        (prediction,) = task["predictions"]
        assert prediction["model_version"] == "permll"
        assert prediction["score"] == task["data"]["confidence"]
        (result,) = prediction["result"]
        assert (result["from_name"], result["to_name"], result["type"]) == (
            choices.get("name"),
            choices.get("toName"),
            "choices",
        )
        (choice,) = result["value"]["choices"]
        assert choice == task["data"]["proposed_label"]
        assert choice in [tag.get("value") for tag in choices]
    return tasks


def test_export_includes_all_columns_of_table(run: Run, tmp_path: Path) -> None:
    written = export(run, tmp_path / "tasks.json", "label-studio")
    assert (written.num_labels, written.config_path, written.notes) == (3, tmp_path / "tasks.xml", ())
    tasks = checked_tasks(tmp_path / "tasks.json")
    assert [task["data"]["id"] for task in tasks] == ["3", "4", "5"]
    assert tasks[0]["data"]["row"] == {"name": "n03", "code": "003", "size": "0.42860", "kind": "cat"}
    assert "<Table " in (tmp_path / "tasks.xml").read_text()


def test_export_escapes_class_names_in_xml(tmp_path: Path) -> None:
    labels = [("A & B", '"<C>"')[row % 2] for row in range(ROWS)]
    frame = pl.DataFrame({"text": [f"some words {row}" for row in range(ROWS)], "label": labels})
    frame.write_parquet(tmp_path / "data.parquet")
    run = make_run(tmp_path / "data.parquet", tmp_path / "run", {"0": ('"<C>"', 0.9)})
    export(run, tmp_path / "tasks.json", "label-studio")
    (task,) = checked_tasks(tmp_path / "tasks.json")
    assert task["data"]["text"] == "some words 0"


def test_export_serves_images_from_folder(tmp_path: Path) -> None:
    photos = image_folder(tmp_path / "my photos")
    (photos / "cat" / "0.png").rename(photos / "cat" / "é & 0.png")
    run = make_run(photos, tmp_path / "run", {"cat/é & 0.png": ("dog", 0.9)})
    written = export(run, tmp_path / "tasks.json", "label-studio")
    (task,) = checked_tasks(tmp_path / "tasks.json")
    address = urlparse(task["data"]["image"])
    assert address.path == "/data/local-files/"
    (below,) = parse_qs(address.query)["d"]
    assert (tmp_path / below).samefile(photos / "cat" / "é & 0.png")
    assert f"DOCUMENT_ROOT={tmp_path}, and add {photos} " in written.notes[0]


def test_export_serves_images_of_table(tmp_path: Path) -> None:
    image_folder(tmp_path / "photos")
    lines = [f"photos/{label_of(row)}/{row // 3}.png,{label_of(row)}" for row in range(ROWS)]
    (tmp_path / "list.csv").write_text("\n".join(["file,label", *lines]) + "\n")
    wrong = {"photos/cat/0.png": ("dog", 0.9), "photos/owl/0.png": ("dog", 0.8)}
    run = make_run(tmp_path / "list.csv", tmp_path / "run", wrong, image="file")
    written = export(run, tmp_path / "tasks.json", "label-studio")
    addresses = [str(task["data"]["image"]) for task in checked_tasks(tmp_path / "tasks.json")]
    assert addresses == ["/data/local-files/?d=photos/cat/0.png", "/data/local-files/?d=photos/owl/0.png"]
    assert f"DOCUMENT_ROOT={tmp_path}, and add {tmp_path / 'photos'} " in written.notes[0]


def test_export_embeds_images_of_built_in_set(tmp_path: Path) -> None:
    data = load("digits")
    run = make_run("digits", tmp_path / "run", {data.ids[7]: (data.classes[(int(data.labels[7]) + 1) % 10], 0.9)})
    export(run, tmp_path / "tasks.json", "label-studio")
    (task,) = checked_tasks(tmp_path / "tasks.json")
    head, _, body = str(task["data"]["image"]).partition(",")
    assert head == "data:image/png;base64"
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(body))))
    np.testing.assert_array_equal(pixels, data.inputs.batch(torch.tensor([7]))[0, 0].numpy())


def test_export_data_in_memory_by_id(tmp_path: Path) -> None:
    run = make_memory_run(tmp_path / "run")
    export(run, tmp_path / "tasks.json", "label-studio")
    assert [task["data"]["id"] for task in checked_tasks(tmp_path / "tasks.json")] == ["2"]


@pytest.mark.parametrize("features", [3, 60])
def test_export_includes_short_vectors(features: int, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(ROWS, features)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x, y=np.array([label_of(row) for row in range(ROWS)]))
    run = make_run(tmp_path / "data.npz", tmp_path / "run", {"3": ("dog", 0.99)})
    export(run, tmp_path / "tasks.json", "label-studio")
    (task,) = checked_tasks(tmp_path / "tasks.json")
    assert ("row" in task["data"]) == (features == 3)


def test_export_csv(run: Run, tmp_path: Path) -> None:
    written = export(run, tmp_path / "look.csv", "csv")
    assert (written.num_labels, written.config_path) == (3, None)
    with (tmp_path / "look.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["id"], row["given_label"], row["proposed_label"], row["name"]) for row in rows] == [
        ("3", "cat", "dog", "n03"),
        ("4", "dog", "owl", "n04"),
        ("5", "owl", "cat", "n05"),
    ]


def test_export_csv_renames_clashing_column(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text(csv_text().replace("name", "id", 1))
    run = make_run(tmp_path / "data.csv", tmp_path / "run", {"n03": ("dog", 0.99)}, label="kind")
    export(run, tmp_path / "look.csv", "csv")
    header, line = (tmp_path / "look.csv").read_text().splitlines()
    assert header.endswith(",is_outlier,data_id,code,size,kind")
    assert line.startswith("n03,cat,dog,")


@pytest.mark.parametrize(("limit", "expected"), [(None, ["4", "5"]), (1, ["4"]), (4, 4), (1000, ROWS - 1)])
def test_export_skips_decided_labels(limit: int | None, expected: list[str] | int, run: Run, tmp_path: Path) -> None:
    decisions = Decisions(run.folder)
    decisions.add("3", "accept", "dog", "Ada", expected=None)
    decisions.add("4", "unsure", "dog", "Ada", expected=None)
    export(run, tmp_path / "look.csv", "csv", limit)
    with (tmp_path / "look.csv").open() as file:
        ids = [row["id"] for row in csv.DictReader(file)]
    assert (ids if isinstance(expected, list) else len(ids)) == expected
    assert "3" not in ids


def test_export_error_messages(run: Run, tmp_path: Path) -> None:
    (tmp_path / "there.xml").write_text("mine")
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(
        ValueError, match="unknown export format 'excel': choose from label-studio, argilla, fiftyone, csv"
    ):
        export(run, tmp_path / "look.xlsx", "excel")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"must end in \.json"):
        export(run, tmp_path / "look.csv", "label-studio")
    with pytest.raises(FileExistsError, match=r"there\.xml already exists"):
        export(run, tmp_path / "there.json", "label-studio")
    for name, (label, _) in PROPOSALS.items():
        Decisions(run.folder).add(name, "accept", label, "Ada", expected=None)
    with pytest.raises(ValueError, match="no label issues without a decision: there is nothing to export"):
        export(run, tmp_path / "look.csv", "csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == before
