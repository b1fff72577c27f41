"""``permll clean`` with several annotators, as a process."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.annotated_files import Annotated, annotated, write_long, write_wide
from tests.helpers.command_line import error_message, run_cli, run_process, words


@pytest.fixture(scope="module")
def data() -> Annotated:
    return annotated()


def test_wide_form(data: Annotated, tmp_path: Path) -> None:
    write_wide(tmp_path, data)
    result = run_process("clean", "wide.csv", "--annotators", "ann_*", "--epochs", "8", "--out", "run", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    text = words(result.stdout)
    assert "Labels are the consensus of 5 annotators (720 answers); weakest: ann_5 (" in text
    page = (tmp_path / "run" / "report.html").read_text()
    assert 'id="annotators"' in page
    assert 'class="answers"' in page
    saved = json.loads((tmp_path / "run" / "findings.json").read_text())["metadata"]["annotators"]
    assert [one["annotator"] for one in saved][:1] == ["ann_5"]
    again = run_cli("clean", "run", "--json", cwd=tmp_path)
    assert json.loads(again.stdout)["annotators"] == saved
    applied = run_process("apply", "run", "--auto", "--out", "fixed.csv", cwd=tmp_path)
    assert applied.returncode == 0, applied.stderr
    assert (tmp_path / "fixed.csv").read_text().splitlines()[0].endswith("ann_5,label,label_original,label_source")


def test_long_form(data: Annotated, tmp_path: Path) -> None:
    write_long(tmp_path, data)
    arguments = ["clean", "vectors.npz", "--annotations", "answers.csv", "--epochs", "4", "--out", "run"]
    result = run_process(*arguments, "--annotation-columns", "item,worker,answer", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "consensus of 5 annotators" in words(result.stdout)
    (tmp_path / "elsewhere").mkdir()
    resumed = run_cli("clean", tmp_path / "run", "--threshold", "0.4", cwd=tmp_path / "elsewhere")
    assert resumed.returncode == 0, resumed.stderr


def test_errors_speak_in_options(data: Annotated, tmp_path: Path) -> None:
    write_wide(tmp_path, data)
    write_long(tmp_path, data)
    both = ["clean", "wide.csv", "--annotators", "ann_*", "--annotations", "answers.csv"]
    assert error_message(run_cli(*both, cwd=tmp_path)).startswith("--annotators and --annotations exclude each other")
    unknown = run_cli("clean", "wide.csv", "--annotators", "rater_*", cwd=tmp_path)
    assert "has no column 'rater_*' of an annotator" in error_message(unknown)
    (tmp_path / "answers.csv").write_text("what,who,said\n0,a,ant\n")
    columns = run_cli("clean", "vectors.npz", "--annotations", "answers.csv", cwd=tmp_path)
    assert "name those of samples, annotators and labels with --annotation-columns" in error_message(columns)
    assert not (tmp_path / "runs").exists()


def test_array_of_answers_in_a_file(data: Annotated, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=data.values, answers=data.answers)
    result = run_cli("clean", "data.npz", "--annotators", "answers", "--epochs", "2", "--out", "run", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "consensus of 5 annotators" in words(result.stdout)
