"""Helpers for tests of methods: recorded batches, manual training, small noisy data."""

import copy
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from permll.data import Batch, LabeledData
from permll.data.transforms import default_views
from permll.methods import FitInfo, find_method
from permll.training.trainer import Trainer
from tests.helpers.toy_training import build_trainer, points

STEPS_PER_EPOCH = 4  # of 60 points in batches of 16
ManualLoss = Callable[[Tensor, Batch], Tensor]


# Running a trainer


def run_baseline(name: str, data: LabeledData, epochs: int, **settings: Any) -> Trainer:
    """Return a trainer at the end of its stage ``baseline``."""
    trainer = build_trainer(name, data, settings, epochs=epochs)
    for _ in trainer.each_epoch():
        if trainer.stages.plan[trainer.stages.number_at(trainer.epoch)].name != "baseline":
            break
    return trainer


def trainer_with_networks(
    name: str, build: Callable[[], nn.Module], precision: Any = "32-true", **settings: Any
) -> Trainer:
    """Return a trainer of four epochs with these networks, in this precision."""
    from lightning_fabric import Fabric

    data = points()
    method = find_method(name).build(**settings)
    for network in method.network_names:
        method.networks[network] = build()
    return Trainer(
        Fabric(accelerator="cpu", devices=1, precision=precision),
        method,
        data,
        default_views(data.inputs),
        optimizer={"name": "sgd", "lr": 0.05, "momentum": 0.9},
        epochs=4,
        batch_size=16,
        validation=points(30, seed=2),
    )


def prepared_method(name: str, labels: list[int], classes: int, **settings: Any) -> Any:
    """Return a method with a linear network of two inputs, after ``on_fit_start``."""
    method = find_method(name).build(**settings)
    method.networks["net"] = nn.Linear(2, classes)
    method.on_fit_start(FitInfo(torch.tensor(labels), tuple(map(str, range(len(labels)))), classes, 10, 1))
    return method


def loss_names(trainer: Trainer, epochs: int) -> list[str]:
    """Return the loss of each epoch's only pass."""
    names = []
    for epoch in range(epochs):
        train_pass = trainer.method.train_pass(epoch, 0, trainer.predict_logits)
        assert train_pass is not None
        assert trainer.method.train_pass(epoch, 1, trainer.predict_logits) is None
        names.append(train_pass.loss)
    return names


# Manual training


class RecordedBatch(NamedTuple):
    """A batch, the random state before its loss, and a snapshot taken then."""

    batch: Batch
    rng_state: Tensor
    snapshot: Any


def record_batches(trainer: Trainer, name: str = "loss", snapshot: Callable[[], Any] = lambda: None) -> Any:
    """Return a list that collects every batch of the loss ``name``, as ``RecordedBatch``."""
    recorded: list[RecordedBatch] = []
    loss = getattr(trainer.method, name)

    def recording_loss(batch: Batch) -> Tensor:
        recorded.append(RecordedBatch(batch, torch.get_rng_state(), snapshot()))
        return loss(batch)

    setattr(trainer.method, name, recording_loss)
    return recorded


def train_manually(network: nn.Module, recorded: list[RecordedBatch], loss: ManualLoss) -> nn.Module:
    """Return the network after SGD steps on these batches; ``loss`` maps (p, batch) to a scalar."""
    network = copy.deepcopy(network).train()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    for batch, rng_state, _ in recorded:
        torch.set_rng_state(rng_state)
        optimizer.zero_grad()
        loss(network(batch.x).softmax(1), batch).backward()
        optimizer.step()
    return network


def assert_weights_close(one: nn.Module, other: nn.Module) -> None:
    """Compare the parameters of two networks."""
    for first, second in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-6)


# Noisy data


def noisy_points(rows: int = 240) -> tuple[LabeledData, Tensor]:
    """Return points of which a third have a wrong label, and the mask of these."""
    data = points(rows)
    wrong = torch.rand(rows, generator=torch.Generator().manual_seed(1)) < 1 / 3
    labels = torch.where(wrong, (data.labels + 1) % 3, data.labels)
    return LabeledData(data.inputs, labels, data.classes, data.ids), wrong


def flip_labels(data: LabeledData, fraction: float = 0.4) -> LabeledData:
    """Return the data with this fraction of the labels 0 changed to 1, and of the labels 1 to 2."""
    labels = data.labels.clone()
    for label in (0, 1):
        rows = (data.labels == label).nonzero()[:, 0]
        labels[rows[: round(fraction * len(rows))]] = label + 1
    return data.relabel(labels)


# Two networks


def two_linear_networks(
    name: str, settings: dict[str, Any] | None = None, rows: int = 12
) -> tuple[Trainer, Any, Batch]:
    """Return a method with two linear networks, whose outputs do not depend on the mode, and a batch."""
    trainer = build_trainer(name, points(), settings, epochs=20)
    torch.manual_seed(3)
    for network in trainer.method.network_names:
        trainer.method.networks[network] = nn.Linear(4, 3)
    index = torch.arange(rows)
    return trainer, trainer.method, Batch(index, trainer.data.labels[index], {"weak": torch.randn(rows, 4)}, index)


def predictions_of(method: Any, batch: Batch) -> tuple[list[list[float]], list[list[float]]]:
    """Return both networks' probabilities for a batch."""
    with torch.no_grad():
        one, other = (network(batch.x).softmax(1).tolist() for network in method.networks.values())
    return one, other


def network_gradients(method: Any, loss: Tensor) -> list[Tensor]:
    """Return the gradients of a loss in all network parameters."""
    return list(torch.autograd.grad(loss, list(method.networks.parameters())))


def small_loss_positions(losses: list[float], drop: float, candidates: list[int]) -> set[int]:
    """Return the positions of the small losses among the candidates."""
    count = max(math.floor((1 - drop) * len(candidates) + 1e-4), 1)
    return set(sorted(candidates, key=lambda position: losses[position])[:count])


# Fake predictions


def fake_predict_logits(*logits: Tensor) -> Any:
    """Return a ``predict_logits`` with these logits by network, and the list of its calls (network, rows)."""
    calls: list[tuple[str, int]] = []

    def predict_logits(
        network: str = "net", *, best: bool = False, view: str = "plain", rows: Tensor | None = None
    ) -> Tensor:
        assert not best
        assert view == "plain"
        every = logits[int(network[-1])]
        calls.append((network, len(every) if rows is None else len(rows)))
        return every if rows is None else every[rows]

    return predict_logits, calls


def logits_for_labels(labels: Tensor, right: Tensor, gap: float = 4.0) -> Tensor:
    """Return logits that agree with the labels of the samples in the mask ``right``, and contradict the others."""
    logits = torch.zeros(len(labels), 3).scatter_(1, labels[:, None], gap) + 0.3 * torch.randn(len(labels), 3)
    return torch.where(right[:, None], logits, logits.roll(1, 1))


def slow_softmax(row: list[float], temperature: float = 1.0) -> list[float]:
    """Return the softmax of a list."""
    powers = [math.exp((value - max(row)) / temperature) for value in row]
    return [power / sum(powers) for power in powers]
