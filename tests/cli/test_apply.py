"""``permll apply``: as the process a user would start, and its refusals, which are many, in this one."""

import json
import shlex
import shutil
from pathlib import Path

import pytest
import torch

from permll.cleaning.decisions import Decisions
from permll.data import load
from permll.noise.apply_noise import with_noise
from tests.cli.conftest import Here
from tests.cli.test_commands import run
from tests.helpers.apply_runs import csv_text, image_folder, make_csv_run, make_run

PROPOSALS = {"3": ("dog", 0.99), "4": ("owl", 0.96), "5": ("cat", 0.7), "6": ("dog", 0.97)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, a run that looked at it, and a decision."""
    folder = make_csv_run(tmp_path_factory.mktemp("made"), PROPOSALS)
    Decisions(folder / "run").add("5", "choose", "dog", "Ada", expected=None)
    return folder


@pytest.fixture
def home(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it to stand in."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_circle_closes(home: Path) -> None:
    shown = run("apply", "run", "--out", "new.csv", cwd=home)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.splitlines() == [
        "1 of 24 labels change (1 chosen).",
        "  owl -> dog  1",
        "Written: new.csv, and what changed: new.csv.changes.csv",
        "Train on it:",
        "  permll train --data new.csv --label kind",
    ]
    assert load("new.csv", label="kind")[5].label == "dog"
    program, *words = shlex.split(shown.stdout.splitlines()[-1])
    assert program == "permll"
    trained = run(*words, "--epochs", "1", "--out", "again", cwd=home)
    assert trained.returncode == 0, trained.stderr


def test_a_dry_run_shows_and_writes_nothing(home: Path) -> None:
    before = sorted(path.name for path in home.iterdir())
    shown = run("apply", "run", "--auto", "--min-probability", "0.96", "--dry-run", cwd=home)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.splitlines() == [
        "4 of 24 labels change (1 chosen, 3 auto); nothing is written.",
        "  cat -> dog  2",
        "  dog -> owl  1",
        "  owl -> dog  1",
        "The first 4:",
        "  3  cat -> dog  (auto, probability 0.99)",
        "  4  dog -> owl  (auto, probability 0.96)",
        "  5  owl -> dog  (chosen by Ada, probability 0.15)",
        "  6  cat -> dog  (auto, probability 0.97)",
    ]
    assert sorted(path.name for path in home.iterdir()) == before


def test_a_folder_as_a_table(tmp_path: Path) -> None:
    photos = image_folder(tmp_path / "photos")
    (photos / "notes.txt").write_text("mine")
    make_run(photos, tmp_path / "run", {"cat/0.png": ("dog", 0.99)})
    shown = run("apply", tmp_path / "run", "--auto", "--as", "csv", "--out", tmp_path / "new.csv")
    assert shown.returncode == 0, shown.stderr
    assert "Left out: 1 file (no image, by its name): notes.txt." in shown.stdout
    assert load(tmp_path / "new.csv", label="label", image="path")[0].label == "dog"


def test_labels_to_look_at(home: Path) -> None:
    shown = run("apply", "run", "--export", "label-studio", "--out", "tasks.json", "--limit", "2", cwd=home)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout == "2 labels to look at: tasks.json, and how to show them: tasks.xml\n"
    assert [task["data"]["id"] for task in json.loads((home / "tasks.json").read_text())] == ["3", "6"]


def test_a_bad_place_is_one_sentence_and_an_exit_code(home: Path) -> None:
    shown = run("apply", "run", "--out", "data.csv", cwd=home)
    assert shown.returncode == 1
    assert shown.stderr == ("permll: data.csv is the input data set, which is never changed: choose another name.\n")
    assert (home / "data.csv").read_text() == csv_text()


def test_a_built_in_set_takes_its_corrected_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: Here) -> None:
    monkeypatch.chdir(tmp_path)
    digits = load("digits")
    old, new = digits[0].label, digits.classes[(int(digits.labels[0]) + 1) % 10]
    make_run("digits", tmp_path / "run", {digits.ids[0]: (new, 0.99)})
    code, shown, _ = here("apply", "run", "--auto", "--out", "new.csv")
    assert code == 0
    assert f"  {old} -> {new}  1\n" in shown
    read, train = (shlex.split(line)[1:] for line in shown.splitlines()[-2:])
    assert here(*read)[0] == 0
    corrected, _ = with_noise(digits, train[train.index("--noise") + 1])
    assert (corrected.labels != digits.labels).nonzero()[:, 0].tolist() == [0]
    assert corrected[0].label == new
    assert torch.equal(corrected.labels[1:], digits.labels[1:])


@pytest.mark.parametrize("way", ["link", "copy", "hardlink"])
def test_a_folder_in_every_way(way: str, tmp_path: Path, here: Here) -> None:
    make_run(image_folder(tmp_path / "photos"), tmp_path / "run", {"cat/0.png": ("dog", 0.99)})
    code, shown, _ = here("apply", str(tmp_path / "run"), "--auto", "--as", way, "--out", str(tmp_path / "new"))
    assert (code, f"permll train --data {tmp_path}/new\n" in shown) == (0, True)
    assert load(tmp_path / "new").counts.tolist() == [7, 9, 8]


def test_a_spreadsheet_to_look_at(home: Path, here: Here) -> None:
    assert here("apply", "run", "--export", "csv", "--out", "look.csv") == (0, "3 labels to look at: look.csv\n", "")
    assert len((home / "look.csv").read_text().splitlines()) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "say where the new data set goes, with --out, or look first, with --dry-run."),
        (["nothing", "--out", "n.csv"], "nothing is not a run: permll clean DATA --out nothing makes one."),
        (["run", "--out", "run"], "run already exists: choose another name, or remove it."),
        (["run", "--out", "run", "--dry-run"], "run already exists: choose another name, or remove it."),
        (["run", "--out", "n.xlsx"], "n.xlsx must end in .csv, the format of its content."),
        (
            ["run", "--out", "n.csv", "--as", "zip"],
            "unknown output 'zip' for an image folder: choose from link, copy, hardlink, csv.",
        ),
        (
            ["run", "--out", "n.csv", "--min-probability", "0.9"],
            "--min-probability says what --auto takes: add --auto.",
        ),
        (
            ["run", "--out", "n.csv", "--auto", "--min-probability", "9"],
            "min_probability must be between 0 and 1, got 9.0",
        ),
        (["run", "--out", "n.csv", "--limit", "3"], "--limit says how many labels --export writes: add --export."),
        (
            ["run", "--out", "n.json", "--export", "excel"],
            "unknown export format 'excel': choose from label-studio, csv.",
        ),
        (["run", "--out", "n.csv", "--export", "csv", "--auto"], "--export goes with --out and --limit alone"),
    ],
)
def test_what_cannot_be_is_one_sentence(arguments: list[str], message: str, home: Path, here: Here) -> None:
    before = sorted(path.name for path in home.iterdir())
    code, shown, complaint = here("apply", *arguments)
    assert (code, shown) == (1, "")
    assert complaint.startswith("permll: ")
    assert message in complaint
    assert complaint.count("\n") == 1
    assert sorted(path.name for path in home.iterdir()) == before


def test_without_decisions_it_says_what_to_do(home: Path, here: Here) -> None:
    Decisions("run").undo("Ada")
    assert here("apply", "run", "--out", "new.csv") == (
        1,
        "",
        "permll: run has no review decisions: review the labels with permll review run, or accept the most probable "
        "proposals with --auto.\n",
    )
    (home / "data.csv").write_text(csv_text() + "n25,000,1.0,cat\n")
    code, _, complaint = here("apply", "run", "--auto", "--out", "new.csv")
    assert (code, "with 1 row (24) added: restore it" in complaint) == (1, True)
    (home / "data.csv").unlink()
    code, _, complaint = here("apply", "run", "--auto", "--out", "new.csv")
    assert (code, "data.csv, the source of run, does not exist" in complaint) == (1, True)
    assert not (home / "new.csv").exists()
