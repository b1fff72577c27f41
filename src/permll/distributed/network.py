"""A network whose rows are dealt to ranks: a method calls it as if it were alone."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from permll.methods._base import Meet
from permll.distributed.process_group import Ranks
from permll.distributed.batch_norm import share_norms
from permll.distributed.fsdp import dealt, whole

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class SharedNetwork(nn.Module):
    """A network on one of several ranks. What goes in and comes out depends on where the rows of a batch meet.

    ``"nothing"``: this rank's rows, in and out. ``"losses"``: this rank's rows go in, the logits of all ranks' rows
    come out. ``"inputs"``: all rows go in on every rank, each sees its own through the network, all logits come out.

    Args:
        network: bare.
        fabric: sets it up.
        ranks: who else there is.
    """

    def __init__(self, network: nn.Module, fabric: "Fabric", ranks: Ranks) -> None:
        super().__init__()
        self.kind = type(network)  # before it is wrapped, or made another by whoever shares its weights
        self.network = fabric.setup_module(share_norms(network, fabric.device))
        self._fabric, self.ranks = fabric, ranks
        self.meet: Meet = "inputs"
        self.rows = 0  # of the batch under way, of all ranks together, where they meet in losses
        self._last = 0  # rows that came out last
        self.moves = True
        # Dropout draws for other rows on every rank; what a method draws has to stay the same on all of them.
        self._random = torch.Generator().manual_seed(torch.initial_seed() + ranks.rank).get_state()

    def forward(self, x: Tensor) -> Tensor:
        """Return logits of this rank's rows or of all, see the class."""
        if self.meet == "nothing":
            return self._pass(x)
        if self.meet == "losses":
            self._last = self.rows
            return self.ranks.join(self._pass(x), self.rows)
        self._last = len(x)
        return self.ranks.join(self._pass(x[self.ranks.own]), len(x))

    def join(self, features: Tensor) -> Tensor:
        """Return for all rows what a layer within the network made of this rank's own, in the last call."""
        return features if self.meet == "nothing" else self.ranks.join(features, self._last)

    def _pass(self, x: Tensor) -> Tensor:
        training = torch.is_grad_enabled() and self.moves
        outside = torch.get_rng_state()
        torch.set_rng_state(self._random)
        try:
            # Without a backward pass there is nothing to wait for, and a wrapper that waits would not take the next.
            with nullcontext() if training else self._fabric.no_backward_sync(self.network):
                found: Tensor = self.network(x)
                return found
        finally:
            self._random = torch.get_rng_state()
            torch.set_rng_state(outside)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Return the bare network's, whole: a checkpoint does not know how many ranks there were. All have to ask."""
        state = self.network.state_dict(*args, **kwargs)
        for name, value in state.items():
            state[name] = whole(value)
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Give it back."""
        here = self.network.state_dict()
        state = {name: dealt(value, here[name]) if name in here else value for name, value in state_dict.items()}
        return self.network.load_state_dict(state, *args, **kwargs)


@contextmanager
def meeting_in(networks: nn.ModuleDict, meet: Meet) -> Iterator[None]:
    """Let the rows of shared networks meet elsewhere for a while; others do not notice."""
    shared = [network for network in networks.values() if isinstance(network, SharedNetwork)]
    before = [network.meet for network in shared]
    for network in shared:
        network.meet = meet
    try:
        yield
    finally:
        for network, was in zip(shared, before, strict=True):
            network.meet = was
