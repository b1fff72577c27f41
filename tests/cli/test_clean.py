"""``permll clean`` on four kinds of data, as the process a user would start; its many refusals in this one."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

from permll.findings import Finding
from tests.cli.conftest import Here, Inside
from tests.cli.test_commands import run
from tests.helpers.mislabeled_data import CLASSES, mislabeled

KINDS = {
    "images": ["images"],
    "texts": ["texts.csv", "--text", "words", "--label", "kind"],
    "table": ["table.csv"],
    "vectors": ["vectors.npz"],
}
UNDERSTOOD = {
    "images": "LabeledData(images: 200 samples, 3 classes, Images of 3 x 8 x 8)",
    "texts": "LabeledData(texts: 200 samples, 3 classes, Texts)",
    "table": "LabeledData(table: 200 samples, 3 classes, Table of 3 columns)",
    "vectors": "LabeledData(vectors: 200 samples, 3 classes, Vectors of 8)",
}
WORDS = (("river", "fish", "water", "boat"), ("sun", "sand", "heat", "palm"), ("snow", "ice", "frost", "sledge"))


def write(kind: str, folder: Path) -> set[str]:
    """Write a data set of 200 samples and return the ids of those with a wrong label."""
    known, rng = mislabeled(), np.random.default_rng(1)
    rows = list(zip(range(len(known.true)), known.true.tolist(), known.labels, strict=True))
    if kind == "images":
        for row, true, label in rows:
            pixels = rng.integers(0, 100, (8, 8, 3))
            pixels[..., true] += 120
            (folder / "images" / label).mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels.astype(np.uint8)).save(folder / "images" / label / f"{row:03}.png")
        return {f"{known.labels[row]}/{row:03}.png" for row in known.wrong}
    if kind == "vectors":
        np.savez(folder / "vectors.npz", X=known.values, y=np.array(known.labels))
    if kind == "texts":
        lines = [[" ".join(rng.choice([*WORDS[true], "the", "a"], 8)), label] for _, true, label in rows]
        save_csv(folder / "texts.csv", ["words", "kind"], lines)
    if kind == "table":
        colors = ("red", "green", "blue")
        cells = [[f"{rng.normal(3 * true, 0.3):.3f}", f"{rng.normal(-true, 0.3):.2f}", colors[true], label]
                 for _, true, label in rows]  # fmt: skip
        for row, cell in enumerate(rng.integers(0, 9, len(cells)).tolist()):
            if cell < 3:  # a third of the rows miss a value
                cells[row][cell] = ""
        save_csv(folder / "table.csv", ["size", "weight", "colour", "label"], cells)
    return {str(row) for row in known.wrong}


def save_csv(path: Path, names: list[str], lines: list[list[str]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([names, *lines])


class Cleaned(NamedTuple):
    """A data set that was cleaned: the folder it lies in, the command, what was said, and which labels are wrong."""

    folder: Path
    command: list[str]
    code: int
    printed: str
    complaints: str
    wrong: set[str]

    @property
    def findings(self) -> list[dict[str, str]]:
        with (self.folder / "run" / "findings.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    @property
    def stamps(self) -> dict[Path, int]:
        """When each file of the run was written."""
        return {path: path.stat().st_mtime_ns for path in (self.folder / "run").rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Cleaned]:
    """Return a function from a kind of data to what came of it, cleaned when it is asked for first."""
    made: dict[str, Cleaned] = {}

    def find(kind: str) -> Cleaned:
        if kind not in made:
            folder = tmp_path_factory.mktemp(kind)
            wrong = write(kind, folder)
            command = ["clean", *KINDS[kind], "--epochs", "6", "--out", "run"]
            shown = run(*command, cwd=folder, OMP_NUM_THREADS="1")
            made[kind] = Cleaned(folder, command, shown.returncode, shown.stdout, shown.stderr, wrong)
        return made[kind]

    return find


@pytest.mark.parametrize("kind", KINDS)
def test_it_says_what_it_understood_and_which_labels_are_wrong(kind: str, cleaned: Callable[[str], Cleaned]) -> None:
    it = cleaned(kind)
    assert it.code == 0, it.complaints
    watched = [line.split(":")[0] for line in it.complaints.splitlines()[-6:]]
    assert watched == [f"epoch {number} of 6" for number in range(1, 7)]
    lines = it.printed.splitlines()
    assert lines[0] == UNDERSTOOD[kind]
    flagged = {row["id"] for row in it.findings if row["flagged"] == "True"}
    assert f"{len(flagged)} of 200 labels are flagged: another class is more probable." in lines
    assert len(flagged & it.wrong) > len(it.wrong) / 2
    assert len(flagged - it.wrong) <= 3
    first = [row["id"] for row in it.findings]
    assert len(it.wrong & set(first[: len(it.wrong)])) >= 0.8 * len(it.wrong)
    start = lines.index("Most suspect labels") + 1
    assert [line.split(":")[0].strip() for line in lines[start : start + 10]] == first[:10]
    assert lines[-3:] == [
        "Every label: run/findings.csv",
        "Look at them:  permll review run",
        "Write the corrected data:  permll apply run --auto --out NEW",
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_every_label_has_its_line(kind: str, cleaned: Callable[[str], Cleaned]) -> None:
    rows = cleaned(kind).findings
    assert list(rows[0]) == list(Finding._fields)
    assert [int(row["rank"]) for row in rows] == list(range(1, 201))
    assert len({row["id"] for row in rows}) == 200
    assert {row["given"] for row in rows} | {row["proposed"] for row in rows} == set(CLASSES)
    for row in rows:
        assert 0 <= float(row["quality"]) <= float(row["belief"]) <= 1
        assert row["flagged"] == str(row["given"] != row["proposed"] and float(row["quality"]) <= 0.5)
        assert row["reason"] or row["flagged"] == "False"


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_command_again_only_reads(
    kind: str, cleaned: Callable[[str], Cleaned], monkeypatch: pytest.MonkeyPatch, here: Here
) -> None:
    it = cleaned(kind)
    monkeypatch.chdir(it.folder)
    before = it.stamps
    assert here(*it.command) == (0, it.printed, "")
    code, printed, complaints = here(*it.command, "--json")
    assert (code, complaints) == (0, "")
    facts = json.loads(printed)
    assert (facts["labels"], facts["threshold"], facts["run"]) == (200, 0.5, "run")
    assert facts["flagged"] == sum(row["flagged"] == "True" for row in it.findings)
    assert sum(pair["count"] for pair in facts["pairs"]) == facts["flagged"]
    assert facts["noise"]["low"] <= facts["noise"]["rate"] <= facts["noise"]["high"]
    assert it.stamps == before


def test_another_method_wants_another_folder(
    cleaned: Callable[[str], Cleaned], monkeypatch: pytest.MonkeyPatch, here: Here
) -> None:
    it = cleaned("vectors")
    monkeypatch.chdir(it.folder)
    before = it.stamps
    code, printed, complaints = here(*it.command, "--method", "ce")
    assert (code, printed) == (1, "")
    assert complaints.startswith("permll: run is a run of another recipe (method.name")
    assert it.stamps == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.csv"], "no such file or folder: nowhere.csv"),
        (["one.csv"], "at least two classes are needed, but all labels are 'ant'."),
        (["data.csv", "--label", "kind"], "data.csv has no column 'kind'"),
        (["data.csv", "--text", "words"], "data.csv has no column 'words'"),
        (["data.csv", "--method", "magic"], "'magic' is no method."),
        (["data.csv", "--epochs", "0"], "training.epochs is 0"),
        (["data.csv", "--set", "magic=1"], "there is no key magic."),
        (["data.csv", "--out", "."], ". is no run, and not empty: choose another folder."),
        (["empty.csv"], "empty.csv is empty: its first line must hold the column names."),
        (["notes.txt"], "unsupported file type: notes.txt; "),
    ],
)
def test_what_cannot_be_is_one_sentence(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: Here
) -> None:
    monkeypatch.chdir(tmp_path)
    save_csv(tmp_path / "data.csv", ["size", "label"], [[str(row % 7), CLASSES[row % 3]] for row in range(30)])
    save_csv(tmp_path / "one.csv", ["size", "label"], [[str(row % 7), "ant"] for row in range(30)])
    (tmp_path / "empty.csv").touch()
    (tmp_path / "notes.txt").write_text("mine")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    code, printed, complaints = here("clean", *arguments)
    assert (code, printed) == (1, "")
    assert complaints.startswith("permll: ")
    assert message in complaints
    assert complaints.count("\n") == 1
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_bad_input_of_a_process_is_one_sentence_and_no_traceback(tmp_path: Path) -> None:
    shown = run("clean", "nowhere.csv", cwd=tmp_path)
    assert (shown.returncode, shown.stdout) == (1, "")
    assert shown.stderr == "permll: no such file or folder: nowhere.csv.\n"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_the_name_of_a_built_in_set_is_spoken_of_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "digits").mkdir()
    shown = run("clean", "digits", "--epochs", "1", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "permll: digits is the built-in dataset; write ./digits for the local path.\n" in shown.stderr
    assert ".py" not in shown.stderr


def test_a_network_that_knows_nothing_is_not_believed(tmp_path: Path, inside: Inside) -> None:
    rows = "".join(f"{row % 7},{row * 31 % 11},{'ab'[row * row % 5 % 2]}\n" for row in range(80))
    (tmp_path / "table.csv").write_text("x,z,label\n" + rows)
    said = inside("clean", "table.csv", "--epochs", "1", "--set", "optimizer.lr=1e-9", "--out", "run", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "Warning: held-out accuracy (" in said.stdout
    assert "is not above the majority class" in (tmp_path / "run" / "report.html").read_text()
