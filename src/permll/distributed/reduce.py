"""Reduction of a training step: loss, gradients and requests to stop or save, over all processes."""

from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from permll.distributed.network import BatchCoupling, DistributedNetwork
from permll.distributed.process_group import ProcessGroup


class Reducer:
    """Reduces a step over the processes of a group; with one process there is nothing to reduce.

    With batch coupling ``"none"``, process r has the losses of its local rows, and the loss is Σ_r Σ_n l_n / B.
    Otherwise every process has the losses of all rows, and the gradient of each row passes through the network of one
    process. In both cases weight gradients are summed over the processes; DDP takes the mean instead.

    Args:
        networks: by name; with several processes, each a ``DistributedNetwork``.
        group: the processes.
        batch_coupling: how samples of a batch interact, see ``Method``.
    """

    def __init__(self, networks: nn.ModuleDict, group: ProcessGroup, batch_coupling: BatchCoupling) -> None:
        self.networks, self.group, self.batch_coupling = networks, group, batch_coupling
        self._has_local_losses = batch_coupling == "none" and not group.is_single
        self._stop = False  # whether a process had a request to stop at the last step

    def before_forward(self, moving: tuple[str, ...], rows: int) -> None:
        """Set how the ``rows`` of all processes interact in each network, and whether its weights are trained."""
        for name, network in self.networks.items():
            if isinstance(network, DistributedNetwork):
                network.batch_coupling, network.moves, network.rows = self.batch_coupling, name in moving, rows

    def mean(self, losses: Tensor, rows: int) -> Tensor:
        """Return the mean loss over the ``rows`` of all processes, or this process's summand of it."""
        return losses.sum() / rows if self._has_local_losses else losses.mean()

    def after_backward(
        self, optimizers: Mapping[str, Optimizer], loss: float, *, stop: bool, save: bool
    ) -> tuple[float, bool]:
        """Sum gradients in place, and return the loss over all processes and whether to save.

        Any process can request a stop; rank 0 decides when to save.
        """
        if self.group.is_single:
            return loss, save
        for name, optimizer in optimizers.items():
            for parameter in (parameter for group in optimizer.param_groups for parameter in group["params"]):
                if parameter.grad is None:
                    continue
                if name in self.networks:
                    parameter.grad.mul_(self.group.size)
                elif self.batch_coupling == "none":
                    dist.all_reduce(parameter.grad)
        votes = torch.tensor([loss, float(stop), float(save and self.group.is_main)], dtype=torch.float64)
        total, stops, saves = self.group.all_reduce(votes).tolist()
        self._stop = stops > 0
        return total if self.batch_coupling == "none" else loss, saves > 0

    def should_stop(self, requested: bool) -> bool:
        """Return whether all processes stop now: with several, if any had a request at the last step."""
        return requested if self.group.is_single else self._stop
