import sys
from collections.abc import Callable

import pytest

from permll.cli.main import main

Here = Callable[..., tuple[int, str, str]]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    """Run the command line in this process: exit code, what it printed, and its complaint."""

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["permll", *arguments])
        monkeypatch.setattr(sys, "path", [*sys.path])
        with pytest.raises(SystemExit) as left:
            main()
        printed = capsys.readouterr()
        return int(left.value.code or 0), printed.out, printed.err

    return call
