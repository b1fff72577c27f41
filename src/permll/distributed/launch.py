"""Launching: one process, several on this machine, or those that somebody else has started."""

import atexit
import inspect
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from permll.distributed.process_group import LostRankError, Ranks
from permll.training.recipe import TrainingSection
from permll.distributed.fsdp import share_weights

if TYPE_CHECKING:
    from lightning_fabric import Fabric

PATIENCE = timedelta(minutes=10)  # for the slowest rank, which may write a checkpoint while the others wait


def launched(training: TrainingSection, alone: str = "") -> "Fabric":
    """Return Fabric with its processes started: ``devices`` of them here, or those of torchrun, Slurm and the like.

    The other processes of this machine run the same command once more, and meet here.

    Args:
        training: how many, and on what.
        alone: why there must not be several.
    """
    from lightning_fabric import Fabric

    devices, nodes = _asked(training)
    fabric = Fabric(
        accelerator=training.accelerator,
        devices=devices,
        num_nodes=nodes,
        strategy=_strategy(training.strategy, devices, nodes),
        precision=training.precision,
    )
    if fabric.world_size > 1 and alone:
        raise ValueError(f"{alone}: set training.devices and num_nodes to 1.")
    rows, ranks = training.batch_size, fabric.world_size
    if isinstance(rows, int) and rows < 2 * ranks:  # before they are started
        raise ValueError(
            f"a batch of {rows} is too small for {ranks} ranks, each of which needs two rows of it: set fewer "
            "training.devices, or a larger training.batch_size."
        )
    with _quiet():
        fabric.launch()
    if fabric.world_size > 1:
        atexit.unregister(_leave)
        atexit.register(_leave)
    return fabric


def _leave() -> None:
    """Take leave of the other ranks: a connection that breaks while this process ends would abort it."""
    if dist.is_initialized():
        dist.destroy_process_group()


def _asked(training: TrainingSection) -> tuple[int | str, int]:
    """Return devices and nodes: what torchrun has started counts, whatever the recipe says."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return training.devices, training.num_nodes
    here, all_ranks = int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["WORLD_SIZE"])
    return here, all_ranks // here


def _strategy(name: str, devices: int | str, nodes: int) -> Any:
    """Return the strategy: for several ranks DDP, "fsdp" for weights that are shared too, or what else is asked for."""
    from lightning_fabric.strategies.ddp import DDPStrategy
    from lightning_fabric.strategies.model_parallel import ModelParallelStrategy
    from torch.nn.parallel import DistributedDataParallel

    if devices == 1 and nodes == 1:
        return "auto"
    if name == "fsdp":
        here = devices if isinstance(devices, int) and devices > 0 else max(torch.cuda.device_count(), 1)
        return ModelParallelStrategy(share_weights, here * nodes, tensor_parallel_size=1, timeout=PATIENCE)
    if name not in ("auto", "ddp"):
        return name
    # Buffers are the same on all ranks without being sent, since batch norms count the rows of all of them; sending
    # them would change them under a second pass through the network. The option has two names, by PyTorch's version.
    known = inspect.signature(DistributedDataParallel).parameters
    option = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
    options: dict[str, Any] = {"timeout": PATIENCE, option: False}
    return DDPStrategy(**options)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Fabric from printing what it connects to what."""
    talks = logging.getLogger("lightning_fabric")
    before = talks.level
    talks.setLevel(logging.WARNING)
    try:
        yield
    finally:
        talks.setLevel(before)


@contextmanager
def spoken_of(ranks: Ranks, folder: Path) -> Iterator[None]:
    """Say in a sentence that another rank is gone, instead of what the connection to it says."""
    try:
        yield
    except (RuntimeError, dist.DistError) as problem:
        if ranks.alone or isinstance(problem, LostRankError) or not _of_a_connection(problem):
            raise
        raise LostRankError(
            f"rank {ranks.rank} of {ranks.size} lost another one, which may have said why: permll train {folder} "
            "--devices 1 goes on from the last checkpoint, and so does any other number of ranks."
        ) from problem


def _of_a_connection(problem: BaseException) -> bool:
    words = str(problem).lower()
    return isinstance(problem, dist.DistError) or any(
        word in words for word in ("connection", "gloo", "nccl", "peer", "socket", "timed out")
    )
