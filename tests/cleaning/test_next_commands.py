"""The commands after clean and review name the run, quote it, and mention automatic changes only if there are any."""

import shlex
from pathlib import Path

import pytest

from permll.cleaning.next_commands import commands_after_clean, commands_after_review
from permll.cleaning.review_decisions import Decisions
from permll.findings import Findings
from permll.training.run import Run
from tests.helpers.apply_runs import csv_text, make_memory_run, make_run
from tests.helpers.command_line import run_cli


def csv_run(folder: Path, proposals: dict[str, tuple[str, float]]) -> Run:
    (folder / "Ada's data.csv").write_text(csv_text())
    return make_run(folder / "Ada's data.csv", folder / "Ada's run", proposals, label="kind", id="name")


def commands(run: Run) -> dict[str, list[str]]:
    return {text: shlex.split(line) for text, line in commands_after_clean(run, Findings.load(run.folder))}


def test_automatic_changes_are_counted(tmp_path: Path) -> None:
    run = csv_run(tmp_path, {"n03": ("dog", 0.99), "n04": ("owl", 0.96), "n05": ("cat", 0.7)})
    folder, text = str(run.folder), "With {} (probability 0.8 or more):"
    apply = ["permll", "apply", folder, "--out", "Ada's data-fixed.csv"]
    assert commands(run) == {
        "Review the flagged labels:": ["permll", "review", folder],
        "Write the corrected data:": apply,
        text.format("2 automatic changes"): [*apply, "--auto"],
    }
    assert list(commands_after_review(run)) == []
    Decisions(run.folder).add("n03", "keep", "cat", "Ada", expected=None)
    assert text.format("1 automatic change") in commands(run)
    after = {name: shlex.split(line) for name, line in commands_after_review(run)}
    assert after == {
        "Write the corrected data:": apply,
        "Or learn from the decisions first, and find more:": ["permll", "clean", "--continue", folder],
    }
    done = run_cli(*apply[1:], "--auto", cwd=tmp_path)
    assert done.stdout.startswith("1 of 24 labels change (1 kept, 1 auto).")


def test_uncertain_proposals_are_not_mentioned(tmp_path: Path) -> None:
    run = csv_run(tmp_path, {"n05": ("cat", 0.7)})
    assert list(commands(run)) == ["Review the flagged labels:", "Write the corrected data:"]


def test_without_issues_there_is_only_a_review(tmp_path: Path) -> None:
    run = csv_run(tmp_path, {})
    assert list(commands(run)) == ["Review the labels:"]


def test_data_in_memory_cannot_be_reviewed(tmp_path: Path) -> None:
    run = make_memory_run(tmp_path / "run")
    assert not any("review" in line for line in commands(run).get("Review the flagged labels:", []))
    assert "Write the corrected data:" in commands(run)


def test_name_of_corrected_data_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = csv_run(tmp_path, {"n03": ("dog", 0.99)})
    names = []
    for name in ("Ada's data-fixed.csv", "Ada's data-fixed-2.csv"):
        names.append(commands(run)["Write the corrected data:"][-1])
        Path(name).touch()
    assert names == ["Ada's data-fixed.csv", "Ada's data-fixed-2.csv"]
