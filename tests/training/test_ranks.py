"""Several ranks do what one process does: every method, in double precision, to a millionth."""

import json
import os
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

from permll.cleaning.findings import Findings
from permll.data import load
from permll.distributed.process_group import ProcessGroup
from permll.methods import METHODS
from permll.training.predictor import load_predictor
from permll.training.run import Run
from permll.training.train import train
from tests.helpers.distributed_batch_norm import passed
from tests.helpers.distributed_jobs import train_job
from tests.methods.test_contract import SETTINGS

ROOT = Path(__file__).resolve().parents[2]
KEPT_OTHERWISE = ("permll", "permll_plus", "elr", "sop", "selc", "c_model", "dividemix")  # with settings, than without
REPLICATED: list[dict[str, Any]] = [
    {"id": f"{name}{number or ''}", "name": name, "settings": settings, "epochs": 6}
    for name, info in METHODS.items()
    for number, settings in enumerate([{}, *SETTINGS.get(name, [])])
    if not info.single_process_reason and (number == 0 or name in KEPT_OTHERWISE)
]
SHARDED = [
    {**job, "id": f"{job['id']}-sharded", "more": {"placement": "sharded"}}
    for job in REPLICATED
    if METHODS[job["name"]].method_class.shardable
]
JOBS = REPLICATED + SHARDED
DIGITS = {
    f"digits {method} {placement}": {
        "method": method,
        "recipe": "tiny/digits",
        "epochs": 3,
        "overrides": {
            "training.precision": "64-true",
            "training.accelerator": "cpu",
            "training.placement": placement,
        },
    }
    for method in ("ce", "permll", "elr", "co_teaching", "dividemix")
    for placement in ("replicated", "sharded")
}


def torchrun(ranks: int, module: str, *arguments: Path) -> None:
    """Run a module on so many ranks."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "-m", module, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-5000:]


def on_ranks(ranks: int, jobs: list[dict[str, Any]], folder: Path) -> Path:
    """Train jobs on so many ranks."""
    (folder / "jobs.json").write_text(json.dumps(jobs))
    torchrun(ranks, "tests.helpers.distributed_jobs", folder / "jobs.json", folder)
    return folder


def far(one: Mapping[str, Tensor], other: Mapping[str, Tensor], tolerance: float = 1e-6) -> dict[str, float]:
    """Return how far apart two results are, where they are."""
    assert one.keys() == other.keys()
    apart = {name: float((one[name].double() - other[name].double()).abs().max()) for name in one}
    return {name: distance for name, distance in apart.items() if distance > tolerance}


def test_two_ranks_come_to_what_one_process_comes_to(tmp_path: Path) -> None:
    """In one test: the ranks are started once for all methods."""
    digits = [{"id": name, "recipe": recipe} for name, recipe in DIGITS.items()]
    on_ranks(2, JOBS + digits, tmp_path)
    fabric = Fabric(accelerator="cpu", devices=1, precision="64-true")
    alone = {job["id"]: train_job(job, fabric) for job in JOBS}
    assert all(bool(value.isfinite().all()) for found in alone.values() for value in found.values())
    apart = {name: far(found, load_file(tmp_path / f"{name}.st")) for name, found in alone.items()}
    assert {name: where for name, where in apart.items() if where} == {}
    for name, recipe in DIGITS.items():
        run = train(**recipe, out=tmp_path / "alone" / name, callbacks=[])
        assert alike(came_to(run.folder), came_to(tmp_path / name)), name
        digits = load("digits", split="test").inputs
        one, other = (load_predictor(Run(folder)).predict(digits) for folder in (run.folder, tmp_path / name))
        assert torch.allclose(one, other, atol=1e-5), name


def test_weights_may_be_shared_too(tmp_path: Path) -> None:
    names = ("ce", "permll", "permll-sharded", "elr1", "co_teaching", "dividemix", "c_model1", "unicon")
    jobs = [{**job, "on": {"strategy": "fsdp"}} for job in JOBS if job["id"] in names]
    on_ranks(2, jobs, tmp_path)
    for job in jobs:
        alone = train(job, Fabric(accelerator="cpu", devices=1))
        assert far(alone, load_file(tmp_path / f"{job['id']}.st"), tolerance=1e-4) == {}, job["id"]


@pytest.mark.parametrize("ranks", [2, 3])
def test_norms_count_the_rows_of_all_ranks(ranks: int, tmp_path: Path) -> None:
    torchrun(ranks, "tests.helpers.distributed_batch_norm", tmp_path / "found")
    assert far(passed(ProcessGroup()), load_file(tmp_path / "found")) == {}


def permll(*arguments: str | Path, end: str = "0 -1 0", command: str = "train") -> subprocess.CompletedProcess[str]:
    """Run the command line, with an end that ``Mortal`` meets."""
    environment = os.environ | {"END": end, "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "permll", command, *map(str, arguments)]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300, env=environment)


def begun(out: Path, **settings: Any) -> list[str]:
    """Return the arguments of a training of four epochs, nineteen steps each."""
    more = {"training.precision": "64-true", "training.accelerator": "cpu", "network.widths": [32], **settings}
    arguments = ["tiny/digits", "--method", "tests.helpers.killable_process:Mortal", "--epochs", "4", "--out", str(out)]
    return arguments + as_arguments(more)


def as_arguments(values: dict[str, Any]) -> list[str]:
    """Return values of a recipe as arguments."""
    return [part for key, value in values.items() for part in ("--set", f"{key}={json.dumps(value)}")]


def came_to(folder: Path) -> dict[str, Any]:
    """Return what people see of a run."""
    run = Run(folder)
    assert run.finished
    return {"findings": {one.id: (one.proposed, one.quality) for one in run.findings}, "metrics": run.metrics}


def alike(one: Any, other: Any, tolerance: float = 2e-6) -> bool:
    """Return whether two results are the same, numbers to a millionth or so."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key], tolerance) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(alike(*pair, tolerance) for pair in zip(one, other, strict=True))
    return one == other or (isinstance(one, float) and abs(one - other) < tolerance)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("alone") / "run"
    done = permll(*begun(out))
    assert done.returncode == 0, done.stderr
    return came_to(out)


