"""The ``permll`` command, run as a process or in this process."""

import contextlib
import io
import os
import subprocess
import sys
import warnings
from pathlib import Path
from unittest import mock

import pytest

from permll.cli.main import main

PERMLL = Path(sys.executable).with_name("permll")
TERMINAL = {"COLUMNS": "100", "NO_COLOR": "1"}
Result = subprocess.CompletedProcess[str]


def run_process(*arguments: str | Path, cwd: Path | None = None, **environment: str) -> Result:
    """Run the command as a user would; it takes seconds to import torch."""
    env = os.environ | TERMINAL | environment
    return subprocess.run([PERMLL, *arguments], capture_output=True, text=True, cwd=cwd, env=env, timeout=600)


def run_cli(*arguments: str | Path, cwd: Path | None = None, **environment: str) -> Result:
    """Run the command in this process, which is faster."""
    words = list(map(str, arguments))
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, TERMINAL | environment),
        mock.patch.object(sys, "argv", ["permll", *words]),
        mock.patch.object(sys, "path", [*sys.path]),
        mock.patch.object(warnings, "formatwarning", warnings.formatwarning),
        contextlib.chdir(cwd or Path.cwd()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as exit_,
    ):
        main()
    return subprocess.CompletedProcess(words, int(exit_.value.code or 0), out.getvalue(), err.getvalue())


def error_message(result: Result) -> str:
    """Return the error of a command that failed with one line on stderr."""
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("permll: ")
    return line.removeprefix("permll: ")


def words(text: str) -> str:
    """Return a text without line breaks and repeated spaces."""
    return " ".join(text.split())
