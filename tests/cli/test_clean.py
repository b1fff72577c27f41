"""``permll clean`` on four kinds of data."""

import csv
import json
import shutil
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import pytest

from permll.cleaning.review_decisions import Decisions
from permll.findings import Finding
from permll.training.run import Run
from tests.helpers.cleaning_files import KINDS, save_csv, write_dataset
from tests.helpers.command_line import Result, error_message, run_cli, run_process
from tests.helpers.mislabeled_data import CLASSES

# A process takes seconds, so one kind of data is among the fast tests.
PARAMETERS = [kind if kind == "vectors" else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]
NEW_NAMES = {
    "images": "images-fixed",
    "texts": "texts-fixed.csv",
    "table": "table-fixed.csv",
    "vectors": "vectors-fixed.npz",
}
DATA_LINES = {
    "images": "images: 200 samples, 3 classes, Images of 3 x 8 x 8",
    "texts": "texts: 200 samples, 3 classes, Texts",
    "table": "table: 200 samples, 3 classes, Table of 3 columns",
    "vectors": "vectors: 200 samples, 3 classes, Vectors of 8",
}


class Cleaned(NamedTuple):
    """A cleaned data set: its folder, the arguments and result of the command, and the ids of the wrong labels."""

    folder: Path
    arguments: list[str]
    result: Result
    wrong: set[str]

    @property
    def findings(self) -> list[dict[str, str]]:
        with (self.folder / "run" / "findings.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    @property
    def timestamps(self) -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in (self.folder / "run").rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Cleaned]:
    """Return a function that cleans a kind of data once: vectors as a process, the others in this one."""
    done: dict[str, Cleaned] = {}

    def clean(kind: str) -> Cleaned:
        if kind not in done:
            folder = tmp_path_factory.mktemp(kind)
            wrong = write_dataset(kind, folder)
            arguments = ["clean", *KINDS[kind], "--epochs", "6", "--out", "run"]
            run = run_process if kind == "vectors" else run_cli
            done[kind] = Cleaned(folder, arguments, run(*arguments, cwd=folder, OMP_NUM_THREADS="1"), wrong)
        return done[kind]

    return clean


@pytest.mark.parametrize("kind", PARAMETERS)
def test_clean_finds_wrong_labels(kind: str, cleaned: Callable[[str], Cleaned]) -> None:
    it = cleaned(kind)
    assert it.result.returncode == 0, it.result.stderr
    progress = [line.split(":")[0] for line in it.result.stderr.splitlines()[-6:]]
    assert progress == [f"epoch {number} of 6" for number in range(1, 7)]
    lines = it.result.stdout.splitlines()
    assert lines[0] == DATA_LINES[kind]
    flagged = {row["id"] for row in it.findings if row["is_issue"] == "True"}
    proposals = sum(row["id"] in flagged and row["proposed_label"] != row["given_label"] for row in it.findings)
    assert f"{len(flagged)} of 200 labels are flagged; another label is proposed for {proposals}." in lines
    assert len(flagged & it.wrong) > len(it.wrong) / 2
    assert len(flagged - it.wrong) <= 5
    ids = [row["id"] for row in it.findings]
    assert len(it.wrong & set(ids[: len(it.wrong)])) >= 0.8 * len(it.wrong)
    start = lines.index("Most suspect labels (probability that the given label is correct)") + 1
    suspects = [
        line for line in takewhile(lambda line: line.startswith("  "), lines[start:]) if line[2] != " "
    ]  # texts are on further lines
    assert [line.split(":")[0].strip() for line in suspects] == ids[:10]
    command = f"permll apply run --out {NEW_NAMES[kind]}"
    assert lines[lines.index("All labels: run/findings.csv") + 1 :][:2] == [
        "Review the flagged labels:  permll review run",
        f"Write the corrected data:  {command}",
    ]
    changes = sum(
        row["is_issue"] == "True"
        and row["given_label"] != row["proposed_label"]
        and float(row["conservative_confidence"]) >= 0.8
        for row in it.findings
    )
    auto = f"With {changes} automatic changes (probability 0.8 or more):  {command} --auto"
    assert lines[lines.index("All labels: run/findings.csv") + 3 :] == ([auto] if changes else [])


@pytest.mark.parametrize("kind", PARAMETERS)
def test_findings_csv_has_a_row_per_label(kind: str, cleaned: Callable[[str], Cleaned]) -> None:
    rows = cleaned(kind).findings
    assert list(rows[0]) == [name for name in Finding._fields if kind == "texts" or name != "text"]
    assert [int(row["rank"]) for row in rows] == list(range(1, 201))
    assert len({row["id"] for row in rows}) == 200
    assert {row["given_label"] for row in rows} | {row["proposed_label"] for row in rows} == set(CLASSES)
    for row in rows:
        assert 0 <= float(row["label_quality"]) <= 1
        assert 0 <= float(row["conservative_confidence"]) <= float(row["confidence"]) <= 1
        assert row["is_issue"] == str(float(row["label_quality"]) <= 0.5)
        assert row["reason"] or row["is_issue"] == "False"


