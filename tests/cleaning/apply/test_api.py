"""``apply``: decisions, refused inputs and outputs, and atomic writes."""

import csv
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import permll
from permll.cleaning.apply import apply, plan
from permll.cleaning.apply.output_path import atomic_output
from permll.cleaning.review_decisions import DECISIONS_FILE, Decisions
from permll.data import load
from permll.findings import Findings
from permll.training.run import Run
from tests.helpers.apply_runs import PROPOSALS, ROWS, csv_text, image_folder, label_of, make_memory_run, make_run


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_apply_prefers_decisions_to_auto(run: Run, tmp_path: Path) -> None:
    decisions = Decisions(run.folder)
    decisions.add("3", "keep", "cat", "Ada", expected=None)
    decisions.add("5", "accept", "cat", "Ada", expected=None)
    decisions.add("7", "choose", "owl", "Bob", expected=None)
    decisions.add("8", "unsure", "owl", "Bob", expected=None)
    applied = apply(run, tmp_path / "new.csv", auto=True)
    assert applied.num_changed == 3
    assert applied.by_source == {"kept": 1, "accepted": 1, "chosen": 1, "unsure": 1, "auto": 1}
    rows = rows_of(tmp_path / "new.csv")
    labels = {
        row: (rows[row]["kind"], rows[row]["label_original"], rows[row]["label_source"]) for row in (3, 4, 5, 7, 8, 9)
    }
    assert labels == {
        3: ("cat", "cat", "kept"),
        4: ("owl", "dog", "auto"),
        5: ("cat", "owl", "accepted"),
        7: ("owl", "dog", "chosen"),
        8: ("owl", "owl", "unsure"),
        9: ("cat", "cat", "given"),
    }
    assert applied.changes_path == tmp_path / "new.csv.changes.csv"
    changes = rows_of(applied.changes_path)
    current = decisions.current()
    assert [list(row.values()) for row in changes] == [
        ["4", "dog", "owl", "auto", "0.96", "", ""],
        ["5", "owl", "cat", "accepted", "0.7", "Ada", current["5"].at],
        ["7", "dog", "owl", "chosen", "0.01", "Bob", current["7"].at],
    ]


def test_apply_ignores_undone_decisions(run: Run, tmp_path: Path) -> None:
    decisions = Decisions(run.folder)
    decisions.add("3", "accept", "dog", "Ada", expected=None)
    decisions.undo("Ada")
    with pytest.raises(ValueError, match="has no review decisions"):
        apply(run, tmp_path / "new.csv")


def test_apply_refuses_without_corrections(run: Run, tmp_path: Path) -> None:
    before = names(tmp_path)
    with pytest.raises(ValueError, match=r"has no review decisions: .* permll review .* with --auto\."):
        apply(run, tmp_path / "new.csv")
    with pytest.raises(ValueError, match=r"0\.999 or more .* \(the highest of 3 is 0\.99\): lower --min"):
        apply(run, tmp_path / "new.csv", auto=True, min_probability=0.999)
    assert names(tmp_path) == before
    assert not (run.folder / DECISIONS_FILE).exists()


def test_apply_writes_kept_labels(run: Run, tmp_path: Path) -> None:
    Decisions(run.folder).add("3", "keep", "cat", "Ada", expected=None)
    applied = apply(run, tmp_path / "new.csv")
    assert applied.num_changed == 0
    assert rows_of(tmp_path / "new.csv")[3]["label_source"] == "kept"
    assert rows_of(applied.changes_path) == []


