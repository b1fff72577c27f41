"""The command line as a whole: help, version, errors, figures and the demo."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import permll
from tests.helpers.command_line import PERMLL, Result, error_message, run_cli, run_process

PNG = b"\x89PNG\r\n\x1a\n"


def test_help_lists_commands() -> None:
    result = run_process("--help")
    assert result.returncode == 0, result.stderr
    assert "demo" in result.stdout
    assert "figures" in result.stdout


def test_closed_pipe_is_not_an_error() -> None:
    command = f"{PERMLL} data list | head -n 1; exit ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")


def test_version() -> None:
    assert run_process("--version").stdout.strip() == permll.__version__


def test_package_runs_as_module() -> None:
    result = subprocess.run([sys.executable, "-m", "permll", "--version"], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout.strip(), result.stderr) == (0, permll.__version__, "")


@pytest.mark.parametrize(("figure", "run"), [("confidence", run_process), ("diagram", run_cli)])
def test_figures_writes_png_and_svg(figure: str, run: Callable[..., Result], tmp_path: Path) -> None:
    result = run("figures", figure, "--out", tmp_path / "new")
    assert result.returncode == 0, result.stderr
    png, svg = (Path(line) for line in result.stdout.split())
    assert png == tmp_path / "new" / f"{figure}.png"
    assert png.read_bytes().startswith(PNG)
    assert "<svg" in svg.read_text()


@pytest.mark.slow
def test_demo_improves_accuracy(tmp_path: Path) -> None:
    result = run_process("demo", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    accuracy = next(line for line in result.stdout.splitlines() if "Test accuracy, last epoch" in line)
    ce, ours = (float(cell.strip(" %")) for cell in accuracy.replace("│", "|").split("|")[2:4])
    assert ours > ce + 10
    assert "538 with a wrong label" in result.stdout
    assert (tmp_path / "demo" / "permll-demo.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--seed", "many"], "Invalid value for '--seed'"),
        (["figures", "confidnce"], "No such command 'confidnce'"),
    ],
)
def test_unknown_words_are_refused(arguments: list[str], message: str) -> None:
    result = run_process(*arguments)
    assert result.returncode == 2
    assert message in result.stderr


@pytest.mark.parametrize("command", [["demo"], ["figures", "diagram"]])
def test_invalid_output_folder_is_one_line(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    assert "file" in error_message(run_cli(*command, "--out", tmp_path / "file" / "below"))


def test_missing_matplotlib_is_reported_before_training(tmp_path: Path) -> None:
    (tmp_path / "matplotlib.py").write_text("raise ImportError('No module named matplotlib')")
    result = run_process("demo", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert result.returncode == 1
    assert result.stderr.strip().startswith("permll: figures need matplotlib: pip install 'permll[plots]', or")
    assert "training images" not in result.stdout


def test_interrupt_is_one_line(tmp_path: Path) -> None:
    with subprocess.Popen(
        [PERMLL, "demo", "--out", tmp_path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()  # wait until it runs
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert errors.splitlines()[-1] == "permll: stopped."
    assert "Traceback" not in errors
