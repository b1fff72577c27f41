"""``permll`` as a process, and in this one."""

import io
import os
import re
import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

PERMLL = Path(sys.executable).with_name("permll")


class Server:
    """``permll review`` of a run as a process."""

    def __init__(self, folder: Path, *options: str) -> None:
        environment = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
        self.process: Any = subprocess.Popen(
            [PERMLL, "review", folder, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment | {"NO_COLOR": "1"},
        )
        first_line = self.process.stdout.readline()
        match = re.search(r"http://\S+", first_line)
        assert match is not None, first_line + self.process.communicate(timeout=60)[1]
        self.url = match.group()

    def end(self, number: int) -> tuple[int, str, str]:
        """Send a signal; return the exit code, and the output after the URL."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=60)


def run_process(*arguments: str) -> str:
    """Run a command as a process; return its output."""
    environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([PERMLL, *arguments], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_here(*arguments: str) -> str:
    """Run a command in this process; return its output."""
    from permll.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["permll", *arguments]),
        mock.patch.object(sys, "path", [*sys.path]),
        mock.patch.object(warnings, "formatwarning", warnings.formatwarning),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as exit,
    ):
        main()
    assert not exit.value.code, err.getvalue()
    return out.getvalue()
