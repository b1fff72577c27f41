"""``apply`` as a whole: where decisions come from, what is refused, and that nothing is half done."""

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
from permll.cleaning.decisions import FILE, Decisions
from permll.data import load
from permll.findings import Findings
from permll.training.run import Run
from tests.helpers.apply_runs import PROPOSALS, ROWS, animal, image_folder, make_run, numbers, table_text


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_decisions_come_first_and_auto_takes_the_rest(run: Run, tmp_path: Path) -> None:
    decisions = Decisions(run.folder)
    decisions.add("3", "keep", "cat", "Ada", expected=None)
    decisions.add("5", "accept", "cat", "Ada", expected=None)
    decisions.add("7", "choose", "owl", "Bob", expected=None)
    decisions.add("8", "unsure", "owl", "Bob", expected=None)
    applied = apply(run, tmp_path / "new.csv", auto=True)
    assert applied.changed == 3
    assert applied.by_source == {"kept": 1, "accepted": 1, "chosen": 1, "unsure": 1, "auto": 1}
    rows = rows_of(tmp_path / "new.csv")
    found = {
        row: (rows[row]["kind"], rows[row]["label_original"], rows[row]["label_source"]) for row in (3, 4, 5, 7, 8, 9)
    }
    assert found == {
        3: ("cat", "cat", "kept"),
        4: ("owl", "dog", "auto"),
        5: ("cat", "owl", "accepted"),
        7: ("owl", "dog", "chosen"),
        8: ("owl", "owl", "unsure"),
        9: ("cat", "cat", "given"),
    }
    assert applied.changes == tmp_path / "new.csv.changes.csv"
    changes = rows_of(applied.changes)
    said = decisions.current()
    assert [list(row.values()) for row in changes] == [
        ["4", "dog", "owl", "auto", "0.96", "", ""],
        ["5", "owl", "cat", "accepted", "0.7", "Ada", said["5"].at],
        ["7", "dog", "owl", "chosen", "0.01", "Bob", said["7"].at],
    ]


def test_what_was_taken_back_does_not_count(run: Run, tmp_path: Path) -> None:
    decisions = Decisions(run.folder)
    decisions.add("3", "accept", "dog", "Ada", expected=None)
    decisions.undo("Ada")
    with pytest.raises(ValueError, match="nobody has decided anything"):
        apply(run, tmp_path / "new.csv")


def test_without_decisions_and_auto_there_is_nothing_to_do(run: Run, tmp_path: Path) -> None:
    before = names(tmp_path)
    with pytest.raises(ValueError, match=r"nobody has decided anything in .* permll review .* with --auto\."):
        apply(run, tmp_path / "new.csv")
    with pytest.raises(ValueError, match=r"0\.999 or more \(the highest of 3 is 0\.99\): ask for less"):
        apply(run, tmp_path / "new.csv", auto=True, min_probability=0.999)
    assert names(tmp_path) == before
    assert not (run.folder / FILE).exists()


def test_to_keep_every_label_is_worth_a_file_too(run: Run, tmp_path: Path) -> None:
    Decisions(run.folder).add("3", "keep", "cat", "Ada", expected=None)
    applied = apply(run, tmp_path / "new.csv")
    assert applied.changed == 0
    assert rows_of(tmp_path / "new.csv")[3]["label_source"] == "kept"
    assert rows_of(applied.changes) == []