@pytest.mark.parametrize("kind", PARAMETERS)
def test_clean_again_only_reads_the_run(kind: str, cleaned: Callable[[str], Cleaned]) -> None:
    it = cleaned(kind)
    before = it.timestamps
    again = run_cli(*it.arguments, cwd=it.folder)
    assert (again.returncode, again.stdout, again.stderr) == (0, it.result.stdout, "")
    as_json = run_cli(*it.arguments, "--json", cwd=it.folder)
    assert (as_json.returncode, as_json.stderr) == (0, "")
    facts = json.loads(as_json.stdout)
    assert (facts["labels"], facts["threshold"], facts["run"]) == (200, 0.5, "run")
    assert facts["flagged"] == sum(row["is_issue"] == "True" for row in it.findings)
    assert sum(pair["count"] for pair in facts["pairs"]) == facts["proposals"] <= facts["flagged"]
    assert facts["noise"]["low"] <= facts["noise"]["rate"] <= facts["noise"]["high"]
    assert it.timestamps == before


def test_next_round_reads_moved_data(cleaned: Callable[[str], Cleaned], tmp_path: Path) -> None:
    it = cleaned("vectors")
    folder = tmp_path / "run"
    shutil.copytree(it.folder / "run", folder)
    (tmp_path / "moved.npz").write_bytes((it.folder / "vectors.npz").read_bytes())
    first = it.findings[0]
    Decisions(folder).add(first["id"], "keep", first["given_label"], "Ada", expected=None)
    result = run_cli("clean", "--continue", "run", "--data", "moved.npz", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "Since run: 1 label reviewed, 0 of them wrong; " in result.stdout
    assert Run(tmp_path / "run-round2").recipe.data.source == str(tmp_path / "moved.npz")


def test_clean_refuses_run_of_another_method(cleaned: Callable[[str], Cleaned]) -> None:
    it = cleaned("vectors")
    before = it.timestamps
    result = run_cli(*it.arguments, "--method", "ce", cwd=it.folder)
    message = error_message(result)
    assert "another recipe (method.name" in message
    assert "threads" not in message
    assert result.stdout == ""
    assert it.timestamps == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.csv"], "nowhere.csv"),
        (["one.csv"], "at least two classes are needed, but all labels are 'ant'."),
        (["data.csv", "--label", "kind"], "data.csv has no column 'kind'"),
        (["data.csv", "--text", "words"], "data.csv has no column 'words'"),
        (["data.csv", "--method", "magic"], "'magic'"),
        (["data.csv", "--epochs", "0"], "training.epochs is 0"),
        (["data.csv", "--set", "magic=1"], "magic"),
        (["data.csv", "--set", "magic"], "--set takes KEY=VALUE, such as optimizer.lr=0.1; got 'magic'."),
        (["data.csv", "--out", "."], "choose another folder."),
        (["empty.csv"], "empty.csv is empty"),
        (["notes.txt"], "notes.txt"),
        ([], "give the data, permll clean DATA, or a reviewed run, permll clean --continue RUN."),
    ],
)
def test_clean_refuses_bad_input_in_one_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    save_csv(tmp_path / "data.csv", ["size", "label"], [[str(row % 7), CLASSES[row % 3]] for row in range(30)])
    save_csv(tmp_path / "one.csv", ["size", "label"], [[str(row % 7), "ant"] for row in range(30)])
    (tmp_path / "empty.csv").touch()
    (tmp_path / "notes.txt").write_text("mine")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    result = run_cli("clean", *arguments, cwd=tmp_path)
    assert message in error_message(result)
    assert result.stdout == ""
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.slow
def test_clean_process_reports_missing_file_without_traceback(tmp_path: Path) -> None:
    result = run_process("clean", "nowhere.csv", cwd=tmp_path)
    assert "nowhere.csv" in error_message(result)
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_warnings_are_printed_as_one_line(tmp_path: Path) -> None:
    (tmp_path / "digits").mkdir()  # shadows a built-in data set
    result = run_process("clean", "digits", "--epochs", "1", cwd=tmp_path, OMP_NUM_THREADS="1")
    assert result.returncode == 0, result.stderr
    assert any(line.startswith("permll: ") and "./digits" in line for line in result.stderr.splitlines())
    assert ".py" not in result.stderr


def test_clean_warns_about_useless_network(tmp_path: Path) -> None:
    rows = "".join(f"{row % 7},{row * 31 % 11},{'ab'[row * row % 5 % 2]}\n" for row in range(80))
    (tmp_path / "table.csv").write_text("x,z,label\n" + rows)
    result = run_cli("clean", "table.csv", "--epochs", "1", "--set", "optimizer.lr=1e-9", "--out", "run", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "Warning: held-out accuracy (" in result.stdout
    assert "is not above the majority class" in (tmp_path / "run" / "report.html").read_text()
