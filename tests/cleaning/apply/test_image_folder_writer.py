"""Folders of images with other labels: a new tree in which nothing is lost, or a table of paths."""

import csv
import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permll.cleaning.apply import apply
from permll.cleaning.apply.image_folder_writer import new_names
from permll.data import load
from permll.training.run import Run
from tests.helpers.apply_runs import ROWS, image_folder, make_run

folders = st.sampled_from(["cat", "dog", "Dog", "owl"])
files = st.sampled_from(
    ["1.png", "1.PNG", "a.png", "\u00e9.png", "e\u0301.png", "1-from-cat.png", "in/1.png", "a.png/1.png"]
)


@st.composite
def moves(draw: st.DrawFn) -> tuple[list[str], dict[str, str]]:
    """Names of images as a disk could hold them, and the classes that some of them go to."""
    names = sorted({f"{folder}/{file}" for folder, file in draw(st.lists(st.tuples(folders, files), min_size=1))})
    names = [name for name in names if not any(other.startswith(f"{name}/") for other in names)]
    return names, {name: draw(folders) for name in names if draw(st.booleans())}


@given(moves())
def test_every_image_has_a_place_of_its_own_in_the_folder_of_its_class(case: tuple[list[str], dict[str, str]]) -> None:
    names, classes = case
    places = new_names(names, classes)
    assert list(places) == names
    assert len(set(places.values())) == len(names)
    for name, place in places.items():
        before = name.split("/")[0]
        assert place.split("/")[0] == classes.get(name, before)
        assert (place == name) == (classes.get(name, before) == before)
        assert Path(place).suffix == Path(name).suffix
        assert not any(other.startswith(f"{place}/") for other in places.values())
    stay = {key(name) for name in names if places[name] == name}
    come = [key(places[name]) for name in names if places[name] != name]
    assert len(set(come)) == len(come)
    assert not stay & set(come)


