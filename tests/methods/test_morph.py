"""MORPH: recorded state, phases, safe set, and both losses."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from permll import functional
from permll.data import Batch
from permll.functional.morph import noise_rate_from_loss_areas
from permll.functional.schedules import sigmoid_rampup
from permll.methods import METHODS
from permll.methods.morph import MORPH
from permll.training.trainer import Trainer
from tests.helpers.method_training import noisy_points
from tests.helpers.toy_training import build_trainer, do_nothing, points, run_steps


def linear_method(**settings: Any) -> tuple[Trainer, MORPH, Batch]:
    """Return a method with a linear network and histories of three visits, and a batch with two views."""
    trainer = build_trainer("morph", points(), {"history": 3, **settings}, epochs=12)
    method = trainer.method
    assert isinstance(method, MORPH)
    torch.manual_seed(3)
    method.networks["net"] = nn.Linear(4, 3)
    index = torch.tensor([5, 9, 30, 2, 11, 17])
    views = {"weak": torch.randn(6, 4), "weak:2": torch.randn(6, 4)}
    return trainer, method, Batch(index, trainer.data.labels[index], views, index)


def probabilities_of(method: MORPH, x: Tensor) -> list[list[float]]:
    with torch.no_grad():
        probabilities: list[list[float]] = method.networks["net"](x).softmax(1).tolist()
    return probabilities


def fill_histories(method: MORPH, fraction: float) -> None:
    """Fill the histories so that this fraction of the samples is memorized."""
    labels = method.histories.labels
    memorized_mask = torch.arange(len(labels)) < round(fraction * len(labels))
    predicted = torch.where(memorized_mask, labels, (labels + 1) % 3)
    method.histories.values.copy_(predicted[:, None].expand(-1, method.histories.values.shape[1]))


# State


def test_morph_records_losses_and_predictions() -> None:
    _, method, batch = linear_method()
    one = Batch(batch.index, batch.labels, {"weak": batch.views["weak"]}, batch.keys)
    p = probabilities_of(method, one.x)
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


def test_morph_records_repeated_samples() -> None:
    _, method, batch = linear_method()
    twice = Batch(batch.index[[0, 1, 0]], batch.labels[[0, 1, 0]], {"weak": torch.randn(3, 4)}, torch.arange(3))
    losses = method.loss(twice)
    assert method.areas.values[5].item() == pytest.approx((losses[0] + losses[2]).item(), rel=1e-5)
    p = probabilities_of(method, twice.x)
    assert method.histories.values[5].tolist() == [-1, p[0].index(max(p[0])), p[2].index(max(p[2]))]


# Phases


def test_morph_first_phase_ends_by_memorized_samples() -> None:
    _, method, _ = linear_method()
    areas = torch.cat([torch.rand(45), 8 + torch.rand(15)])
    method.areas.values.copy_(areas)
    rate = noise_rate_from_loss_areas(areas)
    assert rate == pytest.approx(0.25, abs=0.01)

    def end(epoch: int, fraction: float) -> bool:
        fill_histories(method, fraction)
        method.on_epoch_end(epoch, torch.zeros)
        return int(method.second_phase) < 12

    assert not end(1, 1.0), "not before the histories are full"
    assert not end(2, 0.7)
    assert method.rate.item() == pytest.approx(rate)
    assert method.safe.values.all()
    assert end(3, 0.76)
    assert int(method.second_phase) == 4
    assert method.resolved_params() == {"noise_rate": pytest.approx(rate, abs=1e-4), "first_phase": 4}
    assert int(method.safe.values.sum()) == 46
    method.areas.values.zero_()
    fill_histories(method, 0.2)
    method.on_epoch_end(4, torch.zeros)
    assert int(method.second_phase) == 4, "it ends only once"
    assert int(method.safe.values.sum()) == 46


def test_morph_first_phase_may_last_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functional, "is_memorized", lambda histories, _: torch.zeros(len(histories)).bool())
    trainer = build_trainer("morph", points(), {"history": 1}, epochs=5)
    losses: list[str] = []
    trainer.run(lambda trainer: losses.append(trainer._pass.loss), do_nothing)
    assert set(losses) == {"loss"}
    assert trainer.method.resolved_params()["first_phase"] == 5


def test_morph_equal_losses_give_no_rate() -> None:
    _, method, _ = linear_method()
    fill_histories(method, 0.99)
    method.on_epoch_end(5, torch.zeros)
    assert method.rate.item() == 0.0
    assert int(method.second_phase) == 12


def test_morph_passes_of_each_phase() -> None:
    def pass_of(method: MORPH, epoch: int) -> tuple[str, tuple[str, ...], float]:
        train_pass = method.train_pass(epoch, 0, torch.zeros)
        assert train_pass is not None
        assert method.train_pass(epoch, 1, torch.zeros) is None
        return train_pass.loss, train_pass.streams["batch"].views, method.consistency.item()

    _, method, _ = linear_method(weight=4.0, ramp=5)
    assert pass_of(method, 3) == ("loss", ("weak",), 0.0)
    method.second_phase.fill_(4)
    for epoch in (4, 6, 9, 11):
        assert pass_of(method, epoch) == (
            "safe_loss",
            ("weak", "weak:2"),
            pytest.approx(4 * sigmoid_rampup((epoch - 4) / 5)),
        )
    _, strong, _ = linear_method(weight=4.0, ramp=0, consistency_view="strong")
    strong.second_phase.fill_(4)
    assert pass_of(strong, 4) == ("safe_loss", ("weak", "strong"), 4.0)
    _, unweighted, _ = linear_method(weight=0.0)
    unweighted.second_phase.fill_(4)
    assert pass_of(unweighted, 4) == ("safe_loss", ("weak",), 0.0)


# Second phase


@pytest.mark.parametrize("safe", [[True, False, True, True, False, False], [False] * 6])
def test_morph_safe_loss_matches_loops(safe: list[bool]) -> None:
    _, method, batch = linear_method()
    method.safe.write(batch.index, torch.tensor(safe))
    method.consistency.fill_(2.5)
    p, q = (probabilities_of(method, batch.views[view]) for view in ("weak", "weak:2"))
    actual = method.safe_loss(batch)
    for i, y in enumerate(batch.labels.tolist()):
        loss = -math.log(p[i][y]) * 6 / sum(safe) if safe[i] else 0.0
        loss += 2.5 * sum((a - b) ** 2 for a, b in zip(p[i], q[i], strict=True))
        assert actual[i].item() == pytest.approx(loss, rel=1e-4)
    assert not method.areas.values.any()


def test_morph_visits_update_safe_set() -> None:
    _, method, batch = linear_method(weight=0.0)
    one = Batch(batch.index, batch.labels, {"weak": batch.views["weak"]}, batch.keys)
    predicted = torch.tensor([row.index(max(row)) for row in probabilities_of(method, one.x)])
    right, labels = predicted == batch.labels, batch.labels
    assert right.any()
    assert not right.all()
    # The history has one prediction of the given label and one of another, so this visit decides.
    method.histories.write(batch.index, torch.stack([torch.full((6,), -1), labels, (labels + 1) % 3], 1))
    method.safe.write(batch.index, ~right)
    before = method.safe.values.clone()
    loss = method.safe_loss(one)
    assert (loss.detach() > 0).tolist() == (~right).tolist(), "by the previous safe set"
    assert method.safe.read(batch.index).tolist() == right.tolist()
    before[batch.index] = right
    assert torch.equal(method.safe.values, before)


def test_morph_unsafe_samples_have_no_gradient() -> None:
    _, method, batch = linear_method()
    method.safe.write(batch.index, torch.zeros(6, dtype=torch.bool))
    actual = torch.autograd.grad(method.safe_loss(batch).mean(), list(method.networks.parameters()))
    assert all(not gradient.any() for gradient in actual), "J has no weight initially"


# Training


def test_morph_corrected_labels_are_votes() -> None:
    trainer, method, _ = linear_method()
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


def test_morph_run_corrects_wrong_labels() -> None:
    data, wrong = noisy_points()
    trainer = build_trainer("morph", data, {"history": 3}, epochs=24)
    run_steps(trainer, 1)
    assert trainer.method.metrics()["safe"] == 1.0
    trainer.run(do_nothing, do_nothing)
    assert 3 <= trainer.method.resolved_params()["first_phase"] < 12
    assert 0.2 < trainer.method.rate.item() < 0.5
    safe = trainer.method.safe.values
    assert wrong[safe].float().mean() < wrong.float().mean() / 2
    truth = points(240).labels
    corrected = (trainer.method.corrected_labels(trainer.predict_logits).argmax(1) == truth).float().mean()
    quality = trainer.method.label_quality(trainer.predict_logits)
    assert corrected > (~wrong).float().mean() + 0.1
    assert quality[~wrong].mean() > quality[wrong].mean() + 0.3
    assert (trainer.predict(data).argmax(1) == truth).float().mean() > 0.9


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"history": 0}, "history must lie"),
        ({"weight": -1}, "weight must lie"),
        ({"ramp": -1}, "ramp must lie"),
        ({"consistency_view": "plain"}, "the setting consistency_view of morph"),
    ],
)
def test_morph_rejects_invalid_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        METHODS["morph"].build(**settings)
