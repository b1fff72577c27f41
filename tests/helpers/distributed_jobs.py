"""What several ranks do in the tests: run by torchrun, told by a file what to train, leaving what came of it."""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from permll.distributed.launch import launch_fabric
from permll.training.train import train
from permll.training.trainer import Trainer
from tests.helpers.toy_training import build_trainer, points


def result(trainer: Trainer) -> dict[str, Tensor]:
    """Return what a training has come to: its weights, what it believes, and its losses."""
    trainer.run(lambda _: None, lambda _: None)
    networks = {
        f"{name}.{key}": value
        for name, network in trainer.method.networks.items()
        for key, value in network.state_dict().items()
    }
    return {
        **networks,
        "labels": trainer.method.corrected_labels(trainer.predict_logits),
        "quality": trainer.method.label_quality(trainer.predict_logits),
        "predicted": trainer.predict(trainer.data),
        "loss": torch.tensor(trainer.epoch_loss),
    }


def train_job(job: dict[str, Any], fabric: Any = None, **more: Any) -> dict[str, Tensor]:
    """Train a method on points, 61 of them: batches of 16 come out even on no number of ranks."""
    data = points(61, classes=3, seed=1)
    wrong = torch.arange(len(data)) % 4 == 0
    data = data.relabel(torch.where(wrong, (data.labels + 1) % 3, data.labels))
    trainer = build_trainer(
        job["name"], data, job["settings"], epochs=job["epochs"], fabric=fabric, dropout=0.0, **more
    )
    return result(trainer)


def main(jobs: Path, out: Path) -> None:
    """Train everything that the file asks for; the first rank writes."""
    torch.set_num_threads(1)
    told = json.loads(jobs.read_text())
    fabric = launch_fabric(accelerator="cpu", **told[0].get("on", {"precision": "64-true"}))
    for job in told:
        if "recipe" in job:
            train(**job["recipe"], out=out / job["id"], callbacks=[])
            continue
        found = train_job(job, fabric, **job.get("more", {}))
        if fabric.global_rank == 0:
            save_file({name: value.contiguous().clone() for name, value in found.items()}, out / f"{job['id']}.st")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
