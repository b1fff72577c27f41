"""SELC: turning point, label updates, and retraining of SELC+."""

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from permll.data import Batch
from permll.data.transforms import mixup
from permll.methods import METHODS
from permll.methods.selc import SELC, SELCPlus
from permll.training.trainer import Trainer
from tests.helpers.method_training import loss_names, noisy_points
from tests.helpers.toy_training import build_trainer, do_nothing, points

ALPHA = 0.9


class ConstantNetwork(nn.Module):
    """Network with constant logits."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits)

    def forward(self, x: Tensor) -> Tensor:
        return self.logits.expand(len(x), -1)


def given_labels(trainer: Trainer) -> Tensor:
    return nn.functional.one_hot(trainer.data.labels, trainer.data.num_classes).float()


# Turning point


def test_selc_fixed_turning_point_has_no_rehearsal() -> None:
    trainer = build_trainer("selc", points(), {"turning_point": 3}, epochs=6)
    assert [stage.name for stage in trainer.stages.plan] == ["correct"]
    assert loss_names(trainer, 6) == ["loss"] * 3 + ["corrected_loss"] * 3
    assert trainer.method.resolved_params() == {"start": 3}
    fraction = build_trainer("selc", points(), {"turning_point": 0.5}, epochs=6)
    assert loss_names(fraction, 6) == ["loss"] * 3 + ["corrected_loss"] * 3
    late = build_trainer("selc", points(), {"turning_point": 40}, epochs=6)
    assert loss_names(late, 6) == ["loss"] * 5 + ["corrected_loss"], "a shorter run corrects in its last epoch"


def test_selc_rehearsal_finds_turning_point() -> None:
    """The gap between the synthetic losses of correct and wrong labels is largest in epoch 4."""
    trainer = build_trainer("selc", points(), {"rehearsal": 6, "start_before": 2}, epochs=20)
    method = trainer.method
    assert isinstance(method, SELC)
    right = torch.rand(60) < 0.6
    gaps = [0.5, 1.0, 2.0, 4.0, 2.5, 1.0]
    for epoch, gap in enumerate(gaps):
        assert loss_names(trainer, epoch + 1)[-1] == "loss"
        method.losses.write(torch.arange(60), 0.5 * torch.rand(60) + torch.where(right, 0.0, gap))
        method.on_epoch_end(epoch, trainer.predict_logits)
    assert method.distances.argsort().tolist()[-3:] == [2, 4, 3]
    method.on_stage_start(trainer.stages.plan[1], trainer.predict_logits)
    assert method.resolved_params() == {"turning_point": 4, "start": 2}
    assert loss_names(trainer, 20) == ["loss"] * (6 + 2) + ["corrected_loss"] * 12
    method.losses.write(torch.arange(60), torch.full((60,), 9.0))
    method.on_epoch_end(6, trainer.predict_logits)
    assert len(method.distances) == 6, "nothing is recorded after the rehearsal"


def test_selc_equal_losses_give_no_turning_point() -> None:
    trainer = build_trainer("selc", points(), {"rehearsal": 2}, epochs=6)
    trainer.method.on_epoch_end(0, trainer.predict_logits)
    assert torch.equal(trainer.method.distances, torch.zeros(2))
    trainer.method.on_stage_start(trainer.stages.plan[1], trainer.predict_logits)
    assert trainer.method.resolved_params() == {"turning_point": 1, "start": 1}


def test_selc_restarts_after_rehearsal() -> None:
    trainer = build_trainer("selc", points(), {"rehearsal": 2}, epochs=6)
    initial = copy.deepcopy(trainer.method.networks["net"].state_dict())
    rates, initial_states = [], {}
    train_step = trainer._train_step

    def recording_step(train_pass: Any, batches: Any) -> None:
        if trainer.stages.number not in initial_states:
            initial_states[trainer.stages.number] = copy.deepcopy(trainer.method.networks["net"].state_dict())
        train_step(train_pass, batches)
        rates.append(trainer.optimizers["net"].param_groups[0]["lr"])

    trainer._train_step = recording_step  # type: ignore[method-assign]
    trainer.run(do_nothing, do_nothing)
    for key, value in initial.items():
        assert torch.equal(initial_states[1][key], value)
    assert rates[:: trainer.steps_per_epoch] == pytest.approx([0.05, 0.05, 0.05, 0.05, 0.005, 0.005])


@pytest.mark.parametrize("epochs", [2, 3, 5])
def test_selc_short_runs_finish(epochs: int) -> None:
    trainer = build_trainer("selc", points(), epochs=epochs)
    trainer.run(do_nothing, do_nothing)
    assert trainer.epoch == epochs


# Label updates


def test_selc_labels_are_constant_before_correction() -> None:
    trainer = build_trainer("selc", points(), {"turning_point": 2}, epochs=4)
    for _ in trainer.each_epoch():
        if trainer.epoch <= 2:
            assert torch.equal(trainer.method.corrected_labels(trainer.predict_logits), given_labels(trainer))
    assert not torch.equal(trainer.method.corrected_labels(trainer.predict_logits), given_labels(trainer))


def test_selc_training_matches_manual_steps() -> None:
    """Two epochs of cross-entropy and two of correction."""
    trainer = build_trainer("selc", points(), {"turning_point": 2, "alpha": ALPHA}, epochs=4)
    net, random = copy.deepcopy(trainer.method.networks["net"]), torch.get_rng_state()
    visits: list[tuple[str, Batch, float]] = []
    train_step = trainer._train_step

    def recording_step(train_pass: Any, batches: Any) -> None:
        train_step(train_pass, batches)
        visits.append((train_pass.loss, batches["batch"], trainer.optimizers["net"].param_groups[0]["lr"]))

    trainer._train_step = recording_step  # type: ignore[method-assign]
    trainer.run(do_nothing, do_nothing)

    torch.set_rng_state(random)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    net.train()
    t = given_labels(trainer)
    for step, (_, batch, lr) in enumerate(visits):
        optimizer.param_groups[0]["lr"] = lr
        log_p = net(batch.x).log_softmax(1)
        if step < 2 * trainer.steps_per_epoch:
            loss = -log_p[torch.arange(len(batch.index)), batch.labels].mean()
        else:
            for position, sample in enumerate(batch.index.tolist()):
                t[sample] = ALPHA * t[sample] + (1 - ALPHA) * log_p[position].detach().exp()
            loss = -(t[batch.index] * log_p).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    steps = 2 * trainer.steps_per_epoch
    assert [name for name, _, _ in visits] == ["loss"] * steps + ["corrected_loss"] * steps
    torch.testing.assert_close(trainer.method.corrected_labels(trainer.predict_logits), t)
    for ours, plain in zip(trainer.method.networks["net"].parameters(), net.parameters(), strict=True):
        torch.testing.assert_close(ours, plain)


def test_selc_updates_repeated_samples() -> None:
    trainer = build_trainer("selc", points(), {"turning_point": 1, "alpha": 0.5}, epochs=4)
    method = trainer.method
    method.networks["net"] = nn.Linear(4, 3)
    index, x = torch.tensor([7, 3, 7, 7]), torch.randn(4, 4)
    t = given_labels(trainer)
    p = method.networks["net"](x).detach().softmax(1)
    expected = []
    for position, sample in enumerate(index.tolist()):
        t[sample] = (t[sample] + p[position]) / 2
        expected.append(-(t[sample] * p[position].log()).sum().item())
    actual = method.corrected_loss(Batch(index, trainer.data.labels[index], {"weak": x}, index))
    torch.testing.assert_close(actual, torch.tensor(expected))
    torch.testing.assert_close(method.corrected_labels(trainer.predict_logits), t)


def test_selc_contradicted_label_decays() -> None:
    trainer = build_trainer("selc", points(), {"turning_point": 1, "alpha": ALPHA}, epochs=4)
    trainer.method.networks["net"] = ConstantNetwork(torch.tensor([0.0, 0.0, 99.0]))
    index = torch.tensor([0, 1])  # of classes 0 and 1
    for visits in range(1, 9):
        trainer.method.corrected_loss(Batch(index, trainer.data.labels[index], {"weak": torch.zeros(2, 4)}, index))
        quality = trainer.method.label_quality(trainer.predict_logits)
        assert quality[:2].tolist() == pytest.approx([ALPHA**visits] * 2)
    assert quality[2:].tolist() == [1.0] * 58
    assert trainer.method.metrics() == {"corrected": pytest.approx(2 / 60)}, "0.9^7 < 1/2"


@pytest.mark.parametrize("name", ["selc", "selc_plus"])
def test_selc_corrects_wrong_labels(name: str) -> None:
    data, wrong = noisy_points()
    trainer = build_trainer(name, data, {"alpha": 0.7}, epochs=24)
    trainer.run(do_nothing, do_nothing)
    right = trainer.method.corrected_labels(trainer.predict_logits).argmax(1) == points(240).labels
    assert right.float().mean() > 0.9
    quality = trainer.method.label_quality(trainer.predict_logits)
    assert quality[~wrong].mean() > quality[wrong].mean() + 0.15
    assert (trainer.predict(data).argmax(1) == points(240).labels).float().mean() > 0.9


# SELC+


def test_selc_plus_retrains_on_corrected_labels() -> None:
    settings = {"rehearsal": 2, "correction": 4, "start_before": 0}
    trainer = build_trainer("selc_plus", points(), settings, epochs=10)
    assert [(s.name, s.epochs, s.weights) for s in trainer.stages.plan] == [
        ("rehearse", 2, "last"),
        ("correct", 4, "initial"),
        ("retrain", 4, "fresh"),
    ]
    target = Tensor()
    for _ in trainer.each_epoch():
        if trainer.epoch == 6:
            target = trainer.method.corrected_labels(trainer.predict_logits).clone()
    assert not torch.equal(target, given_labels(trainer))
    assert torch.equal(trainer.method.corrected_labels(trainer.predict_logits), target), (
        "the new network does not change the labels"
    )
    start = 2 + trainer.method.resolved_params()["start"]
    assert loss_names(trainer, 10) == ["loss"] * start + ["corrected_loss"] * (6 - start) + ["retrain_loss"] * 4
    fixed = build_trainer("selc_plus", points(), {**settings, "turning_point": 1}, epochs=10)
    assert loss_names(fixed, 10) == ["loss"] + ["corrected_loss"] * 3 + ["retrain_loss"] * 6


def test_selc_plus_retrain_loss_matches_loops() -> None:
    trainer = build_trainer("selc_plus", points(), {"turning_point": 1, "mixup": 2.0}, epochs=6)
    method = trainer.method
    assert isinstance(method, SELCPlus)
    method.networks["net"] = nn.Linear(4, 3)
    method.target.values.copy_(torch.rand(60, 3))
    index, x, keys = torch.tensor([5, 9, 30, 2]), torch.randn(4, 4), torch.arange(4)
    corrected = method.target.values.argmax(1)
    assert bool((corrected[index] != trainer.data.labels[index]).any())
    mix = mixup(keys, 2.0)
    fraction = mix.lam[0].item()
    actual = method.retrain_loss(Batch(index, trainer.data.labels[index], {"weak": x}, keys))
    for i, j in enumerate(mix.partner.tolist()):
        p = method.networks["net"](fraction * x[i] + (1 - fraction) * x[j]).softmax(0).tolist()
        loss = -fraction * math.log(p[corrected[index[i]]]) - (1 - fraction) * math.log(p[corrected[index[j]]])
        assert actual[i].item() == pytest.approx(loss, rel=1e-5)


def test_selc_plus_rejects_too_few_epochs() -> None:
    with pytest.raises(ValueError, match="3 stages need at least 3 epochs"):
        build_trainer("selc_plus", points(), epochs=2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 1.0}, "alpha must lie in"),
        ({"start_before": -1}, "must lie"),
        ({"turning_point": -1}, "must lie"),
        ({"mixup": 0}, "mixup must lie"),
    ],
)
def test_selc_rejects_invalid_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        METHODS["selc_plus"].build(**settings)
