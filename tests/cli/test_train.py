"""``permll train``; interruption and resumption are in tests/training/test_resume.py."""

import json
from pathlib import Path

import pytest

from permll.training import Run
from tests.helpers.command_line import error_message, run_cli, run_process

QUICK = ("train", "tiny/digits", "--epochs", "1", "--set", "network.widths=[16]", "--set", "training.threads=1")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run that a process trained."""
    folder = tmp_path_factory.mktemp("train")
    result = run_process(*QUICK, "--method", "ce", "--out", "run", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "epoch 1 of 1" in result.stderr
    assert "ce on digits" in result.stdout
    return folder


def test_train_uses_options_and_overrides(trained: Path) -> None:
    recipe = Run(trained / "run").recipe
    assert (recipe.method.name, recipe.training.epochs) == ("ce", 1)
    assert recipe.network.model_dump()["widths"] == [16]


def test_train_of_finished_run_prints_its_result(trained: Path) -> None:
    result = run_cli("train", "run", "--json", cwd=trained)
    assert json.loads(result.stdout.splitlines()[-1]) == Run(trained / "run").result


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nothing to train: give a recipe (see permll recipes list) or --data."),
        (("run", "--epochs", "2"), "run is a run and resumes with its own recipe"),
        (("tiny/digits", "--set", "epochs"), "--set takes KEY=VALUE"),
        (("tiny/digit",), "did you mean tiny/digits?"),
    ],
)
def test_train_refuses_bad_arguments_in_one_line(arguments: tuple[str, ...], message: str, trained: Path) -> None:
    assert message in error_message(run_cli("train", *arguments, cwd=trained))
