"""MORPH: what is remembered, when the first phase ends, who is safe then, and both losses by loops."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from permll.data import Batch
from permll.functional.morph import noise_rate_from_loss_areas
from permll.functional.schedules import sigmoid_rampup
from permll.methods import METHODS, morph
from permll.methods.morph import MORPH
from permll.training.trainer import Trainer
from tests.helpers.toy_training import build_trainer, points
from tests.methods.test_contract import idle, run_steps
from tests.methods.test_selc import noisy_points


def linear(**settings: Any) -> tuple[Trainer, MORPH, Batch]:
    """Return a method with a linear network and histories of three visits, and a batch with two views."""
    trainer = build_trainer("morph", points(), {"history": 3, **settings}, epochs=12)
    method = trainer.method
    assert isinstance(method, MORPH)
    torch.manual_seed(3)
    method.networks["net"] = nn.Linear(4, 3)
    index = torch.tensor([5, 9, 30, 2, 11, 17])
    views = {"weak": torch.randn(6, 4), "weak:2": torch.randn(6, 4)}
    return trainer, method, Batch(index, trainer.data.labels[index], views, index)


def predicted(method: MORPH, x: Tensor) -> list[list[float]]:
    with torch.no_grad():
        found: list[list[float]] = method.networks["net"](x).softmax(1).tolist()
    return found


def fill(method: MORPH, share: float) -> None:
    """Give histories in which so many samples are memorised."""
    labels = method.histories.labels
    known = torch.arange(len(labels)) < round(share * len(labels))
    seen = torch.where(known, labels, (labels + 1) % 3)
    method.histories.values.copy_(seen[:, None].expand(-1, method.histories.values.shape[1]))


# --- Memory --------------------------------------------------------------------------------------------------------


def test_every_visit_is_remembered() -> None:
    _, method, batch = linear()
    one = Batch(batch.index, batch.labels, {"weak": batch.views["weak"]}, batch.keys)
    p = predicted(method, one.x)
    losses = [-math.log(row[y]) for row, y in zip(p, batch.labels.tolist(), strict=True)]
    assert method.loss(one).tolist() == pytest.approx(losses, rel=1e-5)
    method.loss(one)
    assert method.areas.read(batch.index).tolist() == pytest.approx([2 * loss for loss in losses], rel=1e-5)
    best = [row.index(max(row)) for row in p]
    assert method.histories.read(batch.index).tolist() == [[-1, k, k] for k in best]
    outside = torch.ones(60, dtype=torch.bool)
    outside[batch.index] = False
    assert not method.areas.values[outside].any()
    assert (method.histories.values[outside] == -1).all()


def test_a_sample_that_comes_twice_is_remembered_twice() -> None:
    _, method, batch = linear()
    twice = Batch(batch.index[[0, 1, 0]], batch.labels[[0, 1, 0]], {"weak": torch.randn(3, 4)}, torch.arange(3))
    losses = method.loss(twice)
    assert method.areas.values[5].item() == pytest.approx((losses[0] + losses[2]).item(), rel=1e-5)
    p = predicted(method, twice.x)
    assert method.histories.values[5].tolist() == [-1, p[0].index(max(p[0])), p[2].index(max(p[2]))]


# --- Phases --------------------------------------------------------------------------------------------------------


def test_the_first_phase_ends_when_as_many_are_memorised_as_labels_are_right() -> None:
    _, method, _ = linear()
    areas = torch.cat([torch.rand(45), 8 + torch.rand(15)])
    method.areas.values.copy_(areas)
    rate = noise_rate_from_loss_areas(areas)
    assert rate == pytest.approx(0.25, abs=0.01)

    def end(epoch: int, share: float) -> bool:
        fill(method, share)
        method.on_epoch_end(epoch, torch.zeros)
        return int(method.begin) < 12

    assert not end(1, 1.0), "not before histories are full"
    assert not end(2, 0.7)
    assert method.rate.item() == pytest.approx(rate)
    assert method.safe.values.all()
    assert end(3, 0.76)
    assert int(method.begin) == 4
    assert method.resolved_params() == {"noise_rate": pytest.approx(rate, abs=1e-4), "first_phase": 4}
    assert int(method.safe.values.sum()) == 46
    method.areas.values.zero_()
    fill(method, 0.2)
    method.on_epoch_end(4, torch.zeros)
    assert int(method.begin) == 4, "it ends once"
    assert int(method.safe.values.sum()) == 46


def test_a_phase_whose_end_never_comes_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(morph, "is_memorized", lambda histories, _: torch.zeros(len(histories)).bool())
    trainer = build_trainer("morph", points(), {"history": 1}, epochs=5)
    losses: list[str] = []
    trainer.run(lambda trainer: losses.append(trainer._sweep.loss), idle)
    assert set(losses) == {"loss"}
    assert trainer.method.resolved_params()["first_phase"] == 5


def test_losses_that_are_all_alike_tell_no_rate() -> None:
    _, method, _ = linear()
    fill(method, 0.99)
    method.on_epoch_end(5, torch.zeros)
    assert method.rate.item() == 0.0
    assert int(method.begin) == 12


def test_an_epoch_has_the_loss_and_the_views_of_its_phase() -> None:
    def asked(method: MORPH, epoch: int) -> tuple[str, tuple[str, ...], float]:
        train_pass = method.train_pass(epoch, 0, torch.zeros)
        assert train_pass is not None
        assert method.train_pass(epoch, 1, torch.zeros) is None
        return train_pass.loss, train_pass.streams["batch"].views, method.consistency.item()

    _, method, _ = linear(weight=4.0, ramp=5)
    assert asked(method, 3) == ("loss", ("weak",), 0.0)
    method.begin.fill_(4)
    for epoch in (4, 6, 9, 11):
        assert asked(method, epoch) == (
            "evolve",
            ("weak", "weak:2"),
            pytest.approx(4 * sigmoid_rampup((epoch - 4) / 5)),
        )
    _, strong, _ = linear(weight=4.0, ramp=0, against="strong")
    strong.begin.fill_(4)
    assert asked(strong, 4) == ("evolve", ("weak", "strong"), 4.0)
    _, without, _ = linear(weight=0.0)
    without.begin.fill_(4)
    assert asked(without, 4) == ("evolve", ("weak",), 0.0)


# --- The second phase ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("safe", [[True, False, True, True, False, False], [False] * 6])
def test_the_loss_is_what_loops_make(safe: list[bool]) -> None:
    _, method, batch = linear()
    method.safe.write(batch.index, torch.tensor(safe))
    method.consistency.fill_(2.5)
    p, q = (predicted(method, batch.views[view]) for view in ("weak", "weak:2"))
    found = method.evolve(batch)
    for i, y in enumerate(batch.labels.tolist()):
        loss = -math.log(p[i][y]) * 6 / sum(safe) if safe[i] else 0.0
        loss += 2.5 * sum((a - b) ** 2 for a, b in zip(p[i], q[i], strict=True))
        assert found[i].item() == pytest.approx(loss, rel=1e-4)
    assert not method.areas.values.any()


def test_visits_decide_who_is_safe() -> None:
    _, method, batch = linear(weight=0.0)
    one = Batch(batch.index, batch.labels, {"weak": batch.views["weak"]}, batch.keys)
    said = torch.tensor([row.index(max(row)) for row in predicted(method, one.x)])
    right, labels = said == batch.labels, batch.labels
    assert right.any()
    assert not right.all()
    # One prediction of the given label and one of another so far: this visit decides.
    method.histories.write(batch.index, torch.stack([torch.full((6,), -1), labels, (labels + 1) % 3], 1))
    method.safe.write(batch.index, ~right)
    before = method.safe.values.clone()
    loss = method.evolve(one)
    assert (loss.detach() > 0).tolist() == (~right).tolist(), "by what was safe before"
    assert method.safe.read(batch.index).tolist() == right.tolist()
    before[batch.index] = right
    assert torch.equal(method.safe.values, before)


def test_unsafe_labels_pull_nothing() -> None:
    _, method, batch = linear()
    method.safe.write(batch.index, torch.zeros(6, dtype=torch.bool))
    found = torch.autograd.grad(method.evolve(batch).mean(), list(method.networks.parameters()))
    assert all(not gradient.any() for gradient in found), "and views are not compared with a weight of 0"


# --- All together --------------------------------------------------------------------------------------------------


def test_labels_are_the_votes_of_the_last_visits_and_the_present() -> None:
    trainer, method, _ = linear()
    method.histories.values[0] = torch.tensor([2, 1, 2])
    method.histories.values[1] = torch.tensor([-1, -1, 0])
    logits = torch.randn(60, 3)
    p = logits.softmax(1)
    corrected = method.corrected_labels(lambda _: logits)  # type: ignore[arg-type]
    torch.testing.assert_close(corrected[0], (p[0] + torch.tensor([0.0, 1.0, 2.0])) / 4)
    torch.testing.assert_close(corrected[1], (p[1] + torch.tensor([1.0, 0.0, 0.0])) / 2)
    torch.testing.assert_close(corrected[2:], p[2:])
    quality = method.label_quality(lambda _: logits)  # type: ignore[arg-type]
    torch.testing.assert_close(quality, corrected.gather(1, trainer.data.labels[:, None])[:, 0])


def test_both_phases_come_in_a_run() -> None:
    data, wrong = noisy_points()
    trainer = build_trainer("morph", data, {"history": 3}, epochs=24)
    run_steps(trainer, 1)
    assert trainer.method.metrics()["safe"] == 1.0
    trainer.run(idle, idle)
    assert 3 <= trainer.method.resolved_params()["first_phase"] < 12
    assert 0.2 < trainer.method.rate.item() < 0.5
    safe = trainer.method.safe.values
    assert wrong[safe].float().mean() < wrong.float().mean() / 2


def test_wrong_labels_are_found_and_corrected() -> None:
    data, wrong = noisy_points()
    trainer = build_trainer("morph", data, {"history": 3}, epochs=24)
    trainer.run(idle, idle)
    truth = points(240).labels
    corrected = (trainer.method.corrected_labels(trainer.predict_logits).argmax(1) == truth).float().mean()
    quality = trainer.method.label_quality(trainer.predict_logits)
    assert corrected > (~wrong).float().mean() + 0.1
    assert quality[~wrong].mean() > quality[wrong].mean() + 0.3
    assert (trainer.predict(data).argmax(1) == truth).float().mean() > 0.9


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"history": 0}, "history must be positive, got 0"),
        ({"weight": -1}, "weight and ramp must be 0 or more"),
        ({"ramp": -1}, "weight and ramp must be 0 or more"),
        ({"against": "plain"}, "the setting against of morph"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        METHODS["morph"].build(**settings)
