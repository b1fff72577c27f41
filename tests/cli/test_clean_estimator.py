"""``permll clean --estimator`` as a process."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.helpers.cleaning_files import write_dataset
from tests.helpers.command_line import PERMLL, TERMINAL, error_message, run_cli, run_process


def test_clean_review_commands_and_show(tmp_path: Path) -> None:
    wrong = write_dataset("table", tmp_path)
    arguments = ["clean", "table.csv", "--estimator", "hist_gradient_boosting"]
    result = run_process(*arguments, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    lines = result.stderr.splitlines()
    assert lines[0] == "200 samples: hist_gradient_boosting, 5-fold cross-validation"
    assert [line.partition(":")[0] for line in lines[1:]] == [f"fold {number} of 5" for number in range(1, 6)]
    run = "runs/table-hist_gradient_boosting-0"
    assert f"Review the flagged labels:  permll review {run}" in result.stdout
    again = run_cli(*arguments, cwd=tmp_path)
    assert (again.stdout, again.stderr) == (result.stdout, "")
    shown = run_cli("show", run, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "hist_gradient_boosting, cross-validated in 5 folds" in shown.stdout
    assert "epochs" not in shown.stdout.partition("Method")[0].splitlines()[1]
    applied = run_cli("apply", run, "--auto", "--min-probability", "0.5", "--out", "fixed.csv", cwd=tmp_path)
    assert applied.returncode == 0, applied.stderr
    before, after = ((tmp_path / name).read_text().splitlines()[1:] for name in ("table.csv", "fixed.csv"))
    changed = {str(row) for row, pair in enumerate(zip(before, after, strict=True)) if not pair[1].startswith(pair[0])}
    assert changed
    assert len(changed & wrong) > 0.8 * len(changed)
    for command in (("predict", run, "table.csv"), ("export", run)):
        assert "has no network, since hist_gradient_boosting checked its labels" in error_message(
            run_cli(*command, cwd=tmp_path)
        )


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_interrupted_run_names_the_command_that_resumes_it(number: signal.Signals, tmp_path: Path) -> None:
    write_dataset("table", tmp_path)
    (tmp_path / "slow.py").write_text(
        "import time\nfrom sklearn.naive_bayes import GaussianNB\n\nclass Slow(GaussianNB):\n"
        "    def fit(self, X, y):\n        time.sleep(0.2)\n        return super().fit(X, y)\n"
    )
    path = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(tmp_path)])
    environment = os.environ | TERMINAL | {"PYTHONPATH": path}
    command = [PERMLL, "clean", "table.csv", "--estimator", "slow.Slow", "--out", "run"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("fold 2"):
                process.send_signal(number)
                break
        message = process.stderr.read()
    assert process.returncode == 130
    assert "stopped, finished folds are saved; permll clean run resumes it." in message
    assert "Traceback" not in message
    resumed = run_process("clean", "run", cwd=tmp_path, PYTHONPATH=path)
    assert resumed.returncode == 0, resumed.stderr
    assert "fold 2 of 5" not in resumed.stderr
    assert "fold 5 of 5" in resumed.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--estimator", "forest"], "unknown estimator 'forest'"),
        (["--estimator", "random_forest", "--epochs", "3"], "trains no network, so remove 1 setting (epochs)"),
        (["--estimator", "random_forest", "--method", "ce"], "trains no network, so remove 1 setting (method)"),
        (["--estimator", "sklearn.svm.LinearSVC"], "has no predict_proba"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    write_dataset("table", tmp_path)
    assert message in error_message(run_cli("clean", "table.csv", *arguments, cwd=tmp_path))
    assert not (tmp_path / "runs").exists()
