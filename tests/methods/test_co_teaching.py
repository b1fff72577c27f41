"""Co-teaching and Co-teaching+: selection, drop rate, and estimate of the noise rate."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import permll.methods._small_loss
from permll.data import Batch, LabeledData
from permll.methods import METHODS, _noise_tracking
from permll.training.trainer import Trainer
from tests.helpers.method_training import (
    loss_names,
    network_gradients,
    predictions_of,
    small_loss_positions,
    two_linear_networks,
)
from tests.helpers.toy_training import build_trainer, do_nothing, points

WITH_RATE = pytest.mark.parametrize("name", ["co_teaching", "co_teaching_plus", "jocor"])


def slow_loss(method: Any, batch: Batch, drop: float, candidates: list[int], min_fraction: float = 0.0) -> list[float]:
    """Return the loss of each sample, where each network uses the peer's selection."""
    labels = batch.labels.tolist()
    losses = [[-math.log(p[y]) for p, y in zip(rows, labels, strict=True)] for rows in predictions_of(method, batch)]
    selected = [small_loss_positions(one, drop, candidates) if candidates else set() for one in losses]
    size = len(labels)
    total = []
    for i in range(size):
        loss = 0.0
        for network, peer in ((0, 1), (1, 0)):
            if i in selected[peer]:
                loss += losses[network][i] * size / max(len(selected[peer]), min_fraction * size)
        total.append(loss)
    return total


# Loss


@pytest.mark.parametrize("drop", [0.0, 0.3, 0.75, 0.99])
def test_co_teaching_loss_matches_loops(drop: float) -> None:
    _, method, batch = two_linear_networks("co_teaching")
    method.drop.fill_(drop)
    actual = method.loss(batch)
    assert actual.tolist() == pytest.approx(slow_loss(method, batch, drop, list(range(12))), rel=1e-5)
    assert method.metrics()["kept"] == pytest.approx(max(math.floor((1 - drop) * 12 + 1e-4), 1) / 12)


def test_co_teaching_network_trains_on_peer_selection() -> None:
    _, method, batch = two_linear_networks("co_teaching")
    method.drop.fill_(0.5)
    actual = network_gradients(method, method.loss(batch).mean())
    networks = list(method.networks.values())
    each = [nn.functional.cross_entropy(network(batch.x), batch.labels, reduction="none") for network in networks]
    selected = [losses.argsort()[:6] for losses in each]
    assert set(selected[0].tolist()) != set(selected[1].tolist())
    expected: list[Tensor] = []
    for network, losses, rows in zip(networks, each, reversed(selected), strict=True):
        expected += list(torch.autograd.grad(losses[rows].mean(), list(network.parameters())))
    torch.testing.assert_close(actual, expected, msg="divided expected_once by the number of samples")


@pytest.mark.parametrize("min_fraction", [0.0, 0.5])
def test_co_teaching_plus_loss_matches_loops(min_fraction: float) -> None:
    _, method, batch = two_linear_networks("co_teaching_plus", {"min_fraction": min_fraction})
    method.drop.fill_(0.4)
    one, other = predictions_of(method, batch)
    candidates = [i for i in range(12) if one[i].index(max(one[i])) != other[i].index(max(other[i]))]
    assert len(candidates) >= 3
    actual = method.disagreement_loss(batch)
    assert actual.tolist() == pytest.approx(slow_loss(method, batch, 0.4, candidates, min_fraction), rel=1e-5)
    assert method.loss(batch).tolist() == pytest.approx(slow_loss(method, batch, 0.4, list(range(12))), rel=1e-5)


def test_co_teaching_plus_keeps_single_disagreement() -> None:
    """Sample 0, which the authors' code ignores."""
    _, method, batch = two_linear_networks("co_teaching_plus", {"min_fraction": 0.0})
    with torch.no_grad():
        for network, first in (("net0", 5.0), ("net1", -5.0)):
            linear = method.networks[network]
            linear.weight.zero_()
            linear.bias.copy_(torch.tensor([0.0, 1.0, -1.0]))
            linear.weight[0, 0] = first
        batch.x[:, 0] = 0.0
        batch.x[0, 0] = 1.0
    method.drop.fill_(0.9)
    loss = method.disagreement_loss(batch)
    assert loss.nonzero().flatten().tolist() == [0]
    assert method.visits.tolist() == [2, 24]
    small = 0.1 * 12
    method.min_fraction = 0.1
    assert method.disagreement_loss(batch)[0].item() == pytest.approx(loss[0].item() / small)


def test_co_teaching_plus_agreement_has_zero_gradient() -> None:
    _, method, batch = two_linear_networks("co_teaching_plus")
    method.networks["net1"].load_state_dict(method.networks["net0"].state_dict())
    loss = method.disagreement_loss(batch)
    assert loss.tolist() == [0.0] * 12
    assert all(not gradient.any() for gradient in network_gradients(method, loss.mean()))
    assert method.metrics()["kept"] == 0.0


