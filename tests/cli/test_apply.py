"""``permll apply``."""

import json
import shlex
import shutil
from pathlib import Path

import pytest
import torch

from permll.cleaning.review_decisions import Decisions
from permll.data import load
from permll.noise.apply_noise import with_noise
from tests.helpers.apply_runs import csv_text, image_folder, make_csv_run, make_run
from tests.helpers.command_line import error_message, run_cli, run_process

PROPOSALS = {"3": ("dog", 0.99), "4": ("owl", 0.96), "5": ("cat", 0.7), "6": ("dog", 0.97)}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a table, its run, and a decision."""
    folder = make_csv_run(tmp_path_factory.mktemp("template"), PROPOSALS)
    Decisions(folder / "run").add("5", "choose", "dog", "Ada", expected=None)
    return folder


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    """Return a copy of the template."""
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_apply_writes_table_and_prints_working_train_command(folder: Path) -> None:
    result = run_process("apply", "run", "--out", "new.csv", cwd=folder)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "1 of 24 labels change (1 chosen).",
        "  owl -> dog  1",
        "Written: new.csv; changes: new.csv.changes.csv",
        "Train on it:",
        "  permll train --data new.csv --label kind",
    ]
    assert load(folder / "new.csv", label="kind")[5].label == "dog"
    program, *words = shlex.split(result.stdout.splitlines()[-1])
    assert program == "permll"
    trained = run_cli(*words, "--epochs", "1", "--out", "again", cwd=folder)
    assert trained.returncode == 0, trained.stderr


def test_dry_run_shows_changes_and_writes_nothing(folder: Path) -> None:
    before = sorted(path.name for path in folder.iterdir())
    result = run_cli("apply", "run", "--auto", "--min-probability", "0.96", "--dry-run", cwd=folder)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "4 of 24 labels change (1 chosen, 3 auto); nothing was written.",
        "  cat -> dog  2",
        "  dog -> owl  1",
        "  owl -> dog  1",
        "The first 4:",
        "  3  cat -> dog  (auto, probability 0.99)",
        "  4  dog -> owl  (auto, probability 0.96)",
        "  5  owl -> dog  (chosen by Ada, probability 0.15)",
        "  6  cat -> dog  (auto, probability 0.97)",
    ]
    assert sorted(path.name for path in folder.iterdir()) == before


def test_apply_writes_image_folder_as_csv(tmp_path: Path) -> None:
    photos = image_folder(tmp_path / "photos")
    (photos / "notes.txt").write_text("mine")
    make_run(photos, tmp_path / "run", {"cat/0.png": ("dog", 0.99)})
    result = run_cli("apply", tmp_path / "run", "--auto", "--as", "csv", "--out", tmp_path / "new.csv")
    assert result.returncode == 0, result.stderr
    assert "notes.txt" in result.stdout
    assert load(tmp_path / "new.csv", label="label", image="path")[0].label == "dog"


def test_apply_exports_label_studio_tasks(folder: Path) -> None:
    result = run_cli("apply", "run", "--export", "label-studio", "--out", "tasks.json", "--limit", "2", cwd=folder)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "2 labels for review: tasks.json; labeling configuration: tasks.xml\n"
    assert [task["data"]["id"] for task in json.loads((folder / "tasks.json").read_text())] == ["3", "6"]


def test_apply_reads_annotations_of_label_studio(folder: Path) -> None:
    assert run_cli("apply", "run", "--export", "label-studio", "--out", "tasks.json", cwd=folder).returncode == 0
    tasks = json.loads((folder / "tasks.json").read_text())
    choices = dict(zip(("3", "4", "6"), ("dog", "(belongs to no class)", "ox"), strict=True))
    for task in tasks:
        value = {"choices": [choices[task["data"]["id"]]]}
        result = {"from_name": "label", "to_name": "sample", "type": "choices", "value": value}
        task["annotations"] = [{"completed_by": 1, "result": [result], "updated_at": "2024-05-01T12:00:00Z"}]
    (folder / "export.json").write_text(json.dumps(tasks))
    result = run_cli("apply", "run", "--from", "export.json", "--dry-run", cwd=folder)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines()[0] == (
        "3 of 24 labels change, 1 dropped (1 accepted, 2 chosen, 1 dropped); nothing was written."
    )
    assert "  4  dog -> (no class)  (dropped by Label Studio user 1)" in result.stdout.splitlines()
    result = run_process("apply", "run", "--from", "export.json", "--out", "new.csv", cwd=folder)
    assert (result.returncode, result.stderr) == (0, "")
    assert "New class: ox (1 sample)." in result.stdout.splitlines()
    new = load(folder / "new.csv", label="kind", rare="keep")
    assert (len(new), new[3].label, new[5].label) == (23, "dog", "ox")


def test_apply_names_folder_of_dropped_images(tmp_path: Path) -> None:
    make_run(image_folder(tmp_path / "photos"), tmp_path / "run", {"cat/0.png": ("dog", 0.99)})
    Decisions(tmp_path / "run").add("cat/0.png", "drop", "", "Ada", expected=None)
    result = run_cli("apply", tmp_path / "run", "--out", "new", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert "Written: new; changes: new.changes.csv; dropped images: new.dropped" in result.stdout.splitlines()
    assert (tmp_path / "new.dropped" / "cat" / "0.png").is_file()


@pytest.mark.parametrize("tool", ["argilla", "fiftyone"])
def test_apply_exports_folder_for_other_tools(tool: str, tmp_path: Path) -> None:
    make_run(image_folder(tmp_path / "photos"), tmp_path / "run", {"cat/0.png": ("dog", 0.99)})
    result = run_process("apply", "run", "--export", tool, "--out", "tasks", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    first, code = result.stdout.splitlines()
    assert first == "1 label for review: tasks"
    assert code.startswith(f"Import it in Python: {tool}.Dataset.from_")
    assert (tmp_path / "tasks").is_dir()


def test_apply_refuses_to_overwrite_the_data(folder: Path) -> None:
    assert "data.csv" in error_message(run_cli("apply", "run", "--out", "data.csv", cwd=folder))
    assert (folder / "data.csv").read_text() == csv_text()


def test_apply_prints_commands_for_built_in_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    digits = load("digits")
    old, new = digits[0].label, digits.classes[(int(digits.labels[0]) + 1) % 10]
    make_run("digits", tmp_path / "run", {digits.ids[0]: (new, 0.99)})
    result = run_cli("apply", "run", "--auto", "--out", "new.csv")
    assert result.returncode == 0, result.stderr
    assert f"  {old} -> {new}  1\n" in result.stdout
    read, train = (shlex.split(line)[1:] for line in result.stdout.splitlines()[-2:])
    assert run_cli(*read).returncode == 0
    corrected, _ = with_noise(digits, train[train.index("--noise") + 1])
    assert (corrected.labels != digits.labels).nonzero()[:, 0].tolist() == [0]
    assert corrected[0].label == new
    assert torch.equal(corrected.labels[1:], digits.labels[1:])


@pytest.mark.parametrize("way", ["link", "copy", "hardlink"])
def test_apply_writes_image_folder(way: str, tmp_path: Path) -> None:
    make_run(image_folder(tmp_path / "photos"), tmp_path / "run", {"cat/0.png": ("dog", 0.99)})
    result = run_cli("apply", tmp_path / "run", "--auto", "--as", way, "--out", tmp_path / "new")
    assert (result.returncode, f"permll train --data {tmp_path}/new\n" in result.stdout) == (0, True)
    assert load(tmp_path / "new").class_counts.tolist() == [7, 9, 8]


def test_apply_exports_csv(folder: Path) -> None:
    result = run_cli("apply", "run", "--export", "csv", "--out", "look.csv", cwd=folder)
    assert (result.returncode, result.stdout, result.stderr) == (0, "3 labels for review: look.csv\n", "")
    assert len((folder / "look.csv").read_text().splitlines()) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "give the new file or folder with --out, or preview the changes with --dry-run."),
        (["nothing", "--out", "n.csv"], "permll clean DATA --out nothing"),
        (["run", "--out", "run"], "choose another name"),
        (["run", "--out", "run", "--dry-run"], "choose another name"),
        (["run", "--out", "n.xlsx"], ".csv"),
        (
            ["run", "--out", "n.csv", "--as", "zip"],
            "unknown output 'zip' for an image folder: choose from link, copy, hardlink, csv.",
        ),
        (["run", "--out", "n.csv", "--min-probability", "0.9"], "--min-probability requires --auto."),
        (["run", "--out", "n.csv", "--auto", "--min-probability", "9"], "between 0 and 1, got 9.0"),
        (["run", "--out", "n.csv", "--limit", "3"], "--limit requires --export."),
        (
            ["run", "--out", "n.json", "--export", "excel"],
            "unknown export format 'excel': choose from label-studio, argilla, fiftyone, csv.",
        ),
        (
            ["run", "--out", "n.csv", "--export", "csv", "--auto"],
            "--export can only be combined with --out and --limit.",
        ),
        (
            ["run", "--out", "n.csv", "--export", "csv", "--from", "export.json"],
            "--export can only be combined with --out and --limit.",
        ),
        (["run", "--out", "n.csv", "--from", "export.json"], "export.json does not exist"),
    ],
)
def test_apply_refuses_bad_options_in_one_line(arguments: list[str], message: str, folder: Path) -> None:
    before = sorted(path.name for path in folder.iterdir())
    result = run_cli("apply", *arguments, cwd=folder)
    assert message in error_message(result)
    assert result.stdout == ""
    assert sorted(path.name for path in folder.iterdir()) == before


def test_apply_requires_decisions_or_auto(folder: Path) -> None:
    Decisions(folder / "run").undo("Ada")
    message = error_message(run_cli("apply", "run", "--out", "new.csv", cwd=folder))
    assert "permll review run" in message
    assert "--auto" in message
    assert not (folder / "new.csv").exists()


def test_apply_refuses_changed_or_missing_data(folder: Path) -> None:
    (folder / "data.csv").write_text(csv_text() + "n25,000,1.0,cat\n")
    assert "1 row (24)" in error_message(run_cli("apply", "run", "--auto", "--out", "new.csv", cwd=folder))
    (folder / "data.csv").unlink()
    assert "data.csv" in error_message(run_cli("apply", "run", "--auto", "--out", "new.csv", cwd=folder))
    assert not (folder / "new.csv").exists()
