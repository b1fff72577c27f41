"""Stages made real: the weights and optimizers each begins with, its rates, and the best weights so far."""

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from permll.distributed.network import DistributedNetwork
from permll.distributed.process_group import ProcessGroup
from permll.methods._base import Method, PredictLogits, Stage
from permll.training.optimizers import build_optimizer
from permll.training.schedule import first_beta, learning_rate

if TYPE_CHECKING:
    from lightning_fabric import Fabric

OWN = "own"  # the optimizer of parameters outside the networks
Fresh = Callable[[str, int], nn.Module]


class Stages:
    """The stages of a method, and what the present one trains with. For the arguments see ``Trainer``."""

    def __init__(
        self,
        method: Method,
        epochs: int,
        optimizer: Mapping[str, Any],
        schedule: Mapping[str, Any],
        fabric: "Fabric",
        fresh: Fresh | None,
        group: ProcessGroup,
    ) -> None:
        self.method, self.fabric = method, fabric
        self.every = method.stages(epochs)
        if sum(stage.epochs for stage in self.every) != epochs:
            raise ValueError(f"the stages of the method do not sum to {epochs} epochs: {self.every}.")
        self._optimizer, self._schedule, self._fresh = dict(optimizer), dict(schedule), fresh
        self.number = 0
        self.best: dict[str, Any] | None = None  # score and networks
        wanted = {stage.weights for stage in self.every} & ({"initial"} if fresh else {"initial", "fresh"})
        self._initial = _weights(method) if wanted else {}
        for name in method.network_names:
            network = method.networks[name]
            method.networks[name] = (
                fabric.setup_module(network) if group.is_single else DistributedNetwork(network, fabric, group)
            )
        fabric.to_device(method)
        self.optimizers: dict[str, Any] = {}
        self._equip()

    def at(self, epoch: int) -> Stage:
        """Return the stage of an epoch; after the last, the last."""
        return self.every[self._number_at(epoch)]

    def enter(self, epoch: int, predict_logits: PredictLogits) -> None:
        """Begin the stage of an epoch, if it is not begun yet."""
        number = self._number_at(epoch)
        if number == self.number:
            return
        stage = self.every[number]
        self.method.on_stage_start(stage, predict_logits)
        for name, weights in self._begin_with(stage, number).items():
            self.method.networks[name].load_state_dict(weights)
        self.number, self.best = number, None
        self._equip()

    def set_rates(self, names: tuple[str, ...], epoch: float) -> None:
        """Set the learning rates of these optimizers, and Adam's first decay rate, for an epoch with its fraction."""
        stage = self.every[self.number]
        since = epoch - sum(before.epochs for before in self.every[: self.number])
        schedule = {**self._schedule, **stage.schedule}
        beta1 = first_beta(
            since, stage.epochs, milestones=schedule.get("milestones", ()), beta1=schedule.pop("beta1", None)
        )
        factor = learning_rate(since, stage.epochs, **schedule)
        for name in names:
            for group, rate in zip(self.optimizers[name].param_groups, self._rates[name], strict=True):
                group["lr"] = factor * rate
                if beta1 is not None and "betas" in group:
                    group["betas"] = (beta1, group["betas"][1])

    def keep_if_best(self, score: float) -> None:
        """Keep the present weights if none of this stage scored as well."""
        if self.best is None or score > self.best["score"]:
            self.best = {"score": score, "networks": _weights(self.method)}

    @contextmanager
    def best_weights(self, name: str) -> Iterator[None]:
        """Lend a network its best weights; without any, it keeps its own."""
        network, present = self.method.networks[name], None
        if self.best is not None:
            present = copy.deepcopy(network.state_dict())
            network.load_state_dict(self.best["networks"][name])
        try:
            yield
        finally:
            if present is not None:
                network.load_state_dict(present)

    def state_dict(self) -> dict[str, Any]:
        """Return which stage it is, its best weights, and those of the beginning if a stage goes back to them."""
        return {"number": self.number, "best": self.best, "initial": self._initial}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Be in that stage, with optimizers that have not moved yet."""
        self.best = None if state["best"] is None else dict(state["best"])
        self._initial = state["initial"]
        if state["number"] != self.number:
            self.number = state["number"]
            self._equip()

    def _number_at(self, epoch: int) -> int:
        end = 0
        for number, stage in enumerate(self.every):
            end += stage.epochs
            if epoch < end:
                return number
        return len(self.every) - 1

    def _begin_with(self, stage: Stage, number: int) -> Mapping[str, Mapping[str, Tensor]]:
        if stage.weights == "best":
            return {} if self.best is None else self.best["networks"]
        if stage.weights == "fresh" and self._fresh is not None:
            with torch.random.fork_rng(devices=[]):
                return {name: self._fresh(name, number).state_dict() for name in self.method.network_names}
        return {} if stage.weights == "last" else self._initial

    def _equip(self) -> None:
        stage = self.every[self.number]
        settings = dict(stage.optimizer)
        if settings.get("name", self._optimizer["name"]) == self._optimizer["name"]:
            settings = {**self._optimizer, **settings}
        made = {name: build_optimizer(self.method.networks[name], **settings) for name in self.method.network_names}
        own = nn.ParameterList(
            value for name, value in self.method.named_parameters() if not name.startswith("networks.")
        )
        if len(own):
            made[OWN] = build_optimizer(own, **{**settings, "weight_decay": 0.0})
        self.optimizers = {name: self.fabric.setup_optimizers(one) for name, one in made.items()}
        self._rates = {name: [group["lr"] for group in one.param_groups] for name, one in self.optimizers.items()}


def _weights(method: Method) -> dict[str, dict[str, Tensor]]:
    return {name: copy.deepcopy(dict(network.state_dict())) for name, network in method.networks.items()}
