"""Training with several processes gives the result of one process: every method, in double precision."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning_fabric import Fabric

from permll.cli.main import app
from permll.data import load
from permll.training import Run, load_predictor
from permll.training.recipe_files import resolve_recipe
from permll.training.train import train
from tests.distributed.conftest import CLEAN, FSDP_JOBS, FSDP_RUN, METHOD_JOBS, PLACEMENTS, TRAIN_JOBS, digits
from tests.helpers.distributed_jobs import load_results, train_method
from tests.helpers.processes import ROOT
from tests.helpers.run_results import almost_equal, differences, findings_by_id, run_results


@pytest.fixture(scope="module")
def one_process(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the results of an uninterrupted run of one process."""
    run = train(**digits(), out=tmp_path_factory.mktemp("one") / "run", callbacks=[])
    return run_results(run.folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHOD_JOBS)
def test_method_gives_the_result_of_one_process(name: str, two_processes: Path) -> None:
    expected = train_method(METHOD_JOBS[name], Fabric(accelerator="cpu", devices=1, precision="64-true"))
    assert all(bool(value.isfinite().all()) for value in expected.values())
    assert differences(expected, load_results(two_processes, name)) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", FSDP_JOBS)
def test_fsdp_gives_the_result_of_one_process(name: str, two_processes: Path) -> None:
    expected = train_method(FSDP_JOBS[name], Fabric(accelerator="cpu", devices=1))
    assert differences(expected, load_results(two_processes, name), tolerance=1e-4) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAIN_JOBS)
def test_run_gives_the_result_of_one_process(name: str, two_processes: Path, tmp_path: Path) -> None:
    run = train(**TRAIN_JOBS[name], out=tmp_path / "run", callbacks=[])
    assert almost_equal(run_results(run.folder), run_results(two_processes / name))
    inputs = load("digits", split="test").inputs
    one, two = (load_predictor(Run(folder)).predict(inputs) for folder in (run.folder, two_processes / name))
    assert torch.allclose(one, two, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_run_resumes_with_any_number_of_processes(
    placement: str, three_processes: Path, two_processes: Path, one_process: dict[str, Any]
) -> None:
    """Two processes, one, three, one; rank 1 of the two and rank 2 of the three receive a signal."""
    name = f"resume-{placement}"
    for folder, processes in ((two_processes, 2), (three_processes, 3)):
        for rank in range(processes):
            assert (folder / f"{name}-{rank}.txt").read_text().startswith("stopped and saved; permll train")
    run = train(**digits(**{"training.placement": placement}), out=three_processes / name, callbacks=[])
    assert almost_equal(run_results(run.folder), one_process)


@pytest.mark.slow
def test_run_with_fsdp_resumes_without(two_processes: Path, tmp_path: Path) -> None:
    resumed = train(**FSDP_RUN, out=two_processes / "fsdp-run", callbacks=[])
    one = train(**digits(**{"training.precision": "32-true"}), out=tmp_path / "one", callbacks=[])
    assert almost_equal(run_results(resumed.folder), run_results(one.folder), tolerance=1e-3)


@pytest.mark.slow
def test_clean_gives_the_result_of_one_process(two_processes: Path, tmp_path: Path) -> None:
    app(["clean", *CLEAN, "--out", str(tmp_path / "one")], standalone_mode=False)
    one, two = (findings_by_id(Run(folder).findings) for folder in (tmp_path / "one", two_processes / "clean"))
    assert almost_equal(one, two, tolerance=1e-4)  # predictions are averaged in single precision
    assert (two_processes / "clean" / "report.html").is_file()
    assert len((two_processes / "clean-0.txt").read_text().splitlines()) == 1
    assert (two_processes / "clean-1.txt").read_text() == "", "only rank 0 prints"


def permll_train(out: Path, end: str) -> subprocess.CompletedProcess[str]:
    """Run the command with two processes and a method that sends a signal to one of them, see ``KillablePermLL``."""
    arguments = ["tiny/digits", "--method", "tests.helpers.killable_method:KillablePermLL", "--epochs", "4"]
    settings = digits()["overrides"].items()
    arguments += [part for key, value in settings for part in ("--set", f"{key}={json.dumps(value)}")]
    command = [sys.executable, "-m", "permll", "train", *arguments, "--out", str(out), "--devices", "2"]
    environment = os.environ | {"END": end, "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, env=environment)


def resume(out: Path) -> dict[str, Any]:
    """Resume a run with one process; return its results."""
    assert not Run(out).finished
    recipe = resolve_recipe(Run(out).recipe, {"training.devices": 1})
    return run_results(train(recipe=recipe, out=out, callbacks=[]).folder)


def test_stopped_command_with_two_processes_resumes_with_one(one_process: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = permll_train(out, end="1 25 15")
    assert process.returncode == 130, process.stderr
    assert process.stderr.splitlines()[-1] == f"permll: stopped and saved; permll train {out} resumes it."
    assert "Traceback" not in process.stderr
    assert almost_equal(resume(out), one_process)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_killed_process_ends_the_other_with_one_sentence(
    rank: int, one_process: dict[str, Any], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    process = permll_train(out, end=f"{rank} 30 9")
    assert process.returncode == (1 if rank == 1 else -9)
    assert process.stderr.splitlines()[-1] == (
        f"permll: rank {1 - rank} of 2 lost contact with another process; see its log. permll train {out} --devices 1 "
        "resumes from the last checkpoint, with this or any other number of processes."
    )
    assert "Traceback" not in process.stderr
    assert almost_equal(resume(out), one_process)
