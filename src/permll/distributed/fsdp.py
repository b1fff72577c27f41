"""Weights that are shared between ranks (FSDP), given back whole, and dealt out again.

A checkpoint holds whole tensors, whoever has which part of them while training.
"""

from typing import Any

from torch import Tensor, nn


def is_shared(value: Any) -> bool:
    """Return whether this rank has a part of a tensor only."""
    from torch.distributed.tensor import DTensor

    return isinstance(value, DTensor)


def whole(value: Any) -> Any:
    """Return a tensor of which this rank may have a part only as a whole; all ranks have to ask. Others as they are."""
    from torch.distributed.tensor import DTensor

    return value.full_tensor() if isinstance(value, DTensor) else value


def dealt(value: Any, like: Tensor) -> Any:
    """Return the part of a whole tensor that belongs here, as ``like`` is shared; where it is not, the whole."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    if not isinstance(like, DTensor) or not isinstance(value, Tensor) or value.shape != like.shape:
        return value
    return distribute_tensor(value.to(like.device, like.dtype), like.device_mesh, like.placements)


def share_weights(network: nn.Module, mesh: Any) -> nn.Module:
    """Deal the weights of a network out to the ranks of a mesh, layer by layer: each is whole only while it works."""
    from torch.distributed.fsdp import fully_shard

    for layer in network.children():
        if next(layer.parameters(), None) is not None:
            fully_shard(layer, mesh=mesh["data_parallel"])
    fully_shard(network, mesh=mesh["data_parallel"])
    return network
