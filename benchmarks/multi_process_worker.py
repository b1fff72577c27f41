"""One process of benchmarks/multi_process.py: started by torchrun; rank 0 prints the measurements as JSON."""

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


class TrafficCounter:
    """Counts the bytes that this process sends, without those of DDP."""

    def __init__(self) -> None:
        self.bytes = 0
        for name in ("all_reduce", "all_gather_into_tensor", "all_gather_single"):
            if hasattr(dist, name):
                setattr(dist, name, self._count(getattr(dist, name)))

    def _count(self, function: Any) -> Any:
        def counting(*args: Any, **kwargs: Any) -> Any:
            self.bytes += args[-1].nbytes  # the second argument of all_gather is the input
            return function(*args, **kwargs)

        return counting


def synthetic_data(kind: str, rows: int, classes: int) -> tuple[LabeledData, Callable[[], torch.nn.Module]]:
    """Return random images or vectors, and a function that builds a network for them."""
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


def build_trainer(case: dict[str, Any], fabric: Any) -> Trainer:
    """Return a new trainer for a case."""
    data, build = synthetic_data(case["kind"], case["rows"], case["classes"])
    method = find_method(case["method"]).build()
    for name in method.network_names:
        method.networks[name] = build()
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


class StepTimer:
    """Times training steps."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer, self._batches = trainer, trainer._batches()
        self.seconds(3)

    def seconds(self, steps: int) -> float:
        """Take steps and return the median time of one."""
        seconds = []
        for _ in range(steps):
            start = time.perf_counter()
            self.trainer._train_step(*next(self._batches))  # ends with a synchronization of the processes
            seconds.append(time.perf_counter() - start)
        return statistics.median(seconds)


def measure(case: dict[str, Any], fabric: Any, single_fabric: Any, traffic: TrafficCounter) -> dict[str, Any]:
    """Return seconds per step of one process and of all in turn; bytes per step, of the state and of a checkpoint."""
    multi = StepTimer(build_trainer(case, fabric))
    group = multi.trainer.group
    single = StepTimer(build_trainer(case, single_fabric)) if group.is_main else None
    ones, twos, sent = [], [], 0
    for _ in range(case["rounds"]):
        if single is not None:
            ones.append(single.seconds(case["steps"]))
        group.barrier()
        before = traffic.bytes
        twos.append(multi.seconds(case["steps"]))
        sent = traffic.bytes - before
        group.barrier()
    weights = sum(parameter.nbytes for parameter in multi.trainer.method.networks.parameters())
    result = {"ones": ones, "twos": twos, "bytes": sent / case["steps"] + weights, "weights": weights}
    for name, timer in {"1": single, "2": multi}.items():
        if timer is not None:
            result |= {f"{key}_{name}": value for key, value in measure_storage(timer.trainer).items()}
        group.barrier()
    return result


def measure_storage(trainer: Trainer) -> dict[str, float]:
    """Return the bytes of the per-sample state, and the time and bytes of a checkpoint."""
    with tempfile.TemporaryDirectory() as local:
        folder = [local]
        if not trainer.group.is_single:
            dist.broadcast_object_list(folder, 0)
        start = time.perf_counter()
        save_checkpoint(Checkpoints(Path(folder[0])), trainer)
        trainer.group.barrier()
        seconds = time.perf_counter() - start
        size = sum(path.stat().st_size for path in Path(folder[0]).iterdir())
        trainer.group.barrier()
    tables: list[Any] = [module.table for module in trainer.method.modules() if hasattr(module, "table")]
    return {"state": sum(table.nbytes for table in tables), "checkpoint_seconds": seconds, "checkpoint_bytes": size}


def main() -> None:
    """Measure the cases given as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", type=json.loads)
    cases = parser.parse_args().cases
    torch.set_num_threads(1)
    fabric = launch_fabric(accelerator="cpu")
    single_fabric = Fabric(accelerator="cpu", devices=1, strategy=SingleDeviceStrategy(torch.device("cpu")))
    traffic = TrafficCounter()
    results = [measure(case, fabric, single_fabric, traffic) for case in cases]
    if fabric.global_rank == 0:
        print(json.dumps(results), flush=True)


if __name__ == "__main__":
    main()
