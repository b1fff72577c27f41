"""Fully sharded weights (FSDP): gathered into full tensors for checkpoints, and sharded again when loaded."""

from typing import Any

from torch import Tensor, nn


def is_sharded(value: Any) -> bool:
    """Return whether this process holds only a part of a tensor."""
    from torch.distributed.tensor import DTensor

    return isinstance(value, DTensor)


def full_tensor(value: Any) -> Any:
    """Return the full tensor of a sharded one (a collective call); anything else unchanged."""
    from torch.distributed.tensor import DTensor

    return value.full_tensor() if isinstance(value, DTensor) else value


def shard_like(value: Any, like: Tensor) -> Any:
    """Return this process's shard of a full tensor, sharded as ``like`` is; unchanged where ``like`` is not sharded."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    if not isinstance(like, DTensor) or not isinstance(value, Tensor) or value.shape != like.shape:
        return value
    return distribute_tensor(value.to(like.device, like.dtype), like.device_mesh, like.placements)


def shard_network(network: nn.Module, mesh: Any) -> nn.Module:
    """Shard the weights of a network over a mesh, layer by layer: a layer is gathered only while it computes."""
    from torch.distributed.fsdp import fully_shard

    for layer in network.children():
        if next(layer.parameters(), None) is not None:
            fully_shard(layer, mesh=mesh["data_parallel"])
    fully_shard(network, mesh=mesh["data_parallel"])
    return network
