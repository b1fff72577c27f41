"""Files of findings: a process that is killed between any two of them leaves a run that ends as if undisturbed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import permll
from permll.findings import JSON_FILE, is_complete
from tests.helpers.mislabeled_data import mislabeled

FILES = (
    "noise_estimate.json",
    "findings.npz",
    "findings.json",
    "findings.csv",
    "findings.parquet",
    "report.html",
    "result.json",
)
# Cleans in forked children that kill themselves right before the n-th file of FILES takes its name, for n = 0, 1, ...,
# until a child survives; then resumes each folder without a kill.
SCRIPT = """
import os, signal, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
import lightning_fabric, polars, sklearn.neighbors
import permll

source, folder, threshold, *files = sys.argv[1:]


def child(out, left):
    replace = Path.replace

    def fatal_replace(path, target):
        nonlocal left
        if Path(target).name in files:
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return replace(path, target)

    if left is not None:
        Path.replace = fatal_replace
    permll.clean(source, out=out, epochs=1, threshold=float(threshold), callbacks=[])


def killed(out, left):
    pid = os.fork()
    if pid == 0:
        child(out, left)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status)


left = 0
while killed(f"{folder}/{left}", left):
    assert not killed(f"{folder}/{left}", None)
    left += 1
print(left)
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    rows = mislabeled(60)
    path = tmp_path / "vectors.npz"
    np.savez(path, x=rows.values, y=np.array(rows.labels))
    return path


def kill_everywhere(source: Path, folder: Path, threshold: float) -> int:
    """Return the number of kills that were survived."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, source, folder, str(threshold), *FILES],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def contents(folder: Path) -> dict[str, str]:
    """Return the text files, without the name of the folder."""
    texts = [name for name in FILES if not name.endswith((".npz", ".parquet"))]
    return {name: (folder / name).read_text().replace(str(folder), "RUN") for name in texts}


@pytest.mark.slow
def test_clean_killed_between_files_of_findings(source: Path, tmp_path: Path) -> None:
    permll.clean(source, out=tmp_path / "whole", epochs=1, callbacks=[])
    kills = kill_everywhere(source, tmp_path / "runs", 0.5)
    assert kills == len(FILES) + 1, "findings.json is written twice"
    expected = contents(tmp_path / "whole")
    for number in range(kills):
        run = tmp_path / "runs" / str(number)
        assert is_complete(run)
        assert contents(run) == expected


@pytest.mark.slow
def test_clean_killed_while_threshold_changes(source: Path, tmp_path: Path) -> None:
    permll.clean(source, out=tmp_path / "whole", epochs=1, threshold=0.1, callbacks=[])
    expected = contents(tmp_path / "whole")
    (tmp_path / "runs").mkdir()
    for number in range(7):
        permll.clean(source, out=tmp_path / "runs" / str(number), epochs=1, callbacks=[])
    kills = kill_everywhere(source, tmp_path / "runs", 0.1)
    assert kills == 6
    for number in range(kills):
        run = tmp_path / "runs" / str(number)
        assert json.loads((run / JSON_FILE).read_text())["threshold"] == 0.1
        assert contents(run) == expected
