"""Labels to look at, for Label Studio and as CSV."""

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

import permll
from permll.cleaning.apply import export
from permll.cleaning.decisions import Decisions
from permll.data import load
from permll.findings import Findings
from permll.training.run import Run
from tests.helpers.apply_runs import PROPOSALS, ROWS, animal, image_folder, make_run, numbers, table_text


def checked_tasks(path: Path) -> list[dict[str, Any]]:
    """Read tasks and configuration as Label Studio does: names, fields and choices must go together."""
    config = ElementTree.parse(path.with_suffix(".xml")).getroot()
    (choices,) = config.iter("Choices")
    names = {tag.get("name"): tag for tag in config.iter() if tag.get("name")}
    shown = names[choices.get("toName")]
    tasks: list[dict[str, Any]] = json.loads(path.read_text())
    for task in tasks:
        for tag in (shown, *config.iter("Header")):
            assert str(tag.get("value")).removeprefix("$") in task["data"]
        (prediction,) = task["predictions"]
        assert prediction["model_version"] == "permll"
        assert prediction["score"] == task["data"]["belief"]
        (result,) = prediction["result"]
        assert (result["from_name"], result["to_name"], result["type"]) == (
            choices.get("name"),
            choices.get("toName"),
            "choices",
        )
        (choice,) = result["value"]["choices"]
        assert choice == task["data"]["proposed"]
        assert choice in [tag.get("value") for tag in choices]
    return tasks


def test_rows_of_a_table_go_whole(run: Run, tmp_path: Path) -> None:
    written = export(run, tmp_path / "tasks.json", "label-studio")
    assert (written.count, written.configuration, written.notes) == (3, tmp_path / "tasks.xml", ())
    tasks = checked_tasks(tmp_path / "tasks.json")
    assert [task["data"]["id"] for task in tasks] == ["3", "4", "5"]
    assert tasks[0]["data"]["row"] == {"name": "n03", "code": "003", "size": "0.42860", "kind": "cat"}
    assert "<Table " in (tmp_path / "tasks.xml").read_text()


def test_texts_with_signs_of_xml(tmp_path: Path) -> None:
    labels = [("A & B", '"<C>"')[row % 2] for row in range(ROWS)]
    frame = pl.DataFrame({"text": [f"some words {row}" for row in range(ROWS)], "label": labels})
    frame.write_parquet(tmp_path / "data.parquet")
    run = make_run(tmp_path / "data.parquet", tmp_path / "run", {"0": ('"<C>"', 0.9)})
    export(run, tmp_path / "tasks.json", "label-studio")
    (task,) = checked_tasks(tmp_path / "tasks.json")
    assert task["data"]["text"] == "some words 0"


def test_images_are_served_from_their_folder(tmp_path: Path) -> None:
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


def test_images_of_a_table_are_served_from_where_they_are(tmp_path: Path) -> None:
    image_folder(tmp_path / "photos")
    lines = [f"photos/{animal(row)}/{row // 3}.png,{animal(row)}" for row in range(ROWS)]
    (tmp_path / "list.csv").write_text("\n".join(["file,label", *lines]) + "\n")
    wrong = {"photos/cat/0.png": ("dog", 0.9), "photos/owl/0.png": ("dog", 0.8)}
    run = make_run(tmp_path / "list.csv", tmp_path / "run", wrong, image="file")
    written = export(run, tmp_path / "tasks.json", "label-studio")
    addresses = [str(task["data"]["image"]) for task in checked_tasks(tmp_path / "tasks.json")]
    assert addresses == ["/data/local-files/?d=photos/cat/0.png", "/data/local-files/?d=photos/owl/0.png"]
    assert f"DOCUMENT_ROOT={tmp_path}, and add {tmp_path / 'photos'} " in written.notes[0]


