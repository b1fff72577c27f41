"""Stages: what each begins with, what the method sees before it, and that an interruption changes nothing."""

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
from tests.helpers.toy_training import StopAfter, build_trainer, files, points, small_net
from tests.methods.test_contract import run_steps, same


class Staged(CrossEntropy):
    """Four stages, one for each beginning, and a matrix that is learned beside the network."""

    keeps_best = True

    def on_fit_start(self, info: FitInfo) -> None:
        super().on_fit_start(info)
        self.bias = nn.Parameter(torch.zeros(info.num_classes))
        self.register_buffer("seen", torch.zeros(4, info.num_samples, info.num_classes))
        self.began: list[tuple[str, Tensor, Tensor]] = []

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        one, two, three, four = divide_epochs(epochs, 2, 1, 1)
        return (
            Stage("one", one),
            Stage("two", two, "best", optimizer={"lr": 0.5}, schedule={"kind": "constant"}),
            Stage("three", three, "initial", optimizer={"name": "adam", "lr": 0.01}),
            Stage("four", four, "fresh"),
        )

    def on_stage_start(self, stage: Stage, predict_logits: PredictLogits) -> None:
        self.began.append((stage.name, predict_logits(), predict_logits(best=True)))
        self.seen: Tensor
        self.seen[["one", "two", "three", "four"].index(stage.name)] = predict_logits()

    def loss(self, batch: Batch) -> Tensor:
        logits = self.networks["net"](batch.x) + self.bias
        return nn.functional.cross_entropy(logits, batch.labels, reduction="none")


def staged_loop(validation: bool = True) -> Trainer:
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


def test_every_stage_begins_with_the_weights_and_rates_it_asked_for() -> None:
    trainer = staged_loop()
    initial = weights(trainer)
    scores: list[float] = []
    rates, kinds, begun, ends = [], [], {}, [initial]

    def before_training(number: int) -> None:
        begun.setdefault(number, weights(trainer))

    real = trainer._train_step

    def watched(train_pass: Any, batches: Any) -> None:
        before_training(trainer.stages.number)
        real(train_pass, batches)
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
    assert torch.equal(begun[1], ends[best])
    assert torch.equal(begun[2], initial)
    fresh = torch.cat([value.flatten() for value in small_net(4, 3, seed=43).parameters()])
    assert torch.equal(begun[3], fresh)
    assert not torch.equal(begun[1], begun[2])
    assert trainer.method.bias.abs().min() > 0, "parameters of the method's own are trained too"


def test_the_method_sees_the_stage_before_and_its_best_weights() -> None:
    trainer = staged_loop()
    trainer.run(lambda _: None, lambda _: None)
    began = trainer.method.began
    assert [name for name, _, _ in began] == ["two", "three", "four"]
    without = staged_loop(validation=False)
    without.run(lambda _: None, lambda _: None)
    assert without.stages.best is None
    for _, present, best in without.method.began:
        assert torch.equal(present, best), "nothing to choose by: the best are the last"


@pytest.mark.parametrize("steps", [1, 4, 8, 9, 12, 13, 16, 17, 20])
def test_interrupted_in_any_stage_it_goes_on_as_if_nothing_had_happened(steps: int, tmp_path: Path) -> None:
    whole = staged_loop()
    run_steps(whole, 22)
    first = staged_loop()
    run_steps(first, steps)
    path = save_state(tmp_path / "state.safetensors", first.state_dict())
    second = staged_loop()
    second.load_state_dict(load_state(path))
    run_steps(second, 22 - steps)
    assert same(whole.state_dict(), second.state_dict())


def test_stages_of_a_run_survive_an_interruption(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"epochs": 6, "overrides": {"optimizer.lr": 0.01, "training.batch_size": 16}}
    whole = train(points(), Staged, out=tmp_path / "whole", **settings)
    for steps in (7, 9, 1):
        train(points(), Staged, out=tmp_path / "run", callbacks=[StopAfter(steps)], **settings)
    assert files(train(points(), Staged, out=tmp_path / "run", **settings).folder) == files(whole.folder)


class Short(Method):
    """Stages that do not fill the epochs."""

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        return (Stage("one", epochs - 1),)


def test_stages_must_fill_the_epochs(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="do not sum to 6 epochs"):
        train(points(), Short, epochs=6, out=tmp_path / "run")
    with pytest.raises(ValueError, match="4 stages need as many epochs or more, got 3"):
        train(points(), Staged, epochs=3, out=tmp_path / "run")


def test_adams_first_decay_rate_changes_with_the_learning_rate() -> None:
    trainer = build_trainer("ce", points(), epochs=5)
    trainer.stages._optimizer = {"name": "adam", "lr": 0.01}
    trainer.stages._schedule = {"kind": "linear", "milestones": (0.4,), "beta1": 0.1}
    trainer.stages._equip()
    found = []
    for _ in trainer.each_epoch():
        group = trainer.optimizers["net"].param_groups[0]
        found.append((round(group["lr"], 6), group["betas"]))
    early, late = (0.9, 0.999), (0.1, 0.999)
    assert found == [(0.01, early), (0.01, early), (0.01, late), (0.006667, late), (0.003333, late)]
