"""Launching: one process, several on this machine, or those that torchrun or a cluster has started."""

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

from permll.distributed.fsdp import shard_network
from permll.distributed.process_group import LostRankError, ProcessGroup

if TYPE_CHECKING:
    from lightning_fabric import Fabric

PROCESS_TIMEOUT = timedelta(minutes=10)  # the slowest process may be writing a checkpoint while the others wait
_CONNECTION_WORDS = ("connection", "gloo", "nccl", "peer", "socket", "timed out")  # of errors


def launch_fabric(
    *,
    accelerator: str = "auto",
    devices: int | str = 1,
    num_nodes: int = 1,
    strategy: str = "auto",
    precision: Any = "32-true",
    batch_size: int | None = None,
    single_process_reason: str = "",
) -> "Fabric":
    """Return Fabric with its processes started: ``devices`` on this machine, or those of torchrun, Slurm and the like.

    Processes that are started here run the same command again, up to this call.

    Args:
        accelerator: as Fabric takes it.
        devices: number of processes on each machine.
        num_nodes: number of machines.
        strategy: "auto" and "ddp" replicate weights, "fsdp" shards them; other names are Fabric's.
        precision: as Fabric takes it.
        batch_size: rows of a batch over all processes, each of which needs two; None if not known yet.
        single_process_reason: why the method does not support several processes; "" if it does.
    """
    from lightning_fabric import Fabric

    if "TORCHELASTIC_RUN_ID" in os.environ:  # what torchrun has started
        devices = int(os.environ["LOCAL_WORLD_SIZE"])
        num_nodes = int(os.environ["WORLD_SIZE"]) // devices
    fabric = Fabric(
        accelerator=accelerator,
        devices=devices,
        num_nodes=num_nodes,
        strategy=_strategy(strategy, devices, num_nodes),
        precision=precision,
    )
    if fabric.world_size > 1 and single_process_reason:
        raise ValueError(f"{single_process_reason}: set training.devices and num_nodes to 1.")
    if batch_size is not None and batch_size < 2 * fabric.world_size:  # before the processes are started
        raise ValueError(
            f"a batch of {batch_size} is too small for {fabric.world_size} processes, each of which needs two rows of "
            "it: set fewer training.devices, or a larger training.batch_size."
        )
    with _quiet():
        fabric.launch()
    if fabric.world_size > 1:
        atexit.unregister(_leave)
        atexit.register(_leave)
    return fabric


def _leave() -> None:
    """Leave the process group: a connection that breaks while this process exits would abort it."""
    if dist.is_initialized():
        dist.destroy_process_group()


def _strategy(name: str, devices: int | str, nodes: int) -> Any:
    """Return the strategy: DDP for several processes, model parallel for "fsdp", any other by its name."""
    from lightning_fabric.strategies.ddp import DDPStrategy
    from lightning_fabric.strategies.model_parallel import ModelParallelStrategy
    from torch.nn.parallel import DistributedDataParallel

    if devices == 1 and nodes == 1:
        return "auto"
    if name == "fsdp":
        here = devices if isinstance(devices, int) and devices > 0 else max(torch.cuda.device_count(), 1)
        return ModelParallelStrategy(shard_network, here * nodes, tensor_parallel_size=1, timeout=PROCESS_TIMEOUT)
    if name not in ("auto", "ddp"):
        return name
    # Batch norms are synchronized, so buffers agree on all processes without broadcasting, which would also change them
    # between two forward passes of one step. The name of the option depends on PyTorch's version.
    known = inspect.signature(DistributedDataParallel).parameters
    option = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
    options: dict[str, Any] = {"timeout": PROCESS_TIMEOUT, option: False}
    return DDPStrategy(**options)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Fabric's log of its connections."""
    logger = logging.getLogger("lightning_fabric")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def lost_rank_errors(group: ProcessGroup, folder: Path) -> Iterator[None]:
    """Replace a connection error by one sentence: another process is gone."""
    try:
        yield
    except RuntimeError as error:
        message = str(error).lower()
        is_lost = isinstance(error, dist.DistError) or any(word in message for word in _CONNECTION_WORDS)
        if group.is_single or not is_lost:
            raise
        raise LostRankError(
            f"rank {group.rank} of {group.size} lost contact with another process; see its log. permll train {folder} "
            "--devices 1 resumes from the last checkpoint, with this or any other number of processes."
        ) from error
