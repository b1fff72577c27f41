"""Jobs that several processes run together: ``torchrun -m tests.helpers.distributed_jobs JOBS OUT``.

JOBS is a JSON file with a list of jobs; results are written to OUT. A job has an id and a kind: "method" trains a
method on points, "train" calls ``train``, "clean" runs the command, "batch_norm" and "gather" call these.
"""

import contextlib
import io
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from permll.cli.main import app
from permll.distributed.launch import launch_fabric
from permll.distributed.process_group import ProcessGroup
from permll.training import Callback
from permll.training.train import train
from tests.helpers.distributed_batch_norm import batch_norm_results
from tests.helpers.processes import leave_process_group, run_module
from tests.helpers.toy_training import build_trainer, do_nothing, points


def start_processes(number: int, jobs: list[dict[str, Any]], folder: Path) -> None:
    """Run jobs on several processes; their results go to the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"jobs-{number}.json").write_text(json.dumps(jobs))
    run_module("tests.helpers.distributed_jobs", folder / f"jobs-{number}.json", folder, processes=number)


def load_results(folder: Path, job: str) -> dict[str, Tensor]:
    """Return the results of a job."""
    errors = sorted(folder.glob(f"{job}-?.error"))
    assert not errors, errors[0].read_text()
    return load_file(folder / f"{job}.safetensors")


def train_method(job: dict[str, Any], fabric: Any = None) -> dict[str, Tensor]:
    """Train a method on 61 points, which no number of processes divides; return weights, labels, loss."""
    data = points(61, classes=3, seed=1)
    is_wrong = torch.arange(len(data)) % 4 == 0
    data = data.relabel(torch.where(is_wrong, (data.labels + 1) % 3, data.labels))
    trainer = build_trainer(
        job["name"],
        data,
        job["settings"],
        epochs=6,
        fabric=fabric,
        dropout=0.0,
        placement=job.get("placement", "replicated"),
    )
    trainer.run(do_nothing, do_nothing)
    weights = {
        f"{name}.{key}": value
        for name, network in trainer.method.networks.items()
        for key, value in network.state_dict().items()
    }
    results = {
        **weights,
        "labels": trainer.method.corrected_labels(trainer.predict_logits),
        "quality": trainer.method.label_quality(trainer.predict_logits),
        "predictions": trainer.predict(trainer.data),
        "loss": torch.tensor(trainer.epoch_loss),
    }
    return {name: value.contiguous().clone() for name, value in results.items()}


class SignalAt(Callback):
    """Sends SIGTERM to one process after a step."""

    all_ranks = True

    def __init__(self, rank: int, step: int) -> None:
        self.rank, self.step = rank, step

    def on_step_end(self, trainer: Any) -> None:
        if (trainer.group.rank, trainer.step) == (self.rank, self.step):
            os.kill(os.getpid(), signal.SIGTERM)


def run_job(job: dict[str, Any], out: Path, fabrics: dict[str, Any], group: ProcessGroup) -> None:
    """Run a job; rank 0 writes the results."""
    path, results = out / f"{job['id']}.safetensors", None
    if job["kind"] == "method":
        results = train_method(job, fabrics[job.get("strategy", "ddp")])
    elif job["kind"] == "batch_norm":
        results = batch_norm_results(group)
    elif job["kind"] == "gather":
        rows = torch.arange(7.0)[group.local_rows].requires_grad_()
        gathered = group.gather_rows(rows, 7)
        (gathered * torch.arange(7.0)).sum().backward()
        results = {"rows": gathered.detach(), "gradient": group.gather_rows(rows.grad, 7)}
        results["sum"] = group.all_reduce(torch.tensor([group.rank + 1.0]))
    elif job["kind"] == "train":
        callbacks = [SignalAt(*job["signal"])] if "signal" in job else []
        try:
            train(**job["arguments"], out=out / job["id"], callbacks=callbacks)
        except KeyboardInterrupt as error:
            (out / f"{job['id']}-{group.rank}.txt").write_text(str(error))
    elif job["kind"] == "clean":
        with contextlib.redirect_stdout(io.StringIO()) as output:
            app(["clean", *job["arguments"], "--out", str(out / job["id"])], standalone_mode=False)
        (out / f"{job['id']}-{group.rank}.txt").write_text(output.getvalue())
    if results is not None and group.is_main:
        save_file({name: value.contiguous().clone() for name, value in results.items()}, path)


def main(jobs: Path, out: Path) -> None:
    """Run all jobs of a file."""
    torch.set_num_threads(1)
    fabrics = {
        "ddp": launch_fabric(accelerator="cpu", precision="64-true"),
        "fsdp": launch_fabric(accelerator="cpu", strategy="fsdp"),
    }
    group = ProcessGroup(fabrics["ddp"].global_rank, fabrics["ddp"].world_size)
    for job in json.loads(jobs.read_text()):
        try:
            run_job(job, out, fabrics, group)
        except Exception:  # on all processes alike; the other jobs do not depend on it
            (out / f"{job['id']}-{group.rank}.error").write_text(traceback.format_exc())
    leave_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