def test_apply_refuses_bad_output_paths(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "data.csv"
    (tmp_path / "there.csv").write_text("mine")
    (tmp_path / "nowhere.csv").symlink_to(tmp_path / "no such file")
    (tmp_path / "link.csv").symlink_to(data)
    os.link(data, tmp_path / "hard.csv")
    (tmp_path / "noted.csv.changes.csv").write_text("mine")
    before = {path.name: path.lstat().st_mtime_ns for path in tmp_path.iterdir()}
    refused = {
        "data.csv": "is the input data set",
        "link.csv": "is the input data set",
        "hard.csv": "is the input data set",
        "there.csv": "already exists",
        "nowhere.csv": "already exists",
        "noted.csv": r"noted\.csv\.changes\.csv already exists",
        "new.parquet": r"must end in \.csv",
        "none/new.csv": "the folder .* does not exist",
    }
    for name, message in refused.items():
        with pytest.raises((ValueError, OSError), match=message):
            apply(run, tmp_path / name, auto=True)
    with pytest.raises(ValueError, match="--as copy is for image folders"):
        apply(run, tmp_path / "new.csv", auto=True, images="copy")
    with pytest.raises(ValueError, match=r"unknown output 'zip' .* choose from link, copy, hardlink, csv"):
        apply(run, tmp_path / "new.csv", auto=True, images="zip")  # type: ignore[arg-type]
    assert {path.name: path.lstat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_apply_refuses_output_inside_source(tmp_path: Path) -> None:
    photos = image_folder(tmp_path / "photos")
    run = make_run(photos, tmp_path / "run", {"cat/0.png": ("dog", 0.99)})
    (tmp_path / "shortcut").symlink_to(photos / "cat")
    for out in (photos / "new", photos / "cat" / "new", tmp_path / "shortcut" / "new"):
        with pytest.raises(ValueError, match="is inside"):
            apply(run, out, auto=True)
    with pytest.raises(FileExistsError, match="is the input data set"):
        apply(run, photos, auto=True)
    assert names(photos) == ["cat", "dog", "owl"]
    assert apply(run, tmp_path / "photos-new", auto=True).num_changed == 1  # only the name is similar


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[:-1], r"with 1 row \(23\) removed: restore it, or clean it again\."),
        (lambda lines: [*lines, lines[-1]], r"with 1 row \(24\) added"),
        (lambda lines: [*lines[:2], lines[2].replace("dog", "cat"), *lines[3:]], r"with 1 row \(1\) relabeled"),
        (lambda lines: [*lines[:-1], lines[-1].replace("owl", "")], r"no longer be read as in .* labels are missing"),
        (lambda lines: [line.replace(",kind", ",sort") for line in lines], "has no column 'kind'"),
    ],
)
def test_apply_refuses_changed_source(change: object, message: str, run: Run, tmp_path: Path) -> None:
    lines = (tmp_path / "data.csv").read_text().splitlines()
    (tmp_path / "data.csv").write_text("\n".join(change(lines)) + "\n")  # type: ignore[operator]
    before = names(tmp_path)
    with pytest.raises(ValueError, match=message):
        apply(run, tmp_path / "new.csv", auto=True)
    assert names(tmp_path) == before


def test_apply_names_missing_source(run: Run, tmp_path: Path) -> None:
    (tmp_path / "data.csv").unlink()
    with pytest.raises(FileNotFoundError, match=r"data\.csv, the source of .*run, does not exist: if it was moved"):
        apply(run, tmp_path / "new.csv", auto=True)


