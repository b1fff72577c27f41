"""One rank of a benchmark: run by torchrun, prints as JSON what the first rank measured."""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from lightning_fabric import Fabric
from lightning_fabric.strategies.single_device import SingleDeviceStrategy

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from permll.data import Images, LabeledData, Vectors
from permll.data.transforms import default_views
from permll.distributed.launch import launch_fabric
from permll.methods import find_method
from permll.networks import build_network
from permll.training.checkpoint import Checkpoints
from permll.training.runner import save_checkpoint
from permll.training.trainer import Trainer

BATCH = 128


class Traffic:
    """Counts the bytes that this rank hands to the others, apart from those of DDP."""

    def __init__(self) -> None:
        self.bytes = 0
        for name in ("all_reduce", "all_gather_into_tensor", "all_gather_single"):
            if hasattr(dist, name):
                setattr(dist, name, self._counted(getattr(dist, name)))

    def _counted(self, function: Any) -> Any:
        def counted(*arguments: Any, **more: Any) -> Any:
            self.bytes += arguments[-1].nbytes  # of all_gather the second is what this rank says
            return function(*arguments, **more)

        return counted


def made_up(kind: str, rows: int, classes: int) -> tuple[LabeledData, Callable[[], torch.nn.Module]]:
    """Return data of a kind, and what makes a network for them."""
    draw = torch.Generator().manual_seed(0)
    labels = torch.randint(classes, (rows,), generator=draw)
    names = tuple(map(str, range(classes))), tuple(map(str, range(rows)))
    if kind == "images":
        inputs: Any = Images(torch.randint(0, 256, (rows, 3, 32, 32), dtype=torch.uint8, generator=draw))
        shape: dict[str, Any] = {"input_shape": (3, 32, 32), "num_classes": classes, "seed": 0}
        return LabeledData(inputs, labels, *names), partial(build_network, "resnet8", **shape)
    inputs = Vectors(torch.randn(rows, 64, generator=draw))
    shape = {"input_shape": (64,), "num_classes": classes, "seed": 0, "widths": [256]}
    return LabeledData(inputs, labels, *names), partial(build_network, "mlp", **shape)


def made(case: dict[str, Any], fabric: Any) -> Trainer:
    """Return the loop of a case, at its beginning."""
    data, network = made_up(case["kind"], case["rows"], case["classes"])
    method = find_method(case["method"]).build()
    for name in method.network_names:
        method.networks[name] = network()
    return Trainer(
        fabric,
        method,
        data,
        default_views(data.inputs),
        optimizer={"name": "sgd", "lr": 0.01, "momentum": 0.9},
        epochs=10**6,
        batch_size=BATCH,
        placement=case["placement"],
    )


class Stepping:
    """Takes steps of a loop, a few at a time."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer, self._batches = trainer, trainer._batches()
        self.seconds(3)

    def seconds(self, steps: int) -> float:
        """Take so many steps, and return the median time of one."""
        found = []
        for _ in range(steps):
            start = time.perf_counter()
            self.trainer._train_step(
                *next(self._batches)
            )  # ends with what ranks tell each other: they leave it together
            found.append(time.perf_counter() - start)
        return statistics.median(found)


def measured(case: dict[str, Any], together: Any, alone: Any, traffic: Traffic) -> dict[str, Any]:
    """Return seconds of a step of one rank and of all, taking turns; bytes of a step, of state and of a checkpoint."""
    team = Stepping(made(case, together))
    lone = Stepping(made(case, alone)) if team.trainer.group.is_main else None
    ones, twos, sent = [], [], 0
    for _ in range(case["rounds"]):
        if lone is not None:
            ones.append(lone.seconds(case["steps"]))
        team.trainer.group.barrier()
        before = traffic.bytes
        twos.append(team.seconds(case["steps"]))
        sent = traffic.bytes - before
        team.trainer.group.barrier()
    weights = sum(parameter.nbytes for parameter in team.trainer.method.networks.parameters())
    found = {"ones": ones, "twos": twos, "bytes": sent / case["steps"] + weights, "weights": weights}
    for name, stepping in {"1": lone, "2": team}.items():
        if stepping is not None:
            found |= {f"{what}_{name}": value for what, value in kept(stepping.trainer).items()}
        team.trainer.group.barrier()
    return found


def kept(trainer: Trainer) -> dict[str, float]:
    """Return bytes of state, and what a checkpoint takes."""
    with tempfile.TemporaryDirectory() as own:
        folder = [own]
        if not trainer.group.is_single:
            dist.broadcast_object_list(folder, 0)
        start = time.perf_counter()
        save_checkpoint(Checkpoints(Path(folder[0])), trainer)
        trainer.group.barrier()
        saving = time.perf_counter() - start
        size = sum(path.stat().st_size for path in Path(folder[0]).iterdir())
        trainer.group.barrier()
    tables: list[Any] = [module.table for module in trainer.method.modules() if hasattr(module, "table")]
    return {"state": sum(table.nbytes for table in tables), "checkpoint_seconds": saving, "checkpoint_bytes": size}


def main() -> None:
    """Measure the cases that are asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", type=json.loads)
    args = parser.parse_args()
    torch.set_num_threads(1)
    together = launch_fabric(accelerator="cpu")
    alone = Fabric(accelerator="cpu", devices=1, strategy=SingleDeviceStrategy(torch.device("cpu")))
    traffic = Traffic()
    found = [measured(case, together, alone, traffic) for case in args.cases]
    if together.global_rank == 0:
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