def test_co_teaching_plus_double_softmax_matches_authors_code() -> None:
    _, method, batch = two_linear_networks(
        "co_teaching_plus", {"double_softmax": True, "min_fraction": 0.0, "noise_rate": 0.0}
    )
    one, other = (network(batch.x) for network in method.networks.values())
    rows = one.argmax(1) != other.argmax(1)
    expected = torch.zeros(12)
    for logits in (one, other):
        expected[rows] += nn.functional.cross_entropy(logits.softmax(1), batch.labels, reduction="none")[rows]
    torch.testing.assert_close(method.disagreement_loss(batch), expected * 12 / rows.sum())
    expected_once = sum(nn.functional.cross_entropy(logits, batch.labels, reduction="none") for logits in (one, other))
    torch.testing.assert_close(method.loss(batch), expected_once, msg="the warm-up uses logits")


# Schedule


def drop_rates(trainer: Trainer, epochs: int) -> list[float]:
    rates = []
    for epoch in range(epochs):
        trainer.method.train_pass(epoch, 0, trainer.predict_logits)
        rates.append(round(trainer.method.drop.item(), 4))
    return rates


@WITH_RATE
def test_small_loss_drop_rate_follows_schedule(name: str) -> None:
    trainer = build_trainer(name, points(), {"noise_rate": 0.4, "ramp": 4}, epochs=20)
    assert drop_rates(trainer, 6) == [0.0, 0.1, 0.2, 0.3, 0.4, 0.4]
    fraction = build_trainer(name, points(), {"noise_rate": 0.4, "ramp": 0.2, "schedule": "code"}, epochs=20)
    assert drop_rates(fraction, 6) == [0.0, 0.1333, 0.2667, 0.4, 0.4, 0.4]
    steep = build_trainer(name, points(), {"noise_rate": 0.4, "ramp": 4, "exponent": 2}, epochs=20)
    assert drop_rates(steep, 4) == [0.0, 0.1, 0.4, 0.4]
    short = build_trainer(name, points(), {"noise_rate": 0.4}, epochs=5)
    assert drop_rates(short, 5) == [0.0, 0.1333, 0.2667, 0.4, 0.4], "a fraction is at min_fraction three epochs"
    sudden = build_trainer(name, points(), {"noise_rate": 0.4, "ramp": 1}, epochs=5)
    assert drop_rates(sudden, 3) == [0.0, 0.4, 0.4]


def test_co_teaching_plus_starts_after_warm_up() -> None:
    trainer = build_trainer("co_teaching_plus", points(), {"warm_up": 0.25}, epochs=12)
    assert loss_names(trainer, 12) == ["loss"] * 3 + ["disagreement_loss"] * 9
    without_warm_up = build_trainer("co_teaching_plus", points(), {"warm_up": 0}, epochs=3)
    assert loss_names(without_warm_up, 3) == ["disagreement_loss"] * 3


# Noise rate


@WITH_RATE
def test_small_loss_estimates_rate_from_first_visits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It uses each sample's mean prediction over visits and networks, in training mode, before the step."""
    trainer = build_trainer(name, points(), {"ramp": 2}, epochs=6, held_out=False)
    outputs: list[tuple[Tensor, Tensor]] = []
    for network in trainer.method.networks.values():
        network.module.register_forward_hook(
            lambda module, _, out: outputs.append((current[0], out.detach().softmax(1))) if module.training else None
        )
    current: list[Tensor] = [torch.empty(0)]
    train_step = trainer._train_step

    def recording(train_pass: Any, batches: Any) -> None:
        current[0] = batches["batch"].index
        train_step(train_pass, batches)

    trainer._train_step = recording  # type: ignore[method-assign]
    estimates = iter([0.1, 0.3, 0.9, 0.9])
    means: list[Tensor] = []

    def estimate(logits: Tensor, labels: Tensor) -> float:
        assert torch.equal(labels, trainer.data.labels)
        means.append(logits.exp())
        return next(estimates)

    monkeypatch.setattr(permll.methods._small_loss, "conservative_noise_rate", estimate)
    recorded: list[tuple[float, float]] = []
    for _ in trainer.each_epoch():
        recorded.append((trainer.method.rate.item(), trainer.method.drop.item()))
        if trainer.epoch <= 2:
            total = torch.zeros(60, 3)
            for index, p in outputs:
                total.index_add_(0, index, p)
            torch.testing.assert_close(means[-1], total / total.sum(1, keepdim=True))
    assert len(means) == 2, "the estimate is fixed after the ramp"
    assert [pytest.approx(pair) for pair in recorded] == [
        (0.1, 0.0),
        (0.3, 0.05),
        (0.3, 0.3),
        (0.3, 0.3),
        (0.3, 0.3),
        (0.3, 0.3),
    ]
    assert trainer.method.resolved_params() == {"noise_rate": 0.3}
    assert trainer.method.metrics()["noise_rate"] == pytest.approx(0.3)


