"""A network that several processes evaluate together; a method calls it like any module."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from permll.distributed.batch_norm import convert_batch_norm
from permll.distributed.fsdp import full_tensor, shard_like
from permll.distributed.process_group import ProcessGroup

if TYPE_CHECKING:
    from lightning_fabric import Fabric

BatchCoupling = Literal["none", "logits", "inputs"]


class DistributedNetwork(nn.Module):
    """A network on one of several processes. Its inputs and outputs depend on how samples of a batch interact.

    ``"none"``: this process's rows, in and out. ``"logits"``: this process's rows go in, the logits of all rows come
    out. ``"inputs"``: all rows go in on every process, each evaluates its own, the logits of all rows come out.

    Args:
        network: the bare network.
        fabric: wraps it.
        group: the processes.
    """

    def __init__(self, network: nn.Module, fabric: "Fabric", group: ProcessGroup) -> None:
        super().__init__()
        self.kind = type(network)  # before wrapping and sharding change the class
        self.network = fabric.setup_module(convert_batch_norm(network, fabric.device))
        self._fabric, self.group = fabric, group
        self.batch_coupling: BatchCoupling = "inputs"
        self.rows = 0  # rows of the current batch on all processes together
        self._last = 0  # rows of the last output
        self.moves = True
        # Dropout draws for different rows on every process; what a method draws must be the same on all of them.
        self._random = torch.Generator().manual_seed(torch.initial_seed() + group.rank).get_state()

    def forward(self, x: Tensor) -> Tensor:
        """Return logits of this process's rows or of all rows, see the class."""
        if self.batch_coupling == "none":
            return self._forward(x)
        if self.batch_coupling == "logits":
            self._last = self.rows
            return self.group.gather_rows(self._forward(x), self.rows)
        self._last = len(x)
        return self.group.gather_rows(self._forward(x[self.group.local_rows]), len(x))

    def gather_features(self, features: Tensor) -> Tensor:
        """Return for all rows what a layer inside the network computed for this process's rows in the last call."""
        return features if self.batch_coupling == "none" else self.group.gather_rows(features, self._last)

    def _forward(self, x: Tensor) -> Tensor:
        training = torch.is_grad_enabled() and self.moves
        outside = torch.get_rng_state()
        torch.set_rng_state(self._random)
        try:
            # Without a backward pass there is nothing to reduce, and DDP would refuse the next forward.
            with nullcontext() if training else self._fabric.no_backward_sync(self.network):
                return self.network(x)
        finally:
            self._random = torch.get_rng_state()
            torch.set_rng_state(outside)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Return the bare network's full state, independent of the number of processes; a collective call."""
        state = self.network.state_dict(*args, **kwargs)
        for name, value in state.items():
            state[name] = full_tensor(value)
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Load a full state; sharded weights take their part of it."""
        local = self.network.state_dict()
        state = {name: shard_like(value, local[name]) if name in local else value for name, value in state_dict.items()}
        return self.network.load_state_dict(state, *args, **kwargs)


@contextmanager
def batch_coupling_as(networks: nn.ModuleDict, batch_coupling: BatchCoupling) -> Iterator[None]:
    """Evaluate distributed networks with another batch coupling within the block; other networks are unaffected."""
    distributed = [network for network in networks.values() if isinstance(network, DistributedNetwork)]
    previous = [network.batch_coupling for network in distributed]
    for network in distributed:
        network.batch_coupling = batch_coupling
    try:
        yield
    finally:
        for network, value in zip(distributed, previous, strict=True):
            network.batch_coupling = value
