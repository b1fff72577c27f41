"""``decisions.csv`` of a corrected image folder: labels that a person reviewed are gold when it is cleaned again."""

import csv
from pathlib import Path
from typing import Any

import pytest

from permll import clean
from permll.cleaning.apply import apply
from permll.cleaning.review_decisions import Decisions
from permll.data import load
from permll.training.run import Run
from tests.helpers.apply_runs import ROWS, image_folder, make_run


def history_of(folder: Path) -> list[tuple[str, ...]]:
    with (folder / "decisions.csv").open(newline="", encoding="utf-8") as file:
        return [tuple(row.values()) for row in csv.DictReader(file)]


def gold_images(folder: Path) -> list[str]:
    data = load(folder, rare="keep")
    return [] if data.trusted is None else [data.ids[row] for row in data.trusted.nonzero()[:, 0].tolist()]


def first_round(folder: Path) -> Run:
    """Return a run with a change by the network, one by a reviewer, and labels that were kept, unsure and dropped."""
    run = make_run(image_folder(folder / "photos"), folder / "run", {"cat/0.png": ("dog", 0.99)})
    decisions = Decisions(run.folder)
    for name, verdict, label in (
        ("dog/1.png", "choose", "owl"),
        ("owl/2.png", "keep", "owl"),
        ("owl/3.png", "unsure", "owl"),
        ("cat/4.png", "drop", ""),
    ):
        decisions.add(name, verdict, label, "Ada", expected=None)  # type: ignore[arg-type]
    return run


@pytest.mark.parametrize("mode", ["link", "copy"])
def test_reviewed_labels_of_a_folder_are_gold(mode: Any, tmp_path: Path) -> None:
    apply(first_round(tmp_path), tmp_path / "new", auto=True, images=mode)
    assert sorted(history_of(tmp_path / "new")) == [
        ("dog/0-from-cat.png", "dog", "cat", "auto"),
        ("owl/1-from-dog.png", "owl", "dog", "chosen"),
        ("owl/2.png", "owl", "owl", "kept"),
        ("owl/3.png", "owl", "owl", "unsure"),
    ]
    (tmp_path / "new").rename(tmp_path / "moved")
    assert gold_images(tmp_path / "moved") == ["owl/1-from-dog.png", "owl/2.png"]
    assert len(load(tmp_path / "moved")) == ROWS - 1
    assert load(tmp_path / "moved").metadata["left_out"] == []


def test_second_round_keeps_history_of_a_folder(tmp_path: Path) -> None:
    apply(first_round(tmp_path), tmp_path / "new", auto=True)
    run = make_run(tmp_path / "new", tmp_path / "again", {})
    Decisions(run.folder).add("dog/0-from-cat.png", "choose", "cat", "Bob", expected=None)
    apply(run, tmp_path / "newer")
    assert sorted(history_of(tmp_path / "newer")) == [
        ("cat/0-from-cat.png", "cat", "cat", "chosen"),
        ("owl/1-from-dog.png", "owl", "dog", "chosen"),
        ("owl/2.png", "owl", "owl", "kept"),
        ("owl/3.png", "owl", "owl", "unsure"),
    ]
    assert gold_images(tmp_path / "newer") == ["cat/0-from-cat.png", "owl/1-from-dog.png", "owl/2.png"]
    apply(run, tmp_path / "newer.csv", images="csv")
    assert load(tmp_path / "newer.csv", label="label", image="path").trusted.sum() == 3  # type: ignore[union-attr]


def test_clean_never_flags_reviewed_images(tmp_path: Path) -> None:
    apply(first_round(tmp_path), tmp_path / "new")
    found = clean(tmp_path / "new", out=tmp_path / "again", epochs=2, backbone="none", callbacks=[])
    reviewed = {name for name, mask in zip(found.ids, found.is_reviewed, strict=True) if mask}
    assert reviewed == {"owl/1-from-dog.png", "owl/2.png"}
    assert not (found.is_issue & found.is_reviewed).any()


def test_images_moved_since_have_no_history(tmp_path: Path) -> None:
    apply(first_round(tmp_path), tmp_path / "new")
    (tmp_path / "new/owl/2.png").rename(tmp_path / "new/cat/2b.png")
    (tmp_path / "new/owl/1-from-dog.png").unlink()
    assert gold_images(tmp_path / "new") == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"path,label\ncat/1.png,cat\n",
        b"path,label,label_original,label_source\ncat/1.png,cat\n",
        b"path,label,label_original,label_source\n\xff\xfe,cat,cat,kept\n",
    ],
)
def test_another_decisions_file_is_left_out(content: bytes, tmp_path: Path) -> None:
    photos = image_folder(tmp_path / "photos")
    (photos / "decisions.csv").write_bytes(content)
    assert gold_images(photos) == []
    assert [entry["names"] for entry in load(photos).metadata["left_out"]] == [["decisions.csv"]]


def test_history_of_names_with_special_characters(tmp_path: Path) -> None:
    photos = image_folder(tmp_path / "photos")
    (photos / "cat/0.png").rename(photos / 'cat/a, "ü".png')
    run = make_run(photos, tmp_path / "run", {})
    Decisions(run.folder).add('cat/a, "ü".png', "keep", "cat", "Ada", expected=None)
    Decisions(run.folder).add("dog/1.png", "choose", "Hund, süß", "Ada", expected=None)
    apply(run, tmp_path / "new")
    assert gold_images(tmp_path / "new") == ["Hund, süß/1.png", 'cat/a, "ü".png']
