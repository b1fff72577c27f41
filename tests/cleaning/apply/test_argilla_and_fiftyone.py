"""Exports for Argilla and FiftyOne, in the formats that their documentation describes."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from permll.cleaning.apply import export
from permll.cleaning.apply.label_studio import NO_CLASS
from permll.cleaning.review_decisions import Decisions
from permll.data import load
from permll.findings import Findings
from permll.training.run import Run
from tests.helpers.apply_runs import image_folder, make_memory_run, make_run
from tests.helpers.review_runs import KINDS
from tests.helpers.review_runs import make_run as make_review_run


def read_argilla(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return settings and records, and check that they fit together as Argilla requires."""
    dataset = json.loads((folder / ".argilla" / "dataset.json").read_text())
    settings = json.loads((folder / ".argilla" / "settings.json").read_text())
    records: list[dict[str, Any]] = json.loads((folder / "records.json").read_text())
    assert dataset["name"].isascii()
    names = [entry["name"] for part in ("fields", "questions", "metadata") for entry in settings[part]]
    assert len(set(names)) == len(names)
    (question,) = settings["questions"]
    options = [option["value"] for option in question["settings"]["options"]]
    assert len(set(options)) == len(options)
    for record in records:
        assert set(record["fields"]) == {field["name"] for field in settings["fields"]}
        assert all(isinstance(value, str) and value for value in record["fields"].values())
        assert set(record["metadata"]) == {entry["name"] for entry in settings["metadata"]}
        assert record["suggestions"][question["name"]]["value"] in options
    return settings, records


@pytest.mark.parametrize("kind", KINDS)
def test_argilla_dataset_of_all_kinds(kind: str, tmp_path: Path) -> None:
    run = make_review_run(kind, tmp_path)
    findings = Findings.load(run.folder)
    written = export(run, tmp_path / "tasks", "argilla")
    settings, records = read_argilla(tmp_path / "tasks")
    assert settings["fields"][0]["settings"]["type"] == ("image" if kind == "images" else "text")
    flagged = [findings[row] for row in findings.order.tolist() if findings.is_issue[row]]
    assert [record["id"] for record in records] == [finding.id for finding in flagged]
    first = records[0]
    assert first["suggestions"]["label"] == {
        "value": flagged[0].proposed_label,
        "score": flagged[0].confidence,
        "agent": "permll",
    }
    assert first["fields"]["given_label"] == flagged[0].given_label
    choices = [option["value"] for option in settings["questions"][0]["settings"]["options"]]
    assert choices == [*findings.classes, NO_CLASS]
    assert written.num_labels == len(flagged)
    assert "argilla.Dataset.from_disk(" in written.notes[0]
    if kind == "images":
        head, _, body = first["fields"]["sample"].partition(",")
        assert head == "data:image/jpeg;base64"
        assert Image.open(io.BytesIO(base64.b64decode(body))).size == (120, 90)
    elif kind == "table":
        assert "town: Ulm" in first["fields"]["sample"]


def test_argilla_dataset_of_data_in_memory_shows_ids(tmp_path: Path) -> None:
    export(make_memory_run(tmp_path / "run"), tmp_path / "tasks", "argilla")
    _, (record,) = read_argilla(tmp_path / "tasks")
    assert record["fields"]["sample"] == "2"


def read_fiftyone(folder: Path) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Return the path and label of each image by sample id, as FiftyOne matches them."""
    labels = json.loads((folder / "labels.json").read_text())["labels"]
    if (folder / "data.json").exists():
        paths = {name: Path(path) for name, path in json.loads((folder / "data.json").read_text()).items()}
    else:
        paths = {path.stem: path for path in (folder / "data").iterdir()}
    assert list(labels) == sorted(labels) == sorted(paths)
    reserved = {"id", "_id", "_cls", "label", "confidence", "logits", "tags"}
    assert not any(reserved & set(label["attributes"]) for label in labels.values())
    return {label["attributes"]["sample_id"]: (paths[name], label) for name, label in labels.items()}


def test_fiftyone_dataset_of_image_files(tmp_path: Path) -> None:
    photos = image_folder(tmp_path / "photos")
    run = make_run(photos, tmp_path / "run", {"cat/0.png": ("dog", 0.99), "owl/1.png": ("cat", 0.9)})
    written = export(run, tmp_path / "tasks", "fiftyone")
    found = read_fiftyone(tmp_path / "tasks")
    assert list(found) == ["cat/0.png", "owl/1.png"]
    path, label = found["cat/0.png"]
    assert path.is_absolute()
    assert path.samefile(photos / "cat/0.png")
    assert (label["label"], label["confidence"], label["attributes"]["given_label"]) == ("dog", 0.99, "cat")
    assert label["attributes"]["rank"] == 1
    assert "fiftyone.types.FiftyOneImageClassificationDataset" in written.notes[0]


def test_fiftyone_dataset_of_built_in_set_has_image_files(tmp_path: Path) -> None:
    data = load("digits")
    run = make_run("digits", tmp_path / "run", {data.ids[7]: (data.classes[(int(data.labels[7]) + 1) % 10], 0.9)})
    export(run, tmp_path / "tasks", "fiftyone")
    path, _ = read_fiftyone(tmp_path / "tasks")[data.ids[7]]
    pixels = np.asarray(Image.open(path))
    np.testing.assert_array_equal(pixels, data.inputs.batch(torch.tensor([7]))[0, 0].numpy())


def test_fiftyone_refuses_other_samples(run: Run, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="FiftyOne shows images, and these samples are not: choose"):
        export(run, tmp_path / "tasks", "fiftyone")
    assert not (tmp_path / "tasks").exists()


@pytest.mark.parametrize("tool", ["argilla", "fiftyone"])
def test_export_replaces_no_folder(tool: Any, tmp_path: Path) -> None:
    run = make_run(image_folder(tmp_path / "photos"), tmp_path / "run", {"cat/0.png": ("dog", 0.99)})
    (tmp_path / "tasks").mkdir()
    with pytest.raises(FileExistsError, match="tasks already exists"):
        export(run, tmp_path / "tasks", tool)
    Decisions(run.folder).add("cat/0.png", "drop", "", "Ada", expected=None)
    with pytest.raises(ValueError, match="there is nothing to export"):
        export(run, tmp_path / "other", tool)
