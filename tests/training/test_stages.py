"""Stages: initial weights, learning rates, best weights, and resuming in any of them."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from permll.data import Batch
from permll.methods import FitInfo, Method, PredictLogits, Stage, divide_epochs
from permll.methods.ce import CrossEntropy
from permll.training.checkpoint import load_state, save_state
from permll.training.train import train
from permll.training.trainer import Trainer
from tests.helpers.toy_training import (
    StopAfter,
    build_trainer,
    do_nothing,
    equal_states,
    points,
    run_bytes,
    run_steps,
    small_net,
)


class Staged(CrossEntropy):
    """Four stages with different initial weights, and a parameter outside the network."""

    keeps_best = True

    def on_fit_start(self, info: FitInfo) -> None:
        super().on_fit_start(info)
        self.bias = nn.Parameter(torch.zeros(info.num_classes))
        self.register_buffer("logits", torch.zeros(4, info.num_samples, info.num_classes))
        self.starts: list[tuple[str, Tensor, Tensor]] = []

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        one, two, three, four = divide_epochs(epochs, 2, 1, 1)
        return (
            Stage("one", one),
            Stage("two", two, "best", optimizer={"lr": 0.5}, schedule={"kind": "constant"}),
            Stage("three", three, "initial", optimizer={"name": "adam", "lr": 0.01}),
            Stage("four", four, "fresh"),
        )

    def on_stage_start(self, stage: Stage, predict_logits: PredictLogits) -> None:
        self.starts.append((stage.name, predict_logits(), predict_logits(best=True)))
        self.logits: Tensor
        self.logits[["one", "two", "three", "four"].index(stage.name)] = predict_logits()

    def loss(self, batch: Batch) -> Tensor:
        logits = self.networks["net"](batch.x) + self.bias
        return nn.functional.cross_entropy(logits, batch.labels, reduction="none")


def staged_trainer(validation: bool = True) -> Trainer:
    from lightning_fabric import Fabric

    from permll.data.transforms import default_views

    data = points()
    torch.manual_seed(5)
    method = Staged()
    method.networks["net"] = small_net(4, 3)
    return Trainer(
        Fabric(accelerator="cpu", devices=1),
        method,
        data,
        default_views(data.inputs),
        optimizer={"name": "sgd", "lr": 0.05, "momentum": 0.9},
        schedule={"milestones": (1,)},
        epochs=6,
        batch_size=16,
        validation=points(30, seed=2) if validation else None,
        fresh=lambda _, stage: small_net(4, 3, seed=40 + stage),
    )


def weights(trainer: Trainer) -> Tensor:
    return torch.cat([value.flatten() for value in trainer.method.networks.parameters()]).detach().clone()


def test_stage_starts_with_its_weights_and_learning_rate() -> None:
    trainer = staged_trainer()
    initial = weights(trainer)
    scores: list[float] = []
    rates, kinds, first, ends = [], [], {}, [initial]
    train_step = trainer._train_step

    def watched(train_pass: Any, batches: Any) -> None:
        first.setdefault(trainer.stages.number, weights(trainer))
        train_step(train_pass, batches)
        rates.append(trainer.optimizers["net"].param_groups[0]["lr"])
        kinds.append(type(trainer.optimizers["net"].optimizer).__name__)

    trainer._train_step = watched  # type: ignore[method-assign]
    for _ in trainer.each_epoch():
        ends.append(weights(trainer))
        assert trainer.stages.best is not None
        scores.append(trainer.stages.best["score"])
    steps = trainer.steps_per_epoch
    assert rates[::steps] == [0.05, 0.05 * 0.1, 0.5, 0.01, 0.05, 0.05 * 0.1]
    assert kinds[:: 2 * steps] == ["SGD", "SGD", "SGD"]
    assert kinds[3 * steps] == "Adam"
    best = 1 if scores[0] == scores[1] else 2  # the earliest of equals
    assert torch.equal(first[1], ends[best])
    assert torch.equal(first[2], initial)
    fresh = torch.cat([value.flatten() for value in small_net(4, 3, seed=43).parameters()])
    assert torch.equal(first[3], fresh)
    assert not torch.equal(first[1], first[2])
    assert trainer.method.bias.abs().min() > 0, "parameters outside the network are trained"


def test_on_stage_start_sees_the_previous_and_the_best_weights() -> None:
    trainer = staged_trainer()
    trainer.run(do_nothing, do_nothing)
    starts = trainer.method.starts
    assert [name for name, _, _ in starts] == ["two", "three", "four"]
    without = staged_trainer(validation=False)
    without.run(do_nothing, do_nothing)
    assert without.stages.best is None
    for _, current, best in without.method.starts:
        assert torch.equal(current, best), "without validation rows, the best weights are the last"


@pytest.mark.parametrize("steps", [1, 4, 8, 9, 12, 13, 16, 17, 20])
def test_stages_resume_from_any_step(steps: int, tmp_path: Path) -> None:
    uninterrupted = staged_trainer()
    run_steps(uninterrupted, 22)
    first = staged_trainer()
    run_steps(first, steps)
    path = save_state(tmp_path / "state.safetensors", first.state_dict())
    second = staged_trainer()
    second.load_state_dict(load_state(path))
    run_steps(second, 22 - steps)
    assert equal_states(uninterrupted.state_dict(), second.state_dict())


def test_interrupted_run_with_stages_ends_in_the_same_bits(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"epochs": 6, "overrides": {"optimizer.lr": 0.01, "training.batch_size": 16}}
    uninterrupted = train(points(), Staged, out=tmp_path / "uninterrupted", **settings)
    for steps in (7, 9, 1):
        train(points(), Staged, out=tmp_path / "run", callbacks=[StopAfter(steps)], **settings)
    assert run_bytes(train(points(), Staged, out=tmp_path / "run", **settings).folder) == run_bytes(
        uninterrupted.folder
    )


class Short(Method):
    """Stages that do not sum to the epochs."""

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        return (Stage("one", epochs - 1),)


def test_stages_must_sum_to_the_epochs(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="do not sum to 6 epochs"):
        train(points(), Short, epochs=6, out=tmp_path / "run")
    with pytest.raises(ValueError, match="4 stages need at least 4 epochs, got 3"):
        train(points(), Staged, epochs=3, out=tmp_path / "run")


def test_beta1_changes_at_the_first_milestone() -> None:
    trainer = build_trainer("ce", points(), epochs=5)
    trainer.stages._optimizer = {"name": "adam", "lr": 0.01}
    trainer.stages._schedule = {"kind": "linear", "milestones": (0.4,), "beta1": 0.1}
    trainer.stages._build_optimizers()
    rates = []
    for _ in trainer.each_epoch():
        group = trainer.optimizers["net"].param_groups[0]
        rates.append((round(group["lr"], 6), group["betas"]))
    early, late = (0.9, 0.999), (0.1, 0.999)
    assert rates == [(0.01, early), (0.01, early), (0.01, late), (0.006667, late), (0.003333, late)]
