"""Every command, run as the process a user would start."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import permll
from tests.cli.conftest import Inside

PERMLL = Path(sys.executable).with_name("permll")
PNG = b"\x89PNG\r\n\x1a\n"


def run(*arguments: str | Path, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"COLUMNS": "100", "NO_COLOR": "1"} | environment
    return subprocess.run([PERMLL, *arguments], capture_output=True, text=True, cwd=cwd, env=env, timeout=300)


def test_help_lists_the_commands() -> None:
    shown = run("--help")
    assert shown.returncode == 0, shown.stderr
    assert "demo" in shown.stdout
    assert "figures" in shown.stdout


def test_a_reader_that_stops_early_is_no_error() -> None:
    command = f"{PERMLL} data list | head -n 1; exit ${{PIPESTATUS[0]}}"
    shown = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert (shown.returncode, shown.stderr) == (0, "")


def test_version() -> None:
    assert run("--version").stdout.strip() == permll.__version__


def test_the_package_is_a_command_too() -> None:
    shown = subprocess.run([sys.executable, "-m", "permll", "--version"], capture_output=True, text=True, timeout=60)
    assert (shown.returncode, shown.stdout.strip(), shown.stderr) == (0, permll.__version__, "")


@pytest.mark.parametrize("figure", ["confidence", "diagram"])
def test_figures_writes_png_and_svg_and_says_where(figure: str, tmp_path: Path) -> None:
    shown = run("figures", figure, "--out", tmp_path / "new")
    assert shown.returncode == 0, shown.stderr
    png, svg = (Path(line) for line in shown.stdout.split())
    assert png == tmp_path / "new" / f"{figure}.png"
    assert png.read_bytes().startswith(PNG)
    assert "<svg" in svg.read_text()


def test_demo_convinces(tmp_path: Path) -> None:
    shown = run("demo", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    accuracy = next(line for line in shown.stdout.splitlines() if "Test accuracy, last epoch" in line)
    ce, ours = (float(cell.strip(" %")) for cell in accuracy.replace("│", "|").split("|")[2:4])
    assert ours > ce + 10
    assert "538 with a wrong label" in shown.stdout
    assert (tmp_path / "demo" / "permll-demo.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--seed", "many"], "Invalid value for '--seed'"),
        (["figures", "confidnce"], "No such command 'confidnce'"),
    ],
)
def test_wrong_words_are_refused(arguments: list[str], message: str) -> None:
    shown = run(*arguments)
    assert shown.returncode == 2
    assert message in shown.stderr


@pytest.mark.parametrize("command", [["demo"], ["figures", "diagram"]])
def test_a_folder_that_cannot_be_made_is_one_sentence(command: list[str], tmp_path: Path, inside: Inside) -> None:
    (tmp_path / "file").write_text("in the way")
    shown = inside(*command, "--out", tmp_path / "file" / "below")
    assert shown.returncode == 1
    assert shown.stderr.startswith("permll: ")
    assert "Traceback" not in shown.stderr
    assert len(shown.stderr.splitlines()) == 1


def test_a_missing_extra_is_named_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "matplotlib.py").write_text("raise ImportError('No module named matplotlib')")
    shown = run("demo", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert shown.returncode == 1
    assert shown.stderr.strip() == "permll: figures need matplotlib: pip install 'permll[plots]'"
    assert "training images" not in shown.stdout


def test_an_interrupt_ends_with_a_word(tmp_path: Path) -> None:
    with subprocess.Popen(
        [PERMLL, "demo", "--out", tmp_path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it has begun
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert errors.splitlines()[-1] == "permll: stopped."
    assert "Traceback" not in errors