def test_images_of_a_built_in_set_go_into_the_file(tmp_path: Path) -> None:
    data = load("digits")
    run = make_run("digits", tmp_path / "run", {data.ids[7]: (data.classes[(int(data.labels[7]) + 1) % 10], 0.9)})
    export(run, tmp_path / "tasks.json", "label-studio")
    (task,) = checked_tasks(tmp_path / "tasks.json")
    head, _, body = str(task["data"]["image"]).partition(",")
    assert head == "data:image/png;base64"
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(body))))
    np.testing.assert_array_equal(pixels, data.inputs.batch(torch.tensor([7]))[0, 0].numpy())


def test_data_in_memory_go_by_id(tmp_path: Path) -> None:
    data = permll.data.load(numbers(), labels=[animal(row) for row in range(ROWS)])
    run = permll.train(data, "permll", out=tmp_path / "run", epochs=1, callbacks=[])
    posterior = torch.nn.functional.one_hot((data.labels + (torch.arange(ROWS) == 2)) % 3, 3)
    Findings.from_posterior(data.ids, data.classes, data.labels, posterior).save(run.folder)
    export(run, tmp_path / "tasks.json", "label-studio")
    assert [task["data"]["id"] for task in checked_tasks(tmp_path / "tasks.json")] == ["2"]


@pytest.mark.parametrize("features", [3, 60])
def test_vectors_are_shown_if_they_are_short(features: int, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(ROWS, features)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x, y=np.array([animal(row) for row in range(ROWS)]))
    run = make_run(tmp_path / "data.npz", tmp_path / "run", {"3": ("dog", 0.99)})
    export(run, tmp_path / "tasks.json", "label-studio")
    (task,) = checked_tasks(tmp_path / "tasks.json")
    assert ("row" in task["data"]) == (features == 3)


def test_a_spreadsheet_of_them(run: Run, tmp_path: Path) -> None:
    written = export(run, tmp_path / "look.csv", "csv")
    assert (written.count, written.configuration) == (3, None)
    with (tmp_path / "look.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["id"], row["given"], row["proposed"], row["name"]) for row in rows] == [
        ("3", "cat", "dog", "n03"),
        ("4", "dog", "owl", "n04"),
        ("5", "owl", "cat", "n05"),
    ]


def test_a_column_that_is_called_like_one_of_ours_is_renamed(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text(table_text().replace("name", "id", 1))
    run = make_run(tmp_path / "data.csv", tmp_path / "run", {"n03": ("dog", 0.99)}, label="kind")
    export(run, tmp_path / "look.csv", "csv")
    header, line = (tmp_path / "look.csv").read_text().splitlines()
    assert header.endswith(",reason,data_id,code,size,kind")
    assert line.startswith("n03,cat,dog,")


@pytest.mark.parametrize(("limit", "expected"), [(None, ["4", "5"]), (1, ["4"]), (4, 4), (1000, ROWS - 1)])
def test_what_is_decided_is_left_out_and_limit_counts_the_rest(
    limit: int | None, expected: list[str] | int, run: Run, tmp_path: Path
) -> None:
    decisions = Decisions(run.folder)
    decisions.add("3", "accept", "dog", "Ada", expected=None)
    decisions.add("4", "unsure", "dog", "Ada", expected=None)
    export(run, tmp_path / "look.csv", "csv", limit)
    with (tmp_path / "look.csv").open() as file:
        ids = [row["id"] for row in csv.DictReader(file)]
    assert (ids if isinstance(expected, list) else len(ids)) == expected
    assert "3" not in ids


def test_what_cannot_be_exported_is_one_sentence(run: Run, tmp_path: Path) -> None:
    (tmp_path / "there.xml").write_text("mine")
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(ValueError, match="one of label-studio, csv, got 'excel'"):
        export(run, tmp_path / "look.xlsx", "excel")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"let its name end in \.json"):
        export(run, tmp_path / "look.csv", "label-studio")
    with pytest.raises(FileExistsError, match=r"there\.xml is there already"):
        export(run, tmp_path / "there.json", "label-studio")
    for name, (label, _) in PROPOSALS.items():
        Decisions(run.folder).add(name, "accept", label, "Ada", expected=None)
    with pytest.raises(ValueError, match="there is nothing to export"):
        export(run, tmp_path / "look.csv", "csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == before