def test_places_that_are_taken_or_wrong_are_refused(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "data.csv"
    (tmp_path / "there.csv").write_text("mine")
    (tmp_path / "nowhere.csv").symlink_to(tmp_path / "no such file")
    (tmp_path / "link.csv").symlink_to(data)
    os.link(data, tmp_path / "hard.csv")
    (tmp_path / "noted.csv.changes.csv").write_text("mine")
    before = {path.name: path.lstat().st_mtime_ns for path in tmp_path.iterdir()}
    refused = {
        "data.csv": "is the data set itself",
        "link.csv": "is the data set itself",
        "hard.csv": "is the data set itself",
        "there.csv": "is there already",
        "nowhere.csv": "is there already",
        "noted.csv": r"noted\.csv\.changes\.csv is there already",
        "new.parquet": r"let its name end in \.csv",
        "none/new.csv": "there is no folder",
    }
    for name, message in refused.items():
        with pytest.raises((ValueError, OSError), match=message):
            apply(run, tmp_path / name, auto=True)
    with pytest.raises(ValueError, match="--as says how a folder of images is written"):
        apply(run, tmp_path / "new.csv", auto=True, as_="copy")
    with pytest.raises(ValueError, match="one of link, copy, hardlink, csv, got 'zip'"):
        apply(run, tmp_path / "new.csv", auto=True, as_="zip")  # type: ignore[arg-type]
    assert {path.name: path.lstat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_a_place_inside_the_folder_is_refused_also_through_a_link(tmp_path: Path) -> None:
    photos = image_folder(tmp_path / "photos")
    run = make_run(photos, tmp_path / "run", {"cat/0.png": ("dog", 0.99)})
    (tmp_path / "door").symlink_to(photos / "cat")
    for place in (photos / "new", photos / "cat" / "new", tmp_path / "door" / "new"):
        with pytest.raises(ValueError, match="lies inside"):
            apply(run, place, auto=True)
    with pytest.raises(FileExistsError, match="is the data set itself"):
        apply(run, photos, auto=True)
    assert names(photos) == ["cat", "dog", "owl"]
    assert apply(run, tmp_path / "photos-new", auto=True).changed == 1  # the name alone is no reason


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[:-1], r"with 1 row \(23\) less: bring the old one back, or clean this one anew\."),
        (lambda lines: [*lines, lines[-1]], r"with 1 row \(24\) more"),
        (lambda lines: [*lines[:2], lines[2].replace("dog", "cat"), *lines[3:]], r"with other labels in 1 row \(1\)"),
        (lambda lines: [*lines[:-1], lines[-1].replace("owl", "")], r"cannot be read any more .* labels are missing"),
        (lambda lines: [line.replace(",kind", ",sort") for line in lines], "has no column 'kind'"),
    ],
)
def test_data_that_changed_since_are_refused(change: object, message: str, run: Run, tmp_path: Path) -> None:
    lines = (tmp_path / "data.csv").read_text().splitlines()
    (tmp_path / "data.csv").write_text("\n".join(change(lines)) + "\n")  # type: ignore[operator]
    before = names(tmp_path)
    with pytest.raises(ValueError, match=message):
        apply(run, tmp_path / "new.csv", auto=True)
    assert names(tmp_path) == before


def test_data_that_are_gone_are_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "data.csv").unlink()
    with pytest.raises(FileNotFoundError, match=r"there is no .*data\.csv, which .* was made from: bring it back"):
        apply(run, tmp_path / "new.csv", auto=True)


def test_classes_that_were_left_out_as_too_rare_are_no_change(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text(table_text() + "n99,000,1.0,emu\n")
    run = make_run(tmp_path / "data.csv", tmp_path / "run", PROPOSALS, label="kind", rare="drop")
    assert len(Findings.load(run.folder)) == ROWS
    apply(run, tmp_path / "new.csv", auto=True)
    assert (tmp_path / "new.csv").read_text().endswith("n99,000,1.0,emu,emu,given\n")


def test_no_run_and_no_findings_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="is no run"):
        plan(tmp_path / "nothing")
    (tmp_path / "data.csv").write_text(table_text())
    run = make_run(tmp_path / "data.csv", tmp_path / "run", PROPOSALS, label="kind")
    (run.folder / "findings.json").unlink()
    with pytest.raises(FileNotFoundError, match="has no findings"):
        plan(run)