@pytest.mark.parametrize("placement", ["replicated", "sharded"])
def test_a_run_goes_on_with_any_number_of_ranks(placement: str, undisturbed: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "run"
    for stop, arguments in (
        ("1 25 15", [*begun(out, **{"training.placement": placement}), "--devices", "2"]),
        ("0 47 15", [out, "--devices", "1"]),
        ("2 60 15", [out, "--devices", "3"]),
        ("", [out, "--devices", "1"]),
    ):
        done = permll(*arguments, end=stop or "0 -1 0")
        assert done.returncode == (130 if stop else 0), done.stderr
        assert "Traceback" not in done.stderr
        assert "keep their initial values" not in done.stderr  # what every rank wrote was found
        assert not stop or done.stderr.splitlines()[-1].startswith("permll: stopped and saved; permll train")
    assert alike(came_to(out), undisturbed)


def test_a_run_with_shared_weights_goes_on_without(tmp_path: Path) -> None:
    single = {"training.precision": "32-true"}
    for out, more in (
        (tmp_path / "alone", []),
        (tmp_path / "run", ["--set", "training.strategy=fsdp", "--devices", "2"]),
    ):
        done = permll(*begun(out, **single), *more, end="0 25 15")
        assert done.returncode == 130, done.stderr
        assert permll(out, "--devices", "1").returncode == 0
    one, other = (came_to(tmp_path / name) for name in ("alone", "run"))
    assert alike(one["metrics"], other["metrics"], 1e-3)
    assert alike(one["findings"], other["findings"], 1e-3)


def test_two_ranks_clean_as_one_does(tmp_path: Path) -> None:
    found = []
    for ranks in (1, 2):
        out = tmp_path / str(ranks)
        more = {"training.devices": ranks, "training.precision": "64-true", "training.accelerator": "cpu"}
        done = permll("digits", "--epochs", "2", "--out", out, "--json", *as_arguments(more), command="clean")
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == 1
        assert (out / "report.html").is_file()
        found.append({one.id: (one.proposed, one.quality) for one in Findings.load(out).first()})
    assert alike(*found, tolerance=1e-4)  # predictions are remembered in single precision


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_killed_ends_the_others_with_a_sentence(
    rank: int, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    done = permll(*begun(out), "--devices", "2", end=f"{rank} 30 9")
    assert done.returncode == (1 if rank == 1 else -9)
    *_, last = done.stderr.splitlines()
    assert last == (
        f"permll: rank {1 - rank} of 2 lost another one, which may have said why: permll train {out} --devices 1 goes "
        "on from the last checkpoint, and so does any other number of ranks."
    )
    assert "Traceback" not in done.stderr
    assert not Run(out).finished
    done = permll(out, "--devices", "1")
    assert done.returncode == 0, done.stderr
    assert alike(came_to(out), undisturbed)