def key(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return image_folder(tmp_path / "photos")


@pytest.fixture
def run(photos: Path, tmp_path: Path) -> Run:
    return make_run(photos, tmp_path / "run", {"cat/0.png": ("dog", 0.99), "owl/5.png": ("cat", 0.97)})


def contents(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("way", ["link", "copy", "hardlink"])
def test_a_tree_in_every_way(way: str, photos: Path, run: Run, tmp_path: Path) -> None:
    before = contents(photos)
    applied = apply(run, tmp_path / "new", auto=True, as_=way)  # type: ignore[arg-type]
    assert (applied.changed, applied.notes) == (2, ())
    assert contents(photos) == before
    expected = dict(before)
    expected["dog/0-from-cat.png"] = expected.pop("cat/0.png")
    expected["cat/5-from-owl.png"] = expected.pop("owl/5.png")
    assert contents(tmp_path / "new") == expected
    new = tmp_path / "new" / "dog" / "0-from-cat.png"
    old = photos / "cat" / "0.png"
    assert new.is_symlink() == (way == "link")
    assert new.samefile(old) == (way != "copy")
    assert applied.commands == (f"permll train --data {tmp_path}/new",)
    data = load(tmp_path / "new")
    assert len(data) == ROWS
    assert data[data.ids.index("dog/0-from-cat.png")].label == "dog"


def test_links_are_relative_and_lead_to_the_files_themselves(photos: Path, run: Run, tmp_path: Path) -> None:
    apply(run, tmp_path / "one", auto=True)
    assert not os.path.isabs(os.readlink(tmp_path / "one" / "cat" / "1.png"))
    second = make_run(tmp_path / "one", tmp_path / "run2", {"dog/0-from-cat.png": ("owl", 0.99)})
    (tmp_path / "below").mkdir()
    (tmp_path / "shortcut").symlink_to(tmp_path / "below")
    apply(second, tmp_path / "shortcut" / "two", auto=True)
    moved = tmp_path / "below" / "two" / "owl" / "0-from-cat.png"
    target = (moved.parent / os.readlink(moved)).resolve()
    assert target == (photos / "cat" / "0.png").resolve()
    assert moved.samefile(photos / "cat" / "0.png")


def test_where_links_do_not_work_images_are_copied(
    photos: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError("no links on this disk")

    monkeypatch.setattr(os, "symlink", no_links)
    applied = apply(run, tmp_path / "new", auto=True)
    assert not any(path.is_symlink() for path in (tmp_path / "new").rglob("*"))
    assert len(contents(tmp_path / "new")) == ROWS
    assert applied.notes == (f"There can be no links here, so {ROWS} images were copied.",)


def test_a_table_of_paths(photos: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "lists").mkdir()
    out = tmp_path / "lists" / "new.csv"
    applied = apply(run, out, auto=True, as_="csv")
    with out.open() as file:
        rows = {row["path"]: row for row in csv.DictReader(file)}
    assert len(rows) == ROWS
    assert rows["../photos/cat/0.png"] == {
        "path": "../photos/cat/0.png",
        "label": "dog",
        "label_original": "cat",
        "label_source": "auto",
    }
    assert rows["../photos/cat/1.png"]["label_source"] == "given"
    assert applied.commands == (f"permll train --data {out} --label label --set 'data.options.image=\"path\"'",)
    assert load(out, label="label", image="path")[0].label == "dog"
    with pytest.raises(ValueError, match=r"let its name end in \.csv"):
        apply(run, tmp_path / "new", auto=True, as_="csv")


def test_what_is_no_image_or_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    photos = image_folder(tmp_path / "photos")
    (photos / "notes.txt").write_text("mine")
    (photos / "loose.png").write_bytes((photos / "cat" / "0.png").read_bytes())
    (photos / "cat" / "broken.png").write_bytes(b"no image")
    options = {"skip_unreadable": True, "no_label": ""}
    run = make_run(photos, tmp_path / "run", {"cat/0.png": ("dog", 0.99)}, **options)
    applied = apply(run, tmp_path / "new", auto=True)
    assert applied.notes == (
        "Not taken over: 1 image (outside the class folders): loose.png.",
        "Not taken over: 1 file (not an image file): notes.txt.",
        "Taken over as they are, though nobody can open them: 1 image (cat/broken.png).",
    )
    assert (tmp_path / "new" / "cat" / "broken.png").read_bytes() == b"no image"
    assert not (tmp_path / "new" / "notes.txt").exists()
    data = load(tmp_path / "new", **options)
    assert len(data) == ROWS
    (command,) = applied.commands
    assert command.endswith("--set data.options.skip_unreadable=true --set 'data.options.no_label=\"\"'")


def test_a_new_image_is_noticed_also_where_some_cannot_be_opened(tmp_path: Path) -> None:
    photos = image_folder(tmp_path / "photos")
    (photos / "cat" / "broken.png").write_bytes(b"no image")
    run = make_run(photos, tmp_path / "run", {"cat/0.png": ("dog", 0.99)}, skip_unreadable=True)
    (photos / "cat" / "new.png").write_bytes((photos / "cat" / "0.png").read_bytes())
    with pytest.raises(
        ValueError, match=r"no longer what .* with 1 image \(cat/new\.png\) more: bring the old one back"
    ):
        apply(run, tmp_path / "new", auto=True)


@pytest.mark.parametrize("way", ["link", "copy", "hardlink"])
def test_an_interrupted_tree_leaves_nothing(way: str, photos: Path, run: Run, tmp_path: Path) -> None:
    (photos / "owl" / "7.png").unlink()
    (photos / "owl" / "7.png").symlink_to(tmp_path / "gone.png")  # its name is there, and nothing else
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(FileNotFoundError, match=r"7\.png is a link to .*gone\.png, which is not there"):
        apply(run, tmp_path / "new", auto=True, as_=way)  # type: ignore[arg-type]
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_class_that_loses_nearly_all_its_images_is_named(photos: Path, tmp_path: Path) -> None:
    proposals = {f"owl/{row}.png": ("cat", 0.99) for row in range(ROWS // 3)}
    run = make_run(photos, tmp_path / "run", proposals)
    applied = apply(run, tmp_path / "new", auto=True)
    assert applied.notes == ("Fewer than two samples are left of 1 class (owl).",)
    assert not (tmp_path / "new" / "owl").exists()


def test_a_part_of_a_folder_is_written_alone(tmp_path: Path) -> None:
    image_folder(tmp_path / "photos" / "train")
    run = make_run(tmp_path / "photos", tmp_path / "run", {"cat/0.png": ("dog", 0.99)}, split="train")
    applied = apply(run, tmp_path / "new", auto=True)
    assert applied.commands == (f"permll train --data {tmp_path}/new",)
    assert len(load(tmp_path / "new")) == ROWS
