"""Image folders with new labels: a new folder of links or copies, or a CSV file of paths."""

import csv
import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permll.cleaning.apply import apply
from permll.cleaning.apply.image_folder_writer import new_paths
from permll.data import load
from permll.training.run import Run
from tests.helpers.apply_runs import ROWS, image_folder, make_run

folders = st.sampled_from(["cat", "dog", "Dog", "owl"])
files = st.sampled_from(
    ["1.png", "1.PNG", "a.png", "\u00e9.png", "e\u0301.png", "1-from-cat.png", "in/1.png", "a.png/1.png"]
)


@st.composite
def moves(draw: st.DrawFn) -> tuple[list[str], dict[str, str]]:
    """Draw image paths that can exist together, and new classes for some of them."""
    names = sorted({f"{folder}/{file}" for folder, file in draw(st.lists(st.tuples(folders, files), min_size=1))})
    names = [name for name in names if not any(other.startswith(f"{name}/") for other in names)]
    return names, {name: draw(folders) for name in names if draw(st.booleans())}


@given(moves())
def test_new_paths_are_unique_and_in_class_folder(case: tuple[list[str], dict[str, str]]) -> None:
    names, classes = case
    paths = new_paths(names, classes)
    assert list(paths) == names
    assert len(set(paths.values())) == len(names)
    for name, path in paths.items():
        before = name.split("/")[0]
        assert path.split("/")[0] == classes.get(name, before)
        assert (path == name) == (classes.get(name, before) == before)
        assert Path(path).suffix == Path(name).suffix
        assert not any(other.startswith(f"{path}/") for other in paths.values())
    unmoved = {normalize(name) for name in names if paths[name] == name}
    moved = [normalize(paths[name]) for name in names if paths[name] != name]
    assert len(set(moved)) == len(moved)
    assert not unmoved & set(moved)


def normalize(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return image_folder(tmp_path / "photos")


@pytest.fixture
def run(photos: Path, tmp_path: Path) -> Run:
    return make_run(photos, tmp_path / "run", {"cat/0.png": ("dog", 0.99), "owl/5.png": ("cat", 0.97)})


def contents(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("mode", ["link", "copy", "hardlink"])
def test_image_folder_writer_modes(mode: str, photos: Path, run: Run, tmp_path: Path) -> None:
    before = contents(photos)
    applied = apply(run, tmp_path / "new", auto=True, images=mode)  # type: ignore[arg-type]
    assert (applied.num_changed, applied.notes) == (2, ())
    assert contents(photos) == before
    expected = dict(before)
    expected["dog/0-from-cat.png"] = expected.pop("cat/0.png")
    expected["cat/5-from-owl.png"] = expected.pop("owl/5.png")
    written = contents(tmp_path / "new")
    assert written.pop("decisions.csv").decode().splitlines() == [
        "path,label,label_original,label_source",
        "dog/0-from-cat.png,dog,cat,auto",
        "cat/5-from-owl.png,cat,owl,auto",
    ]
    assert written == expected
    new = tmp_path / "new" / "dog" / "0-from-cat.png"
    old = photos / "cat" / "0.png"
    assert new.is_symlink() == (mode == "link")
    assert new.samefile(old) == (mode != "copy")
    assert applied.commands == (f"permll train --data {tmp_path}/new",)
    data = load(tmp_path / "new")
    assert len(data) == ROWS
    assert data[data.ids.index("dog/0-from-cat.png")].label == "dog"


def test_image_links_are_relative_and_resolved(photos: Path, run: Run, tmp_path: Path) -> None:
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


def test_image_folder_writer_copies_without_links(
    photos: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError("no links on this file system")

    monkeypatch.setattr(os, "symlink", no_links)
    applied = apply(run, tmp_path / "new", auto=True)
    assert not any(path.is_symlink() for path in (tmp_path / "new").rglob("*"))
    assert len(contents(tmp_path / "new")) == ROWS + 1
    assert applied.notes == (f"Links are not supported here, so {ROWS} images were copied.",)


def test_image_folder_as_csv(photos: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "lists").mkdir()
    out = tmp_path / "lists" / "new.csv"
    applied = apply(run, out, auto=True, images="csv")
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
    with pytest.raises(ValueError, match=r"must end in \.csv"):
        apply(run, tmp_path / "new", auto=True, images="csv")


def test_apply_reports_other_files_and_unreadable_images(tmp_path: Path) -> None:
    photos = image_folder(tmp_path / "photos")
    (photos / "notes.txt").write_text("mine")
    (photos / "loose.png").write_bytes((photos / "cat" / "0.png").read_bytes())
    (photos / "cat" / "broken.png").write_bytes(b"no image")
    options = {"skip_unreadable": True, "no_label": ""}
    run = make_run(photos, tmp_path / "run", {"cat/0.png": ("dog", 0.99)}, **options)
    applied = apply(run, tmp_path / "new", auto=True)
    assert applied.notes == (
        "Left out: 1 image (outside the class folders): loose.png.",
        "Left out: 1 file (not an image file): notes.txt.",
        "Included although unreadable: 1 image (cat/broken.png).",
    )
    assert (tmp_path / "new" / "cat" / "broken.png").read_bytes() == b"no image"
    assert not (tmp_path / "new" / "notes.txt").exists()
    data = load(tmp_path / "new", **options)
    assert len(data) == ROWS
    (command,) = applied.commands
    assert command.endswith("--set data.options.skip_unreadable=true --set 'data.options.no_label=\"\"'")


def test_apply_refuses_added_image_beside_unreadable_ones(tmp_path: Path) -> None:
    photos = image_folder(tmp_path / "photos")
    (photos / "cat" / "broken.png").write_bytes(b"no image")
    run = make_run(photos, tmp_path / "run", {"cat/0.png": ("dog", 0.99)}, skip_unreadable=True)
    (photos / "cat" / "new.png").write_bytes((photos / "cat" / "0.png").read_bytes())
    with pytest.raises(ValueError, match=r"has changed since .* with 1 image \(cat/new\.png\) added: restore it"):
        apply(run, tmp_path / "new", auto=True)


@pytest.mark.parametrize("mode", ["link", "copy", "hardlink"])
def test_failed_image_folder_leaves_nothing(mode: str, photos: Path, run: Run, tmp_path: Path) -> None:
    (photos / "owl" / "7.png").unlink()
    (photos / "owl" / "7.png").symlink_to(tmp_path / "gone.png")  # a broken link
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(FileNotFoundError, match=r"7\.png links to .*gone\.png, which does not exist"):
        apply(run, tmp_path / "new", auto=True, images=mode)  # type: ignore[arg-type]
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_apply_reports_rare_classes(photos: Path, tmp_path: Path) -> None:
    proposals = {f"owl/{row}.png": ("cat", 0.99) for row in range(ROWS // 3)}
    run = make_run(photos, tmp_path / "run", proposals)
    applied = apply(run, tmp_path / "new", auto=True)
    assert applied.notes == ("Fewer than two samples are in 1 class (owl).",)
    assert not (tmp_path / "new" / "owl").exists()


def test_apply_writes_split_of_folder(tmp_path: Path) -> None:
    image_folder(tmp_path / "photos" / "train")
    run = make_run(tmp_path / "photos", tmp_path / "run", {"cat/0.png": ("dog", 0.99)}, split="train")
    applied = apply(run, tmp_path / "new", auto=True)
    assert applied.commands == (f"permll train --data {tmp_path}/new",)
    assert len(load(tmp_path / "new")) == ROWS
