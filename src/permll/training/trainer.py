"""``Trainer``: the training loop, for every method. It can resume between any two steps."""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor, nn

from permll.data.dataset import LabeledData
from permll.data.streams import Batch, Stream
from permll.data.transforms.image_transforms import Transform
from permll.distributed.network import BatchCoupling, batch_coupling_as
from permll.distributed.process_group import ProcessGroup
from permll.distributed.reduce import Reducer
from permll.distributed.sharding import Placement, PlacementMode, placement_scope, should_shard
from permll.layer.validation import NonFiniteLogitsError
from permll.methods._base import FitInfo, Method, TrainPass
from permll.training.checkpoint import load_state
from permll.training.optimizers import load_optimizer_state, optimizer_state
from permll.training.stages import Stages
from permll.training.train_streams import open_stream, open_streams, train_pass_from_state, train_pass_state
from permll.utils.messages import format_list

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class NotFiniteError(ArithmeticError):
    """The loss became NaN or infinite."""


class Trainer:
    """Trains a method on data, step by step.

    A method yields the passes of an epoch (``TrainPass``). For each batch of a pass the trainer computes the loss that
    the pass names, and steps the optimizers of the networks that the pass trains.

    Args:
        fabric: devices, precision and processes.
        method: the method, with its networks; they are moved to the device here.
        data: training data with given labels.
        views: transforms by name, for the streams of the method; ``"plain"`` is the view of ``predict_logits``.
        optimizer: name and settings, as ``build_optimizer`` takes them; each network gets one.
        schedule: as ``learning_rate`` takes it; default constant.
        epochs: number of epochs.
        batch_size: rows of a batch, over all processes.
        seed: of sampling order and augmentation.
        workers: processes that decode images.
        validation: data with noisy labels, for methods that select weights by them.
        trusted: (N,) rows whose labels are known to be correct, for methods that need such rows.
        placement: placement of per-sample state with several processes, see ``permll.distributed.sharding``.
        fresh: (network name, stage number) -> a newly initialized network, for stages that restart; default: the
            initial weights again.
    """

    def __init__(
        self,
        fabric: "Fabric",
        method: Method,
        data: LabeledData,
        views: Mapping[str, Transform],
        *,
        optimizer: Mapping[str, Any],
        schedule: Mapping[str, Any] | None = None,
        epochs: int,
        batch_size: int,
        seed: int = 0,
        workers: int = 0,
        validation: LabeledData | None = None,
        trusted: Tensor | None = None,
        placement: PlacementMode = "auto",
        fresh: Callable[[str, int], nn.Module] | None = None,
    ) -> None:
        self.fabric, self.method, self.data, self.views = fabric, method, data, views
        self.group = ProcessGroup(fabric.global_rank, fabric.world_size, fabric.device)
        self.epochs, self.batch_size, self.seed, self.workers = epochs, batch_size, seed, workers
        self.validation = validation
        self.epoch = self.pass_number = self.step = 0  # epoch, pass within it, steps in all
        self.loss = self.epoch_loss = 0.0  # sum over the current epoch's steps; mean over the last epoch's
        self._epoch_steps = 0
        self._pass: TrainPass | None = None
        self._streams: dict[str, Stream] = {}
        self._stop_requested = False
        self.is_save_due: Callable[[], bool] = lambda: False
        self.save_now = False  # whether the processes agreed to save after the last step
        self.steps_per_epoch = len(Stream(data, batch_size))
        held_out = None if validation is None else validation.labels
        info = FitInfo(
            data.labels, data.ids, data.num_classes, epochs, self.steps_per_epoch, trusted=trusted, held_out=held_out
        )
        self.sharded = method.shardable and should_shard(placement, 4 * len(data) * data.num_classes, self.group)
        self.batch_coupling: BatchCoupling = "none" if self.sharded else method.batch_coupling
        with placement_scope(Placement(self.group, self.sharded)):
            method.on_fit_start(info)
        self.stages = Stages(self, optimizer, schedule or {"kind": "constant"}, fresh)
        self.reducer = Reducer(method.networks, self.group, self.batch_coupling)

    # Training

    def run(self, after_step: Callable[["Trainer"], None], after_epoch: Callable[["Trainer"], None]) -> bool:
        """Train from the current state to the end; return False if ``stop`` was called before."""
        for _ in self.each_epoch(after_step):
            after_epoch(self)
        return self.epoch == self.epochs

    def each_epoch(self, after_step: Callable[["Trainer"], None] | None = None) -> Iterator["Trainer"]:
        """Train, and yield after every epoch."""
        while self.epoch < self.epochs:
            self.stages.enter(self.epoch, self.predict_logits)
            for train_pass, batches in self._batches():
                self._train_step(train_pass, batches)
                if after_step is not None:
                    after_step(self)
                if self.reducer.should_stop(self._stop_requested):
                    return
            self.method.on_epoch_end(self.epoch, self.predict_logits)
            if self.method.keeps_best and self.validation is not None:
                self.stages.keep_if_best(self.method.score(self.predict(self.validation), self.validation.labels))
            self.epoch, self.pass_number = self.epoch + 1, 0
            self.epoch_loss, self.loss, self._epoch_steps = self.mean_loss, 0.0, 0
            yield self

    def stop(self) -> None:
        """Stop after the current step."""
        self._stop_requested = True

    def _batches(self) -> Iterator[tuple[TrainPass, dict[str, Batch]]]:
        """Yield the batches of the epoch, pass by pass, from the current position."""
        while True:
            if self._pass is None:
                self._pass = self.method.train_pass(self.epoch, self.pass_number, self.predict_logits)
                if self._pass is None:
                    return
                self._streams = open_streams(self._pass, self)
            train_pass = self._pass
            self.method.train()  # once a pass: once a step would cost a tenth of a small network's step
            first, *others = self._streams
            if self._streams[first].epoch == self.epoch:  # else the last step before a checkpoint ended the pass
                cycles = {name: self._streams[name].cycle() for name in others}
                for batch in self._streams[first]:
                    yield train_pass, {first: batch, **{name: next(cycle) for name, cycle in cycles.items()}}
            self._pass, self._streams, self.pass_number = None, {}, self.pass_number + 1

    def _train_step(self, train_pass: TrainPass, batches: dict[str, Batch]) -> None:
        moving = tuple(self.optimizers) if train_pass.networks is None else train_pass.networks
        self.stages.set_rates(moving, self.epoch + self.fraction)
        optimizers = {name: self.optimizers[name] for name in moving}
        for optimizer in optimizers.values():
            optimizer.zero_grad()
        rows = next(iter(batches.values())).global_size
        self.reducer.before_forward(moving, rows)
        on_device = {name: batch.to(self.fabric.device) for name, batch in batches.items()}
        try:
            losses: Tensor = getattr(self.method, train_pass.loss)(**on_device)
        except NonFiniteLogitsError as error:
            self._raise_not_finite(error.rows, "logits", batches)
        loss = self.reducer.mean(losses, rows)
        value = loss.item()
        if not math.isfinite(value):
            bad_rows = (~losses.detach().isfinite()).nonzero().flatten() if losses.ndim else torch.empty(0)
            self._raise_not_finite(bad_rows, "loss", batches)
        if moving:
            self.fabric.backward(loss)
        value, self.save_now = self.reducer.after_backward(
            optimizers, value, stop=self._stop_requested, save=self.is_save_due()
        )
        for optimizer in optimizers.values():
            optimizer.step()
        self.method.on_step_end()
        self.step, self.loss, self._epoch_steps = self.step + 1, self.loss + value, self._epoch_steps + 1

    def _raise_not_finite(self, rows: Tensor, what: str, batches: dict[str, Batch]) -> NoReturn:
        fitting = [batch for batch in batches.values() if len(rows) == 0 or rows.max() < len(batch.index)]
        names = [self.data.ids[int(fitting[0].index[int(row)])] for row in rows] if fitting else []
        which = f", for {format_list(names, 'sample')}" if names else ""
        raise NotFiniteError(
            f"the {what} became NaN or infinite in epoch {self.epoch + 1}, step {self.step + 1}{which}: lower the "
            "learning rate, or check these samples; the previous checkpoint is intact."
        )

    # Progress

    @property
    def optimizers(self) -> Mapping[str, Any]:
        """One for each network, and ``"own"`` for other parameters of the method."""
        return self.stages.optimizers

    @property
    def mean_loss(self) -> float:
        """The mean loss of the current epoch so far."""
        return self.loss / max(self._epoch_steps, 1)

    @property
    def fraction(self) -> float:
        """The estimated fraction of the current epoch that is done, below 1."""
        return min(self._epoch_steps / self.steps_per_epoch, 0.999)  # 1 would be the next epoch's learning rate

    # Prediction

    def predict_logits(
        self,
        network: str = "net",
        *,
        best: bool = False,
        view: str = "plain",
        rows: Tensor | None = None,
        held_out: bool = False,
    ) -> Tensor:
        """Return logits (N, c) of a network in evaluation mode, on training or held-out rows; see ``PredictLogits``."""
        data = self.validation if held_out else self.data
        if data is None:
            raise ValueError("there are no held-out rows: set data.validation.")
        with self.stages.best_weights(network) if best else nullcontext():
            return self.evaluate(self.method.networks[network], data, view, rows)

    def predict(self, data: LabeledData) -> Tensor:
        """Return the method's predicted probabilities (N, c)."""
        return self.evaluate(self.method.predict, data)

    @torch.no_grad()
    def evaluate(
        self, function: Callable[[Tensor], Tensor], data: LabeledData, view: str = "plain", rows: Tensor | None = None
    ) -> Tensor:
        """Return a function of all rows, or of ``rows``, in evaluation mode; a collective call."""
        was_training = self.method.training
        self.method.eval()
        # The name is part of the random seed: a random view draws the same in every version.
        stream = open_stream(self, data, 4 * self.batch_size, (view,), name="scan", order="sequential", rows=rows)
        stream.seek(self.epoch)  # a random view draws differently in every epoch
        with batch_coupling_as(self.method.networks, "none"):
            outputs = [
                self.group.gather_rows(function(batch.x.to(self.fabric.device)).float(), batch.global_size).cpu()
                for batch in stream
            ]
        self.method.train(was_training)
        return torch.cat(outputs)

    # State

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next step depends on; of sharded per-sample state, this process's rows."""
        random = {"cpu": torch.get_rng_state()}
        if self.fabric.device.type == "cuda":
            random["device"] = torch.cuda.get_rng_state(self.fabric.device)
        return {
            "epoch": self.epoch,
            "pass_number": self.pass_number,
            "step": self.step,
            "loss": self.loss,
            "epoch_steps": self._epoch_steps,
            "networks": {name: dict(network.state_dict()) for name, network in self.method.networks.items()},
            "method": self.method.extra_state(),
            "optimizers": {name: optimizer_state(optimizer) for name, optimizer in self.optimizers.items()},
            "stage": self.stages.state_dict(),
            "pass": None if self._pass is None else train_pass_state(self._pass),
            "streams": {name: stream.state_dict() for name, stream in self._streams.items()},
            "random": random,
            "precision": self.fabric.strategy.precision.state_dict(),
            "parts": self.group.size if self.sharded else 1,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of another trainer."""
        self.epoch, self.pass_number, self.step = state["epoch"], state["pass_number"], state["step"]
        self.loss, self._epoch_steps = state["loss"], state["epoch_steps"]
        self.stages.load_state_dict(state["stage"])  # first: it creates the optimizers that the state belongs to
        with warnings.catch_warnings():
            if state.get("more"):  # each part has some of the rows, so missing rows mean nothing
                warnings.filterwarnings("ignore", message=r"only \d+ of \d+ rows were found")
            self.method.load_extra_state(state["method"])
            for part in state.get("more", ()):
                self.method.load_extra_state(load_state(part)["method"])
        for name, network in self.method.networks.items():
            network.load_state_dict(state["networks"][name])
        for name, optimizer in self.optimizers.items():
            load_optimizer_state(optimizer, state["optimizers"][name])
        self._pass = None if state["pass"] is None else train_pass_from_state(state["pass"])
        self._streams = {} if self._pass is None else open_streams(self._pass, self)
        for name, stream in self._streams.items():
            stream.load_state_dict(state["streams"][name])
        torch.set_rng_state(state["random"]["cpu"])
        if "device" in state["random"] and self.fabric.device.type == "cuda":
            torch.cuda.set_rng_state(state["random"]["device"], self.fabric.device)
        self.fabric.strategy.precision.load_state_dict(state["precision"])


def restart_epoch(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a trainer's state at the beginning of its current epoch, for data whose rows have changed."""
    return {**state, "pass": None, "streams": {}, "pass_number": 0, "loss": 0.0, "epoch_steps": 0}