def test_apply_ignores_dropped_rare_classes(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text(csv_text() + "n99,000,1.0,emu\n")
    run = make_run(tmp_path / "data.csv", tmp_path / "run", PROPOSALS, label="kind", rare="drop")
    assert len(Findings.load(run.folder)) == ROWS
    apply(run, tmp_path / "new.csv", auto=True)
    assert (tmp_path / "new.csv").read_text().endswith("n99,000,1.0,emu,emu,given\n")


def test_plan_refuses_missing_run_or_findings(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="is not a run"):
        plan(tmp_path / "nothing")
    (tmp_path / "data.csv").write_text(csv_text())
    run = make_run(tmp_path / "data.csv", tmp_path / "run", PROPOSALS, label="kind")
    (run.folder / "findings.json").unlink()
    with pytest.raises(FileNotFoundError, match="has no findings"):
        plan(run)


def test_apply_refuses_run_with_synthetic_noise(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text(csv_text())
    options = {"label": "kind"}
    noisy = permll.train(
        str(tmp_path / "data.csv"), out=tmp_path / "run", epochs=1, callbacks=[], noise="sym:0.2", **options
    )
    data = load(tmp_path / "data.csv", **options)
    posterior = torch.nn.functional.one_hot((data.labels + 1) % 3, 3)
    Findings.from_posterior(data.ids, data.classes, data.labels, posterior).save(noisy.folder)
    with pytest.raises(ValueError, match=r"added synthetic noise \(sym:0\.2\) .* clean the data without noise\."):
        apply(noisy, tmp_path / "new.csv", auto=True)


def test_apply_writes_id_list_of_built_in_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = load("digits")
    wrong = {before.ids[row]: (before.classes[(int(before.labels[row]) + 1) % 10], 0.99) for row in (0, 5)}
    run = make_run("digits", tmp_path / "run", wrong)
    applied = apply(run, Path("new.csv"), auto=True)
    rows = rows_of(tmp_path / "new.csv")
    assert tuple(row["id"] for row in rows) == before.ids
    assert list(rows[0]) == ["id", "label", "label_original", "label_source"]
    assert [row["label"] for row in rows if row["label_source"] == "auto"] == [label for label, _ in wrong.values()]
    read, train = (shlex.split(command) for command in applied.commands)
    assert read[:4] == ["permll", "noise", "read", "new.csv"]
    assert train == ["permll", "train", "--data", "digits", "--noise", "new.npz"]
    with pytest.raises(ValueError, match=r"must end in \.csv"):
        apply(run, tmp_path / "new.npz", auto=True)


def test_apply_writes_id_list_of_data_in_memory(tmp_path: Path) -> None:
    run = make_memory_run(tmp_path / "run")
    applied = apply(run, tmp_path / "new.csv", auto=True)
    assert (applied.num_changed, applied.commands) == (1, ())
    assert list(rows_of(tmp_path / "new.csv")[2].values()) == ["2", "cat", "owl", "auto"]


def test_apply_keeps_image_table_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    image_folder(tmp_path / "photos")
    lines = [f"photos/{label_of(row)}/{row // 3}.png,{label_of(row)}" for row in range(ROWS)]
    (tmp_path / "list.csv").write_text("\n".join(["file,label", *lines]) + "\n")
    run = make_run(tmp_path / "list.csv", tmp_path / "run", {"photos/cat/0.png": ("dog", 0.99)}, image="file")
    with pytest.raises(ValueError, match=r"column 'file' .* relative to .*: write new\.csv to that folder"):
        apply(run, tmp_path / "far" / "new.csv", auto=True)
    applied = apply(run, tmp_path / "new.csv", auto=True)
    assert applied.commands == (
        f"permll train --data {tmp_path}/new.csv --label label --set 'data.options.image=\"file\"'",
    )
    assert load(tmp_path / "new.csv", image="file")[0].label == "dog"


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_atomic_output_is_complete_or_absent(kind: str, tmp_path: Path) -> None:
    def build(part: Path) -> None:
        if kind == "folder":
            part.mkdir()
        (part / "inside" if kind == "folder" else part).write_text("half")

    def interrupted() -> None:
        with atomic_output(tmp_path / "new") as part:
            build(part)
            assert not (tmp_path / "new").exists()
            raise KeyboardInterrupt

    def existing() -> None:
        with atomic_output(tmp_path / "new") as part:
            build(part)
            (tmp_path / "new").write_text("other")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert names(tmp_path) == []
    with pytest.raises(FileExistsError):
        existing()
    assert names(tmp_path) == ["new"]
    assert (tmp_path / "new").read_text() == "other"


def test_apply_removes_changes_after_failed_rename(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = names(tmp_path)
    replace = Path.replace

    def fail(self: Path, target: Path) -> Path:
        if Path(target).name == "new.csv":
            raise OSError("disk error")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk error"):
        apply(run, tmp_path / "new.csv", auto=True)
    assert names(tmp_path) == before


# Calls apply in child processes, each of which kills itself before the nth sync or rename.
KILLED = """
import os, signal
from permll.cleaning.apply import apply


def kill_before(number):
    def wrap(function):
        def call(*arguments):
            nonlocal number
            number -= 1
            if number == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments)
        return call
    os.fsync, os.replace = wrap(os.fsync), wrap(os.replace)


for number in range(1, 8):
    pid = os.fork()
    if pid == 0:
        kill_before(number)
        apply("run", f"new{number}.csv", auto=True)
        os._exit(0)
    print(os.WIFSIGNALED(os.waitpid(pid, 0)[1]))
"""


def test_apply_killed_leaves_complete_or_no_output(run: Run, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    process = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, timeout=120)
    assert process.stdout.split() == ["True"] * 6 + ["False"], process.stderr
    assert {path: path.read_bytes() for path in before} == before
    applied = apply(run, tmp_path / "new1.csv", auto=True)  # leftovers of the killed process do not matter
    complete = [number for number in range(1, 8) if (tmp_path / f"new{number}.csv").exists()]
    assert complete == [1, 6, 7]  # 6: killed when both files had their names
    for number in complete:
        assert (tmp_path / f"new{number}.csv").read_bytes() == applied.path.read_bytes()
    left = {path for path in tmp_path.rglob("*") if path.is_file() and path not in before}
    assert all(path.name.startswith((".", "new")) for path in left)


def test_plan_writes_nothing(run: Run, tmp_path: Path) -> None:
    before = names(tmp_path), names(run.folder)
    planned = plan(run.folder, auto=True, min_probability=0.5)
    assert (planned.num_changed, [correction.id for correction in planned.corrections]) == (3, ["3", "4", "5"])
    assert (names(tmp_path), names(run.folder)) == before


def test_apply_handles_special_characters_in_paths(tmp_path: Path) -> None:
    """Names with spaces, quotes and other scripts survive links and the list of changes."""
    photos = image_folder(tmp_path / "photos")
    odd = photos / "cat" / "a 'b', 二.png"
    Image.fromarray(np.zeros((12, 12, 3), np.uint8)).save(odd)
    run = make_run(photos, tmp_path / "run", {"cat/a 'b', 二.png": ("owl", 0.99)})
    applied = apply(run, tmp_path / "new set", auto=True)
    assert (tmp_path / "new set" / "owl" / "a 'b', 二.png").samefile(odd)
    assert rows_of(applied.changes_path)[0]["id"] == "cat/a 'b', 二.png"
    assert applied.commands == (f"permll train --data '{tmp_path}/new set'",)
