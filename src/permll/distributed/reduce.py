"""Reduction of a training step: loss, gradients and requests to stop or save, over all processes."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn

from permll.distributed.network import BatchCoupling, DistributedNetwork
from permll.distributed.process_group import ProcessGroup


class SizedBatch(Protocol):
    """A batch with its number of rows on all processes together."""

    @property
    def global_size(self) -> int:
        """Number of rows on all processes together."""


class StepResult(NamedTuple):
    """Loss of a step over all processes, and whether to save after it."""

    loss: float
    save: bool


class Reducer:
    """One process: nothing to reduce. Base class of ``ProcessGroupReducer``."""

    def before_forward(self, moving: tuple[str, ...], batches: Mapping[str, SizedBatch]) -> None:
        """Prepare the networks for a batch."""

    def mean(self, losses: Tensor, batches: Mapping[str, SizedBatch]) -> Tensor:  # noqa: ARG002
        """Return the mean loss over all rows, or this process's summand of it."""
        return losses.mean()

    def after_backward(
        self,
        moving: Mapping[str, Iterable[nn.Parameter]],  # noqa: ARG002
        loss: float,
        *,
        stop: bool,  # noqa: ARG002
        save: bool,
    ) -> StepResult:
        """Reduce gradients in place and return what the processes agree on."""
        return StepResult(loss, save)

    def should_stop(self, requested: bool) -> bool:
        """Return whether all processes stop now."""
        return requested


class ProcessGroupReducer(Reducer):
    """Several processes.

    With batch coupling ``"none"``, process r has the losses of its local rows, and the loss is Σ_r Σ_n l_n / B.
    Otherwise every process has the losses of all rows, and the gradient of each row passes through the network of one
    process. In both cases weight gradients are summed over the processes; DDP takes the mean instead.

    Args:
        networks: by name, each a ``DistributedNetwork``.
        group: the processes.
        batch_coupling: how samples of a batch interact, see ``Method``.
    """

    def __init__(self, networks: nn.ModuleDict, group: ProcessGroup, batch_coupling: BatchCoupling) -> None:
        self.networks, self.group, self.batch_coupling = networks, group, batch_coupling
        self._stop = False  # whether a process had a request to stop at the last step

    def before_forward(self, moving: tuple[str, ...], batches: Mapping[str, SizedBatch]) -> None:
        """Set how samples interact in each network, and whether its weights are trained."""
        (batch, *_) = batches.values()
        for name, network in self.networks.items():
            if isinstance(network, DistributedNetwork):
                network.batch_coupling, network.moves = self.batch_coupling, name in moving
                network.rows = batch.global_size

    def mean(self, losses: Tensor, batches: Mapping[str, SizedBatch]) -> Tensor:
        """Return this process's summand of the mean loss, or that mean where every process has all losses."""
        if self.batch_coupling != "none":
            return losses.mean()
        (batch,) = batches.values()
        return losses.sum() / batch.global_size

    def after_backward(
        self, moving: Mapping[str, Iterable[nn.Parameter]], loss: float, *, stop: bool, save: bool
    ) -> StepResult:
        """Sum gradients; any process can request a stop, and rank 0 decides when to save."""
        for name, parameters in moving.items():
            for parameter in parameters:
                if parameter.grad is None:
                    continue
                if name in self.networks:
                    parameter.grad.mul_(self.group.size)
                elif self.batch_coupling == "none":
                    dist.all_reduce(parameter.grad)
        votes = torch.tensor([loss, float(stop), float(save and self.group.is_main)], dtype=torch.float64)
        total, stops, saves = self.group.all_reduce(votes).tolist()
        self._stop = stops > 0
        return StepResult(total if self.batch_coupling == "none" else loss, saves > 0)

    def should_stop(self, requested: bool) -> bool:  # noqa: ARG002
        """Return whether any process had a request to stop at the last step."""
        return self._stop


def make_reducer(networks: nn.ModuleDict, group: ProcessGroup, batch_coupling: BatchCoupling) -> Reducer:
    """Return the reducer for a process group."""
    return Reducer() if group.is_single else ProcessGroupReducer(networks, group, batch_coupling)
