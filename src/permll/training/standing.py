"""Where a training stands: its method on its data, what the next step depends on, and what the networks say."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from permll.data.record import Data
from permll.data.streams import Stream
from permll.data.views.images import View
from permll.methods._base import FitInfo, Method, Sweep
from permll.training.optimizers import load_optimizer_state, optimizer_state
from permll.training.schedule import Schedule
from permll.training.sweeps import open_streams, streams_state, sweep_from_state, sweep_state

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class Standing:
    """A training that can be left and taken up again between any two steps.

    Args:
        fabric: devices, precision and ranks.
        method: with its networks, which are set up here.
        data: to train on, with given labels.
        views: by name, for the method's draws and (``"plain"``) for its scans.
        optimizers: one for each network.
        schedule: epoch, with its fraction, -> factor of the learning rate.
        epochs: how many.
        batch_size: rows of a batch, of all ranks together.
        seed: of orders and views.
        workers: processes that decode images.
    """

    def __init__(
        self,
        fabric: "Fabric",
        method: Method,
        data: Data,
        views: Mapping[str, View],
        optimizers: Mapping[str, torch.optim.Optimizer],
        schedule: Schedule,
        *,
        epochs: int,
        batch_size: int,
        seed: int = 0,
        workers: int = 0,
    ) -> None:
        self.fabric, self.method, self.data, self.views, self.schedule = fabric, method, data, views, schedule
        self.epochs, self.batch_size, self.seed, self.workers = epochs, batch_size, seed, workers
        self.epoch = self.number = self.step = 0  # epoch, sweep of it, steps in all
        self.loss = self.epoch_loss = 0.0  # sum over the epoch's steps so far; mean over those of the last epoch
        self._losses = 0
        self._sweep: Sweep | None = None
        self._streams: dict[str, Stream] = {}
        self._stop = False
        steps = len(Stream(data, batch_size))
        method.on_fit_start(FitInfo(data.labels, data.ids, data.num_classes, epochs, steps))
        self.steps_per_epoch = steps
        self.optimizers: dict[str, Any] = {}
        for name in method.network_names:
            method.networks[name], self.optimizers[name] = fabric.setup(method.networks[name], optimizers[name])
        fabric.to_device(method)
        self._rates = {
            name: [group["lr"] for group in optimizer.param_groups] for name, optimizer in self.optimizers.items()
        }

    @property
    def mean_loss(self) -> float:
        """The mean loss of the epoch so far."""
        return self.loss / max(self._losses, 1)

    @property
    def fraction(self) -> float:
        """How much of the epoch is done, as far as one can tell beforehand."""
        return min(self._losses / self.steps_per_epoch, 1.0)

    def scan(self, network: str = "net", data: Data | None = None) -> Tensor:
        """Return the logits (N, c) of a network in evaluation mode, on the training data or on other."""
        module = self.method.networks[network]
        return self._evaluated(module, data or self.data)

    def predict(self, data: Data) -> Tensor:
        """Return the method's probabilities (N, c)."""
        return self._evaluated(self.method.predict, data)

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next step depends on."""
        return {
            "epoch": self.epoch,
            "number": self.number,
            "step": self.step,
            "loss": self.loss,
            "losses": self._losses,
            "networks": {name: dict(network.state_dict()) for name, network in self.method.networks.items()},
            "method": self.method.own_state(),
            "optimizers": {name: optimizer_state(optimizer) for name, optimizer in self.optimizers.items()},
            "sweep": None if self._sweep is None else sweep_state(self._sweep),
            "streams": streams_state(self._streams),
            "random": torch.get_rng_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Stand where another loop stood."""
        self.epoch, self.number, self.step = state["epoch"], state["number"], state["step"]
        self.loss, self._losses = state["loss"], state["losses"]
        self.method.load_own_state(state["method"])
        for name, network in self.method.networks.items():
            network.load_state_dict(state["networks"][name])
        for name, optimizer in self.optimizers.items():
            load_optimizer_state(optimizer, state["optimizers"][name])
        self._sweep = None if state["sweep"] is None else sweep_from_state(state["sweep"])
        self._streams = {} if self._sweep is None else open_streams(self._sweep, self)
        for name, stream in self._streams.items():
            stream.load_state_dict(state["streams"][name])
        torch.set_rng_state(state["random"])

    @torch.no_grad()
    def _evaluated(self, function: Callable[[Tensor], Tensor], data: Data) -> Tensor:
        was_training = self.method.training
        self.method.eval()
        stream = Stream(
            data, 4 * self.batch_size, views={"plain": self.views["plain"]}, order="sequential", workers=self.workers
        )
        found = [function(batch.x.to(self.fabric.device)).float().cpu() for batch in stream]
        self.method.train(was_training)
        return torch.cat(found)
