"""Modules that tests run in processes of their own, and results that all workers of pytest-xdist share."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
import torch.distributed
from filelock import FileLock

ROOT = Path(__file__).resolve().parents[2]


def run_module(name: str, *arguments: Path | str, processes: int | None = None) -> None:
    """Run a module with one thread, on several processes of torchrun if their number is given; it must succeed."""
    launcher: list[str] = []
    if processes is not None:
        launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
        launcher += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    command = [sys.executable, *launcher, "-m", name, *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr[-5000:]


def once(name: str, factory: pytest.TempPathFactory, function: Callable[[Path], None]) -> Path:
    """Call a function with a folder, once for all workers of pytest-xdist; return the folder."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with FileLock(f"{folder}.lock"):
        if not (folder / "done").is_file():
            function(folder)
            (folder / "done").touch()
    return folder


def leave_process_group() -> NoReturn:
    """End a process of torchrun after the others are done; nothing after this call runs.

    Destroying the process groups of DDP and FSDP in one process sometimes aborts in a thread of gloo.
    """
    torch.distributed.barrier()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