@WITH_RATE
def test_small_loss_estimates_rate_from_held_out_samples(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = build_trainer(name, points(), {"ramp": 2}, epochs=4)
    estimates = iter([0.1, 0.4, 0.4, 0.1])

    def estimate(logits: Tensor, labels: Tensor) -> float:
        assert trainer.validation is not None
        assert torch.equal(labels, trainer.validation.labels)
        p = torch.stack(
            [trainer.predict_logits(network, held_out=True).softmax(1) for network in ("net0", "net1")]
        ).mean(0)
        torch.testing.assert_close(logits.exp(), p)
        return next(estimates)

    monkeypatch.setattr(_noise_tracking, "conservative_noise_rate", estimate)
    recorded = [(trainer.method.rate.item(), trainer.method.drop.item()) for _ in trainer.each_epoch()]
    after = 0.2 + 0.2 / 3
    assert recorded == [
        pytest.approx(pair) for pair in [(0.1, 0.0), (0.2, 0.05), (after, 0.2), (after - (after - 0.1) / 3, after)]
    ]
    assert "predictions.values" not in trainer.method.extra_state()


@WITH_RATE
def test_small_loss_uses_given_rate(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> float:
        raise AssertionError("a given rate is not estimated")

    for module, function in (
        (permll.methods._small_loss, "conservative_noise_rate"),
        (_noise_tracking, "conservative_noise_rate"),
    ):
        monkeypatch.setattr(module, function, fail)
    trainer = build_trainer(name, points(), {"noise_rate": 0.25}, epochs=3)
    trainer.run(do_nothing, do_nothing)
    assert trainer.method.resolved_params() == {"noise_rate": 0.25}
    assert "predictions.values" not in trainer.method.extra_state()


def test_small_loss_bounds_estimated_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_noise_tracking, "conservative_noise_rate", lambda *_: 1.0)
    trainer = build_trainer("co_teaching", points(), epochs=3)
    trainer.run(do_nothing, do_nothing)
    assert trainer.method.rate.item() == pytest.approx(2 / 3)
    kept = math.floor((1 - trainer.method.drop.item()) * 16 + 1e-4)  # of each full batch
    assert kept > 1
    assert trainer.method.metrics()["kept"] == pytest.approx(kept / 16, abs=0.05)


def test_small_loss_estimate_ignores_unvisited_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = build_trainer("co_teaching", points(), epochs=3, held_out=False)
    trainer.method.train_pass(0, 0, trainer.predict_logits)
    recorded: list[int] = []
    monkeypatch.setattr(
        permll.methods._small_loss, "conservative_noise_rate", lambda logits, _: recorded.append(len(logits)) or 0.1
    )
    trainer.method.predictions.write(torch.arange(7), torch.rand(7, 3))
    trainer.method.on_epoch_end(0, trainer.predict_logits)
    assert recorded == [7]


# Training


def symmetric_noise(rows: int) -> tuple[LabeledData, Tensor]:
    """Return points of four classes with 30 % symmetric noise, and the mask of wrong labels.

    Under asymmetric noise small-loss selection can drop a whole class.
    """
    data, generator = points(rows, 4), torch.Generator().manual_seed(1)
    wrong = torch.rand(rows, generator=generator) < 0.3
    other = (data.labels + torch.randint(1, 4, (rows,), generator=generator)) % 4
    return data.relabel(torch.where(wrong, other, data.labels)), wrong


@pytest.mark.parametrize("rate", [0.3, None])
@pytest.mark.parametrize(("name", "settings"), [("co_teaching", {}), ("co_teaching_plus", {}), ("jocor", {"lam": 0.5})])
def test_small_loss_methods_correct_wrong_labels(name: str, settings: dict[str, Any], rate: float | None) -> None:
    every, noisy = symmetric_noise(360)
    data, held_out, wrong = every.take(range(240)), every.take(range(240, 360)), noisy[:240]
    trainer = build_trainer(name, data, {**settings, "noise_rate": rate}, epochs=24, held_out=held_out)
    trainer.run(do_nothing, do_nothing)
    truth = points(240, 4).labels
    corrected = (trainer.method.corrected_labels(trainer.predict_logits).argmax(1) == truth).float().mean()
    quality = trainer.method.label_quality(trainer.predict_logits)
    assert corrected > (~wrong).float().mean() + 0.1
    assert quality[~wrong].mean() > quality[wrong].mean() + 0.3
    assert (trainer.predict(data).argmax(1) == truth).float().mean() > 0.9
    if rate is None:
        assert 0.2 < trainer.method.rate.item() < 0.4


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("co_teaching", {"noise_rate": 1}, r"noise_rate must lie in \[0, 1\), got 1"),
        ("co_teaching", {"ramp": 0}, r"ramp must lie in \(0, inf\), got 0.0"),
        ("co_teaching", {"exponent": -1}, "exponent must lie"),
        ("co_teaching", {"schedule": "best"}, "the setting schedule of co_teaching"),
        ("co_teaching_plus", {"warm_up": -1}, "warm_up must lie"),
        ("co_teaching_plus", {"min_fraction": -1}, r"min_fraction must lie in \[0, 1\]"),
    ],
)
def test_small_loss_rejects_invalid_settings(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        METHODS[name].build(**settings)
