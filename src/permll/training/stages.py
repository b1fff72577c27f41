"""Stages of a training: initial weights, optimizers and learning rates of each, and the best weights so far."""

import bisect
import copy
import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from permll.distributed.network import DistributedNetwork
from permll.methods._base import Method, PredictLogits, Stage
from permll.training.optimizers import build_optimizer
from permll.training.schedule import learning_rate, milestones_in_epochs

if TYPE_CHECKING:
    from permll.training.trainer import Trainer

METHOD_OPTIMIZER = "own"  # name of the optimizer of parameters outside the networks
NetworkFactory = Callable[[str, int], nn.Module]


class Stages:
    """The stages of a trainer's method, and the optimizers of the current one. For the arguments see ``Trainer``."""

    def __init__(
        self,
        trainer: "Trainer",
        optimizer: Mapping[str, Any],
        schedule: Mapping[str, Any],
        fresh: NetworkFactory | None,
    ) -> None:
        self.method, self.fabric = method, fabric = trainer.method, trainer.fabric
        self.plan = method.stages(trainer.epochs)
        if sum(stage.epochs for stage in self.plan) != trainer.epochs:
            raise ValueError(f"the stages of the method do not sum to {trainer.epochs} epochs: {self.plan}.")
        self._optimizer, self._schedule, self._fresh = dict(optimizer), dict(schedule), fresh
        self.number = 0
        self.best: dict[str, Any] | None = None  # score and networks
        needs_initial = {stage.weights for stage in self.plan} & ({"initial"} if fresh else {"initial", "fresh"})
        self._initial = _copy_weights(method) if needs_initial else {}
        for name in method.network_names:
            network = method.networks[name]
            if trainer.group.is_single:
                method.networks[name] = fabric.setup_module(network)
            else:
                method.networks[name] = DistributedNetwork(network, fabric, trainer.group)
        fabric.to_device(method)
        self.optimizers: dict[str, Any] = {}
        self._build_optimizers()

    def number_at(self, epoch: int) -> int:
        """Return the number of the stage of an epoch; after the last epoch, of the last stage."""
        ends = list(itertools.accumulate(stage.epochs for stage in self.plan))
        return min(bisect.bisect_right(ends, epoch), len(self.plan) - 1)

    def enter(self, epoch: int, predict_logits: PredictLogits) -> None:
        """Start the stage of an epoch, unless it is the current one."""
        number = self.number_at(epoch)
        if number == self.number:
            return
        stage = self.plan[number]
        self.method.on_stage_start(stage, predict_logits)
        for name, weights in self._initial_weights(stage, number).items():
            self.method.networks[name].load_state_dict(weights)
        self.number, self.best = number, None
        self._build_optimizers()

    def set_rates(self, names: tuple[str, ...], epoch: float) -> None:
        """Set learning rate and Adam's first decay rate of these optimizers, for an epoch with its fraction."""
        stage = self.plan[self.number]
        stage_epoch = epoch - sum(previous.epochs for previous in self.plan[: self.number])
        schedule = {**self._schedule, **stage.schedule}
        beta1 = schedule.pop("beta1", None)
        starts = milestones_in_epochs(schedule.get("milestones", ()), stage.epochs)
        if not starts or stage_epoch < starts[0]:
            beta1 = None  # the optimizer's own
        factor = learning_rate(stage_epoch, stage.epochs, **schedule)
        for name in names:
            for group, rate in zip(self.optimizers[name].param_groups, self._rates[name], strict=True):
                group["lr"] = factor * rate
                if beta1 is not None and "betas" in group:
                    group["betas"] = (beta1, group["betas"][1])

    def keep_if_best(self, score: float) -> None:
        """Keep the current weights if their score is the highest of this stage."""
        if self.best is None or score > self.best["score"]:
            self.best = {"score": score, "networks": _copy_weights(self.method)}

    @contextmanager
    def best_weights(self, name: str) -> Iterator[None]:
        """Give a network its best weights within the block; without any, it keeps the current ones."""
        network, current = self.method.networks[name], None
        if self.best is not None:
            current = copy.deepcopy(network.state_dict())
            network.load_state_dict(self.best["networks"][name])
        try:
            yield
        finally:
            if current is not None:
                network.load_state_dict(current)

    def state_dict(self) -> dict[str, Any]:
        """Return the number of the stage, its best weights, and the initial weights if a stage restarts from them."""
        return {"number": self.number, "best": self.best, "initial": self._initial}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the stage; its optimizers are new, their state is loaded by the trainer."""
        self.best = None if state["best"] is None else dict(state["best"])
        self._initial = state["initial"]
        if state["number"] != self.number:
            self.number = state["number"]
            self._build_optimizers()

    def _initial_weights(self, stage: Stage, number: int) -> Mapping[str, Mapping[str, Tensor]]:
        if stage.weights == "best":
            return {} if self.best is None else self.best["networks"]
        if stage.weights == "fresh" and self._fresh is not None:
            with torch.random.fork_rng(devices=[]):
                return {name: self._fresh(name, number).state_dict() for name in self.method.network_names}
        return {} if stage.weights == "last" else self._initial

    def _build_optimizers(self) -> None:
        stage = self.plan[self.number]
        settings = dict(stage.optimizer)
        if settings.get("name", self._optimizer["name"]) == self._optimizer["name"]:
            settings = {**self._optimizer, **settings}
        optimizers = {
            name: build_optimizer(self.method.networks[name], **settings) for name in self.method.network_names
        }
        parameters = nn.ParameterList(
            value for name, value in self.method.named_parameters() if not name.startswith("networks.")
        )
        if len(parameters):
            optimizers[METHOD_OPTIMIZER] = build_optimizer(parameters, **{**settings, "weight_decay": 0.0})
        self.optimizers = {name: self.fabric.setup_optimizers(one) for name, one in optimizers.items()}
        self._rates = {name: [group["lr"] for group in one.param_groups] for name, one in self.optimizers.items()}


def _copy_weights(method: Method) -> dict[str, dict[str, Tensor]]:
    return {name: copy.deepcopy(dict(network.state_dict())) for name, network in method.networks.items()}
