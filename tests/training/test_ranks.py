"""Several ranks do what one process does: every method, in double precision, to a millionth."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning_fabric import Fabric
from safetensors.torch import load_file
from torch import Tensor

from permll.methods import METHODS
from tests.methods.test_contract import SETTINGS
from tests.training.on_ranks import train

ROOT = Path(__file__).resolve().parents[2]
JOBS = [
    {"id": f"{name}{number or ''}", "name": name, "settings": settings, "epochs": 6}
    for name, info in METHODS.items()
    for number, settings in enumerate([{}, *SETTINGS.get(name, [])])
    if not info.alone
]


def on_ranks(ranks: int, jobs: list[dict[str, Any]], folder: Path) -> Path:
    """Train jobs on so many ranks."""
    (folder / "jobs.json").write_text(json.dumps(jobs))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    command += ["-m", "tests.training.on_ranks", str(folder / "jobs.json"), str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-5000:]
    return folder


def far(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> dict[str, float]:
    """Return how far apart two results are, where they are."""
    assert one.keys() == other.keys()
    apart = {name: float((one[name].double() - other[name].double()).abs().max()) for name in one}
    return {name: distance for name, distance in apart.items() if distance > 1e-6}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return on_ranks(2, JOBS, tmp_path_factory.mktemp("two ranks"))


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job["id"])
def test_two_ranks_come_to_what_one_process_comes_to(job: dict[str, Any], two: Path) -> None:
    alone = train(job, Fabric(accelerator="cpu", devices=1, precision="64-true"))
    assert far(alone, load_file(two / f"{job['id']}.st")) == {}
    assert bool(torch.stack([value.double().abs().sum() for value in alone.values()]).isfinite().all())
