"""Results of several processes, which are started once for all tests and all workers of pytest-xdist."""

from pathlib import Path
from typing import Any

import pytest

from permll.methods import METHODS
from permll.training.train import train
from tests.helpers.distributed_jobs import start_processes
from tests.helpers.processes import once
from tests.helpers.toy_training import StopAfter

METHOD_JOBS: dict[str, dict[str, Any]] = {
    name: {"name": name, "settings": {}} for name, info in METHODS.items() if not info.single_process_reason
}
METHOD_JOBS |= {
    "permll-sparse": {"name": "permll", "settings": {"top_k": 2, "balance": "corrected"}},
    "elr-sparse": {"name": "elr", "settings": {"top_k": 2, "state": "bfloat16"}},
}
METHOD_JOBS |= {
    f"{name}-sharded": {**job, "placement": "sharded"}
    for name, job in METHOD_JOBS.items()
    if METHODS[job["name"]].method_class.shardable
}
FSDP_JOBS: dict[str, dict[str, Any]] = {
    f"{name}-fsdp": {**METHOD_JOBS[name], "strategy": "fsdp"}
    for name in ("ce", "permll-sharded", "dividemix", "unicon")
}
PLACEMENTS = ("replicated", "sharded")
CLEAN = [
    "digits",
    "--epochs",
    "2",
    "--json",
    "--set",
    "training.precision=64-true",
    "--set",
    "training.accelerator=cpu",
]


def digits(method: str = "permll", epochs: int = 4, **overrides: Any) -> dict[str, Any]:
    """Return arguments of ``train`` for digits, 19 steps in an epoch, on one process or those of torchrun."""
    plain = {"training.precision": "64-true", "training.accelerator": "cpu", "network.widths": [32]}
    return {"method": method, "recipe": "tiny/digits", "epochs": epochs, "overrides": plain | overrides}


TRAIN_JOBS = {
    "digits-permll": digits(epochs=2),
    "digits-dividemix": digits("dividemix", epochs=2),
}
RESUME_JOBS = {f"resume-{placement}": digits(**{"training.placement": placement}) for placement in PLACEMENTS}
FSDP_RUN = digits(**{"training.precision": "32-true", "training.strategy": "fsdp"})


@pytest.fixture(scope="session")
def two_processes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the results of all jobs on two processes."""
    jobs = [{"id": name, "kind": "method", **job} for name, job in (METHOD_JOBS | FSDP_JOBS).items()]
    jobs += [{"id": name, "kind": "train", "arguments": arguments} for name, arguments in TRAIN_JOBS.items()]
    jobs += [
        {"id": name, "kind": "train", "arguments": arguments, "signal": [1, 25]}
        for name, arguments in RESUME_JOBS.items()
    ]
    jobs += [{"id": "fsdp-run", "kind": "train", "arguments": FSDP_RUN, "signal": [0, 25]}]
    jobs += [{"id": "clean", "kind": "clean", "arguments": CLEAN}]
    jobs += [{"id": kind, "kind": kind} for kind in ("gather", "batch_norm")]
    return once("two", tmp_path_factory, lambda folder: start_processes(2, jobs, folder))


@pytest.fixture(scope="session")
def three_processes(two_processes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the results of three processes, which resume runs of two and then one process."""
    jobs: list[dict[str, Any]] = [{"id": kind, "kind": kind} for kind in ("gather", "batch_norm")]
    jobs += [
        {"id": name, "kind": "train", "arguments": arguments, "signal": [2, 60]}
        for name, arguments in RESUME_JOBS.items()
    ]

    def resume(folder: Path) -> None:
        folder.mkdir()
        for name, arguments in RESUME_JOBS.items():
            (two_processes / name).rename(folder / name)
            run = train(**arguments, out=folder / name, callbacks=[StopAfter(22)])
            assert len(run.metrics) == 2
        start_processes(3, jobs, folder)

    return once("three", tmp_path_factory, resume)
