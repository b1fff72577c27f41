"""Where a training stands: its method on its data, what the next step depends on, and what the networks say."""

import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from permll.data.dataset import Data
from permll.data.streams import Stream
from permll.data.transforms.image_transforms import View
from permll.distributed.sharding import Placement, Where, choose, placing
from permll.methods._base import FitInfo, Meet, Method, Stage, Sweep
from permll.distributed.process_group import Ranks
from permll.training.checkpoint import load_state
from permll.training.optimizers import load_optimizer_state, optimizer_state
from permll.distributed.network import meeting_in
from permll.training.stages import Stages
from permll.training.sweeps import find_view, open_streams, streams_state, sweep_from_state, sweep_state
from permll.distributed.reduce import Team

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class Standing:
    """A training that can be left and taken up again between any two steps.

    Args:
        fabric: devices, precision and ranks.
        method: with its networks, which are set up here.
        data: to train on, with given labels.
        views: by name, for the method's draws and (``"plain"``) for its scans.
        optimizer: its ``name`` and settings, as ``build_optimizer`` takes them; one is made for each network.
        schedule: as ``learning_rate`` takes it; default constant.
        epochs: how many.
        batch_size: rows of a batch, of all ranks together.
        seed: of orders and views.
        workers: processes that decode images.
        validation: with noisy labels, for methods that choose weights by them.
        trusted: (N,) whose labels are known to be right, for methods that need such rows.
        placement: where the rows of a method's state live, if several ranks train; see ``permll.distributed.sharding``.
        fresh: (name of a network, number of a stage) -> a network with weights of its own, for stages that begin with
            some; default the initial weights once more.
    """

    def __init__(
        self,
        fabric: "Fabric",
        method: Method,
        data: Data,
        views: Mapping[str, View],
        *,
        optimizer: Mapping[str, Any],
        schedule: Mapping[str, Any] | None = None,
        epochs: int,
        batch_size: int,
        seed: int = 0,
        workers: int = 0,
        validation: Data | None = None,
        trusted: Tensor | None = None,
        placement: Where = "auto",
        fresh: Callable[[str, int], nn.Module] | None = None,
    ) -> None:
        self.fabric, self.method, self.data, self.views = fabric, method, data, views
        self.ranks = Ranks(fabric.global_rank, fabric.world_size, fabric.device)
        self.epochs, self.batch_size, self.seed, self.workers = epochs, batch_size, seed, workers
        self.validation = validation
        self.epoch = self.number = self.step = 0  # epoch, sweep of it, steps in all
        self.loss = self.epoch_loss = 0.0  # sum over the epoch's steps so far; mean over those of the last epoch
        self._losses = 0
        self._sweep: Sweep | None = None
        self._streams: dict[str, Stream] = {}
        self._stop = self._stopped = False  # asked to stop; of ranks, whether one was when they last told each other
        self.due: Callable[[], bool] = lambda: (
            False
        )  # whether it is time to save; of ranks, the first one's clock counts
        self.was_due = False  # after the step before
        self.steps_per_epoch = len(Stream(data, batch_size))
        info = FitInfo(
            data.labels,
            data.ids,
            data.num_classes,
            epochs,
            self.steps_per_epoch,
            trusted=trusted,
            held_out=None if validation is None else validation.labels,
        )
        self.sharded = method.shardable and choose(placement, 4 * len(data) * data.num_classes, self.ranks)
        self.meet: Meet = "nothing" if self.sharded else method.meet
        with placing(Placement(self.ranks, self.sharded)):
            method.on_fit_start(info)
        self.stages = Stages(method, epochs, optimizer, schedule or {"kind": "constant"}, fabric, fresh, self.ranks)
        self.team = Team(method, self.stages, self.ranks, self.meet)

    @property
    def optimizers(self) -> Mapping[str, Any]:
        """One for each network, and ``"own"`` for what else the method learns by gradient."""
        return self.stages.optimizers

    @property
    def stage(self) -> Stage:
        """The stage of the next step."""
        return self.stages.at(self.epoch)

    @property
    def mean_loss(self) -> float:
        """The mean loss of the epoch so far."""
        return self.loss / max(self._losses, 1)

    @property
    def fraction(self) -> float:
        """How much of the epoch is done, as far as one can tell beforehand."""
        return min(self._losses / self.steps_per_epoch, 0.999)  # below 1: the next epoch's rate is not yet due

    def scan(
        self,
        network: str = "net",
        *,
        best: bool = False,
        view: str = "plain",
        rows: Tensor | None = None,
        held_out: bool = False,
    ) -> Tensor:
        """Return the logits (N, c) of a network in evaluation mode, on training rows or held-out ones; see ``Scan``."""
        if held_out and self.validation is None:
            raise ValueError("there are no held-out rows: set data.validation.")
        module, data = self.method.networks[network], self.validation if held_out else self.data
        assert data is not None
        with self.stages.best_weights(network) if best else nullcontext():
            return self._evaluated(module, data, view, rows)

    def predict(self, data: Data) -> Tensor:
        """Return the method's probabilities (N, c)."""
        return self._evaluated(self.method.predict, data)

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next step depends on; of rows that are shared between ranks, those here."""
        return {
            "epoch": self.epoch,
            "number": self.number,
            "step": self.step,
            "loss": self.loss,
            "losses": self._losses,
            "networks": {name: dict(network.state_dict()) for name, network in self.method.networks.items()},
            "method": self.method.own_state(),
            "optimizers": {name: optimizer_state(optimizer) for name, optimizer in self.optimizers.items()},
            "stage": self.stages.state_dict(),
            "sweep": None if self._sweep is None else sweep_state(self._sweep),
            "streams": streams_state(self._streams),
            "random": self._random_state(),
            "precision": self.fabric.strategy.precision.state_dict(),
            "parts": self.ranks.size if self.sharded else 1,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Stand where another loop stood."""
        self.epoch, self.number, self.step = state["epoch"], state["number"], state["step"]
        self.loss, self._losses = state["loss"], state["losses"]
        self.stages.load_state_dict(state["stage"])  # first: its optimizers are those the state is of
        with warnings.catch_warnings():
            if state.get("more"):  # each part has some of the rows: that the others are missing there says nothing
                warnings.filterwarnings("ignore", message=r"only \d+ of \d+ rows were found")
            self.method.load_own_state(state["method"])
            for part in state.get("more", ()):
                self.method.load_own_state(load_state(part)["method"])
        for name, network in self.method.networks.items():
            network.load_state_dict(state["networks"][name])
        for name, optimizer in self.optimizers.items():
            load_optimizer_state(optimizer, state["optimizers"][name])
        self._sweep = None if state["sweep"] is None else sweep_from_state(state["sweep"])
        self._streams = {} if self._sweep is None else open_streams(self._sweep, self)
        for name, stream in self._streams.items():
            stream.load_state_dict(state["streams"][name])
        torch.set_rng_state(state["random"]["cpu"])
        if "device" in state["random"] and self.fabric.device.type == "cuda":
            torch.cuda.set_rng_state(state["random"]["device"], self.fabric.device)
        self.fabric.strategy.precision.load_state_dict(state["precision"])

    def _random_state(self) -> dict[str, Tensor]:
        state = {"cpu": torch.get_rng_state()}
        if self.fabric.device.type == "cuda":
            state["device"] = torch.cuda.get_rng_state(self.fabric.device)
        return state

    @torch.no_grad()
    def _evaluated(
        self, function: Callable[[Tensor], Tensor], data: Data, view: str = "plain", rows: Tensor | None = None
    ) -> Tensor:
        was_training = self.method.training
        self.method.eval()
        views = {view: find_view(self.views, view)}
        stream = Stream(
            data,
            4 * self.batch_size,
            views=views,
            order="sequential",
            rows=rows,
            seed=self.seed,
            name="scan",
            rank=self.ranks.rank,
            ranks=self.ranks.size,
            workers=self.workers,
        )
        stream.seek(self.epoch)  # a view that draws at random draws anew
        with meeting_in(self.method.networks, "nothing"):
            found = [
                self.ranks.join(function(batch.x.to(self.fabric.device)).float(), batch.total).cpu() for batch in stream
            ]
        self.method.train(was_training)
        return torch.cat(found)