def test_noise_that_a_run_put_on_a_file_is_not_written_to_it(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text(table_text())
    options = {"label": "kind"}
    noisy = permll.train(str(tmp_path / "data.csv"), "permll", out=tmp_path / "run", epochs=1, callbacks=[], noise="sym:0.2", overrides={"data.options": options})  # fmt: skip
    data = load(tmp_path / "data.csv", **options)
    posterior = torch.nn.functional.one_hot((data.labels + 1) % 3, 3)
    Findings.from_posterior(data.ids, data.classes, data.labels, posterior).save(noisy.folder)
    with pytest.raises(ValueError, match=r"put noise \(sym:0\.2\) on the labels .* clean the data without noise\."):
        apply(noisy, tmp_path / "new.csv", auto=True)


def test_a_built_in_set_gets_its_labels_by_id_and_can_be_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    with pytest.raises(ValueError, match=r"let its name end in \.csv"):
        apply(run, tmp_path / "new.npz", auto=True)


def test_data_in_memory_get_their_labels_by_id(tmp_path: Path) -> None:
    data = permll.data.load(numbers(), labels=[animal(row) for row in range(ROWS)])
    run = permll.train(data, "permll", out=tmp_path / "run", epochs=1, callbacks=[])
    posterior = torch.nn.functional.one_hot((data.labels + (torch.arange(ROWS) == 2)) % 3, 3)
    Findings.from_posterior(data.ids, data.classes, data.labels, posterior).save(run.folder)
    applied = apply(run, tmp_path / "new.csv", auto=True)
    assert (applied.changed, applied.commands) == (1, ())
    assert list(rows_of(tmp_path / "new.csv")[2].values()) == ["2", "cat", "owl", "auto"]


def test_a_table_of_images_stays_where_its_images_are_seen(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    image_folder(tmp_path / "photos")
    lines = [f"photos/{animal(row)}/{row // 3}.png,{animal(row)}" for row in range(ROWS)]
    (tmp_path / "list.csv").write_text("\n".join(["file,label", *lines]) + "\n")
    run = make_run(tmp_path / "list.csv", tmp_path / "run", {"photos/cat/0.png": ("dog", 0.99)}, image="file")
    with pytest.raises(ValueError, match=r"column 'file' names images as seen from .*: write new\.csv to that folder"):
        apply(run, tmp_path / "far" / "new.csv", auto=True)
    applied = apply(run, tmp_path / "new.csv", auto=True)
    assert applied.commands == (
        f"permll train --data {tmp_path}/new.csv --label label --set 'data.options.image=\"file\"'",
    )
    assert load(tmp_path / "new.csv", image="file")[0].label == "dog"


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_thing_is_made_whole_or_not_at_all(kind: str, tmp_path: Path) -> None:
    def build(part: Path) -> None:
        if kind == "folder":
            part.mkdir()
        (part / "inside" if kind == "folder" else part).write_text("half")

    def interrupted() -> None:
        with atomic_output(tmp_path / "new") as part:
            build(part)
            assert not (tmp_path / "new").exists()
            raise KeyboardInterrupt

    def too_late() -> None:
        with atomic_output(tmp_path / "new") as part:
            build(part)
            (tmp_path / "new").write_text("theirs")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert names(tmp_path) == []
    with pytest.raises(FileExistsError):
        too_late()
    assert names(tmp_path) == ["new"]
    assert (tmp_path / "new").read_text() == "theirs"


def test_if_the_data_set_cannot_be_put_in_place_the_changes_are_not_either(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = names(tmp_path)
    rename = Path.rename

    def full(self: Path, target: Path) -> Path:
        if Path(target).name == "new.csv":
            raise OSError("the disk is gone")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(OSError, match="the disk is gone"):
        apply(run, tmp_path / "new.csv", auto=True)
    assert names(tmp_path) == before


# Applies in children that kill themselves before the nth time that something is to last: a file, or its name.
KILLED = """
import os, signal
from permll.cleaning.apply import apply


def die(left):
    def before(act):
        def acting(*arguments):
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return act(*arguments)
        return acting
    os.fsync, os.rename = before(os.fsync), before(os.rename)


for number in range(1, 6):
    pid = os.fork()
    if pid == 0:
        die(number)
        apply("run", f"new{number}.csv", auto=True)
        os._exit(0)
    print(os.WIFSIGNALED(os.waitpid(pid, 0)[1]))
"""


def test_killed_at_any_moment_the_data_set_is_whole_or_not_there(run: Run, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    shown = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, timeout=120)
    assert shown.stdout.split() == ["True"] * 4 + ["False"], shown.stderr
    assert {path: path.read_bytes() for path in before} == before
    applied = apply(run, tmp_path / "new1.csv", auto=True)  # what was killed does not stand in the way
    made = [f"new{number}.csv" for number in range(1, 6) if (tmp_path / f"new{number}.csv").exists()]
    assert made == ["new1.csv", "new5.csv"]
    assert (tmp_path / "new5.csv").read_bytes() == applied.path.read_bytes()
    left = {path for path in tmp_path.rglob("*") if path.is_file() and path not in before}
    assert all(path.name.startswith((".", "new")) for path in left)


def test_a_plan_writes_nothing(run: Run, tmp_path: Path) -> None:
    before = names(tmp_path), names(run.folder)
    planned = plan(run.folder, auto=True, min_probability=0.5)
    assert (planned.changed, [one.id for one in planned.found]) == (3, ["3", "4", "5"])
    assert (names(tmp_path), names(run.folder)) == before


def test_an_image_that_is_a_picture_of_nothing_still_counts(tmp_path: Path) -> None:
    """Names with spaces, quotes and other scripts survive links and the list of changes."""
    photos = image_folder(tmp_path / "photos")
    odd = photos / "cat" / "a 'b', 二.png"
    Image.fromarray(np.zeros((12, 12, 3), np.uint8)).save(odd)
    run = make_run(photos, tmp_path / "run", {"cat/a 'b', 二.png": ("owl", 0.99)})
    applied = apply(run, tmp_path / "new set", auto=True)
    assert (tmp_path / "new set" / "owl" / "a 'b', 二.png").samefile(odd)
    assert rows_of(applied.changes)[0]["id"] == "cat/a 'b', 二.png"
    assert applied.commands == (f"permll train --data '{tmp_path}/new set'",)
