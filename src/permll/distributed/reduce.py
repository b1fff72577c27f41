"""A step of several ranks: the loss that they have together, its gradients, and whether to go on."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor

from permll.data.streams import Batch
from permll.methods._base import Meet, Method
from permll.distributed.process_group import Ranks
from permll.distributed.network import SharedNetwork

if TYPE_CHECKING:
    from permll.training.stages import Stages


class Team:
    """What a step needs beside what one process does.

    Where rows meet in nothing, rank r has the losses of its own rows, and the loss of the batch is Σ_r Σ_n l_n / B.
    Where they meet, every rank has the losses of all rows, and each row's gradient goes through the network of one
    rank. In both cases the gradients of weights are to be added up over the ranks; their wrapper takes the mean.

    Args:
        method: with networks that are shared.
        stages: with the optimizers.
        ranks: who there is.
        meet: where rows meet, see ``Method``.
    """

    def __init__(self, method: Method, stages: "Stages", ranks: Ranks, meet: Meet) -> None:
        self.method, self.stages, self.ranks, self.meet = method, stages, ranks, meet

    def before(self, moving: tuple[str, ...], batches: Mapping[str, Batch]) -> None:
        """Tell the networks what comes."""
        (batch, *_) = batches.values()
        for name, network in self.method.networks.items():
            if isinstance(network, SharedNetwork):
                network.meet, network.moves = self.meet, name in moving
                network.rows = batch.total

    def mean(self, losses: Tensor, batches: Mapping[str, Batch]) -> Tensor:
        """Return this rank's part of the mean loss of all rows, or that mean where every rank has all of them."""
        if self.meet != "nothing":
            return losses.mean()
        (batch,) = batches.values()
        return losses.sum() / batch.total

    def after(self, moving: tuple[str, ...], value: float, stop: bool, due: bool) -> tuple[float, bool, bool]:
        """Add the gradients up; return the mean loss of all rows, whether any rank stops, whether the first saves."""
        for name in moving:
            in_network = name in self.method.networks
            for group in self.stages.optimizers[name].param_groups:
                for parameter in group["params"]:
                    if parameter.grad is None:
                        continue
                    if in_network:
                        parameter.grad.mul_(self.ranks.size)
                    elif self.meet == "nothing":
                        dist.all_reduce(parameter.grad)
        said = self.ranks.total(
            torch.tensor([value, float(stop), float(due and self.ranks.first)], dtype=torch.float64)
        )
        together, stops, saves = said.tolist()
        return together if self.meet == "nothing" else value, stops > 0, saves > 0
