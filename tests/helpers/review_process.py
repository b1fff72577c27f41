"""``permll review`` as the process a user would start."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

PERMLL = Path(sys.executable).with_name("permll")


class Server:
    """A review of a run, until it is told to end or killed."""

    def __init__(self, folder: Path, *options: str) -> None:
        environment = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
        self.process: Any = subprocess.Popen(
            [PERMLL, "review", folder, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment | {"NO_COLOR": "1"},
        )
        first = self.process.stdout.readline()
        found = re.search(r"http://\S+", first)
        assert found is not None, first + self.process.communicate(timeout=60)[1]
        self.url = found.group()

    def end(self, number: int) -> tuple[int, str, str]:
        """Send a signal, and return the exit code and what was printed after the address."""
        self.process.send_signal(number)
        printed, complaints = self.process.communicate(timeout=60)
        return self.process.returncode, printed, complaints

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=60)
