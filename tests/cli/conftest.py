import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from permll.cli.main import main

Here = Callable[..., tuple[int, str, str]]
Inside = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    """Run the command line in this process: exit code, what it printed, and its complaint."""

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["permll", *arguments])
        monkeypatch.setattr(sys, "path", [*sys.path])
        monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
        with pytest.raises(SystemExit) as left:
            main()
        printed = capsys.readouterr()
        return int(left.value.code or 0), printed.out, printed.err

    return call


@pytest.fixture
def inside(here: Here, monkeypatch: pytest.MonkeyPatch) -> Inside:
    """Run the command line in this process, in a folder and an environment, and answer as a process would."""

    def call(*arguments: str | Path, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        with monkeypatch.context() as patch:
            for name, value in ({"COLUMNS": "100", "NO_COLOR": "1"} | environment).items():
                patch.setenv(name, value)
            if cwd is not None:
                patch.chdir(cwd)
            code, printed, complaints = here(*map(str, arguments))
        return subprocess.CompletedProcess(arguments, code, printed, complaints)

    return call
