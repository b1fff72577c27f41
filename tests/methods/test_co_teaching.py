"""Co-teaching and Co-teaching+: who teaches whom what, how much is left out when, and whence the noise rate comes."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import permll.methods._small_loss
from permll.data import Batch, LabeledData
from permll.methods import METHODS, _held_out
from permll.training.trainer import Trainer
from tests.helpers.toy_training import build_trainer, points
from tests.methods.test_contract import idle
from tests.methods.test_decoupling import gradients, said, two_linear
from tests.methods.test_selc import losses_of

WITH_RATE = pytest.mark.parametrize("name", ["co_teaching", "co_teaching_plus", "jocor"])


def smallest(losses: list[float], drop: float, among: list[int]) -> set[int]:
    """Return the places of the small losses among some places."""
    count = max(math.floor((1 - drop) * len(among) + 1e-4), 1)
    return set(sorted(among, key=lambda place: losses[place])[:count])


def slow_loss(method: Any, batch: Batch, drop: float, among: list[int], least: float = 0.0) -> list[float]:
    """Return the loss of each sample, each network taught by the other's choice."""
    labels = batch.labels.tolist()
    losses = [[-math.log(p[y]) for p, y in zip(rows, labels, strict=True)] for rows in said(method, batch)]
    chosen = [smallest(own, drop, among) if among else set() for own in losses]
    size = len(labels)
    found = []
    for i in range(size):
        loss = 0.0
        for learner, teacher in ((0, 1), (1, 0)):
            if i in chosen[teacher]:
                loss += losses[learner][i] * size / max(len(chosen[teacher]), least * size)
        found.append(loss)
    return found


# --- The loss ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("drop", [0.0, 0.3, 0.75, 0.99])
def test_the_loss_is_what_loops_make(drop: float) -> None:
    _, method, batch = two_linear("co_teaching")
    method.drop.fill_(drop)
    found = method.loss(batch)
    assert found.tolist() == pytest.approx(slow_loss(method, batch, drop, list(range(12))), rel=1e-5)
    assert method.metrics()["kept"] == pytest.approx(max(math.floor((1 - drop) * 12 + 1e-4), 1) / 12)


def test_each_network_learns_the_mean_over_what_the_other_chose() -> None:
    _, method, batch = two_linear("co_teaching")
    method.drop.fill_(0.5)
    found = gradients(method, method.loss(batch).mean())
    networks = list(method.networks.values())
    each = [nn.functional.cross_entropy(network(batch.x), batch.labels, reduction="none") for network in networks]
    chosen = [losses.argsort()[:6] for losses in each]
    assert set(chosen[0].tolist()) != set(chosen[1].tolist())
    expected: list[Tensor] = []
    for network, losses, rows in zip(networks, each, reversed(chosen), strict=True):
        expected += list(torch.autograd.grad(losses[rows].mean(), list(network.parameters())))
    torch.testing.assert_close(found, expected, msg="divided by the number of samples once")


@pytest.mark.parametrize("least", [0.0, 0.5])
def test_the_loss_in_dispute_is_what_loops_make(least: float) -> None:
    _, method, batch = two_linear("co_teaching_plus", {"least": least})
    method.drop.fill_(0.4)
    one, other = said(method, batch)
    among = [i for i in range(12) if one[i].index(max(one[i])) != other[i].index(max(other[i]))]
    assert len(among) >= 3
    found = method.dispute(batch)
    assert found.tolist() == pytest.approx(slow_loss(method, batch, 0.4, among, least), rel=1e-5)
    assert method.loss(batch).tolist() == pytest.approx(slow_loss(method, batch, 0.4, list(range(12))), rel=1e-5)


def test_one_sample_in_dispute_is_taught_whatever_its_loss() -> None:
    """Sample 0, which the authors' code loses."""
    _, method, batch = two_linear("co_teaching_plus", {"least": 0.0})
    with torch.no_grad():
        for network, first in (("net0", 5.0), ("net1", -5.0)):
            linear = method.networks[network]
            linear.weight.zero_()
            linear.bias.copy_(torch.tensor([0.0, 1.0, -1.0]))
            linear.weight[0, 0] = first
        batch.x[:, 0] = 0.0
        batch.x[0, 0] = 1.0
    method.drop.fill_(0.9)
    loss = method.dispute(batch)
    assert loss.nonzero().flatten().tolist() == [0]
    assert method.visits.tolist() == [2, 24]
    small = 0.1 * 12
    method.least = 0.1
    assert method.dispute(batch)[0].item() == pytest.approx(loss[0].item() / small)


def test_networks_that_agree_have_no_gradient() -> None:
    _, method, batch = two_linear("co_teaching_plus")
    method.networks["net1"].load_state_dict(method.networks["net0"].state_dict())
    loss = method.dispute(batch)
    assert loss.tolist() == [0.0] * 12
    assert all(not gradient.any() for gradient in gradients(method, loss.mean()))
    assert method.metrics()["kept"] == 0.0


def test_softmax_twice_as_in_the_authors_code() -> None:
    _, method, batch = two_linear("co_teaching_plus", {"double_softmax": True, "least": 0.0, "noise_rate": 0.0})
    one, other = (network(batch.x) for network in method.networks.values())
    rows = one.argmax(1) != other.argmax(1)
    expected = torch.zeros(12)
    for logits in (one, other):
        expected[rows] += nn.functional.cross_entropy(logits.softmax(1), batch.labels, reduction="none")[rows]
    torch.testing.assert_close(method.dispute(batch), expected * 12 / rows.sum())
    once = sum(nn.functional.cross_entropy(logits, batch.labels, reduction="none") for logits in (one, other))
    torch.testing.assert_close(method.loss(batch), once, msg="Co-teaching before it takes logits")


# --- When ----------------------------------------------------------------------------------------------------------


def drops(trainer: Trainer, epochs: int) -> list[float]:
    found = []
    for epoch in range(epochs):
        trainer.method.train_pass(epoch, 0, trainer.predict_logits)
        found.append(round(trainer.method.drop.item(), 4))
    return found


@WITH_RATE
def test_what_is_left_out_rises_to_the_given_rate(name: str) -> None:
    trainer = build_trainer(name, points(), {"noise_rate": 0.4, "ramp": 4}, epochs=20)
    assert drops(trainer, 6) == [0.0, 0.1, 0.2, 0.3, 0.4, 0.4]
    share = build_trainer(name, points(), {"noise_rate": 0.4, "ramp": 0.2, "schedule": "code"}, epochs=20)
    assert drops(share, 6) == [0.0, 0.1333, 0.2667, 0.4, 0.4, 0.4]
    steep = build_trainer(name, points(), {"noise_rate": 0.4, "ramp": 4, "exponent": 2}, epochs=20)
    assert drops(steep, 4) == [0.0, 0.1, 0.4, 0.4]
    short = build_trainer(name, points(), {"noise_rate": 0.4}, epochs=5)
    assert drops(short, 5) == [0.0, 0.1333, 0.2667, 0.4, 0.4], "a share is three epochs at least"
    sudden = build_trainer(name, points(), {"noise_rate": 0.4, "ramp": 1}, epochs=5)
    assert drops(sudden, 3) == [0.0, 0.4, 0.4]


def test_the_dispute_begins_after_the_warm_up() -> None:
    trainer = build_trainer("co_teaching_plus", points(), {"warm_up": 0.25}, epochs=12)
    assert losses_of(trainer, 12) == ["loss"] * 3 + ["dispute"] * 9
    assert losses_of(build_trainer("co_teaching_plus", points(), {"warm_up": 0}, epochs=3), 3) == ["dispute"] * 3


# --- The noise rate ------------------------------------------------------------------------------------------------


@WITH_RATE
def test_without_held_out_rows_first_visits_tell(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sample's mean prediction over visits and networks, in training, before the step."""
    trainer = build_trainer(name, points(), {"ramp": 2}, epochs=6, held_out=False)
    heard: list[tuple[Tensor, Tensor]] = []
    for network in trainer.method.networks.values():
        network.module.register_forward_hook(
            lambda module, _, out: heard.append((current[0], out.detach().softmax(1))) if module.training else None
        )
    current: list[Tensor] = [torch.empty(0)]
    train_on = trainer._train_on

    def watched(train_pass: Any, batches: Any) -> None:
        current[0] = batches["batch"].index
        train_on(train_pass, batches)

    trainer._train_on = watched  # type: ignore[method-assign]
    estimates = iter([0.1, 0.3, 0.9, 0.9])
    means: list[Tensor] = []

    def estimate(logits: Tensor, labels: Tensor) -> float:
        assert torch.equal(labels, trainer.data.labels)
        means.append(logits.exp())
        return next(estimates)

    monkeypatch.setattr(permll.methods._small_loss, "conservative_noise_rate", estimate)
    seen: list[tuple[float, float]] = []
    for _ in trainer.each_epoch():
        seen.append((trainer.method.rate.item(), trainer.method.drop.item()))
        if trainer.epoch <= 2:
            total = torch.zeros(60, 3)
            for index, p in heard:
                total.index_add_(0, index, p)
            torch.testing.assert_close(means[-1], total / total.sum(1, keepdim=True))
    assert len(means) == 2, "afterwards it is held"
    assert [pytest.approx(pair) for pair in seen] == [
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
def test_the_rate_follows_what_held_out_rows_tell(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
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

    monkeypatch.setattr(_held_out, "conservative_noise_rate", estimate)
    seen = [(trainer.method.rate.item(), trainer.method.drop.item()) for _ in trainer.each_epoch()]
    after = 0.2 + 0.2 / 3
    assert seen == [
        pytest.approx(pair) for pair in [(0.1, 0.0), (0.2, 0.05), (after, 0.2), (after - (after - 0.1) / 3, after)]
    ]
    assert "said.values" not in trainer.method.extra_state()


@WITH_RATE
def test_a_given_rate_is_not_estimated(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> float:
        raise AssertionError("the rate is given")

    for module, function in (
        (permll.methods._small_loss, "conservative_noise_rate"),
        (_held_out, "conservative_noise_rate"),
    ):
        monkeypatch.setattr(module, function, fail)
    trainer = build_trainer(name, points(), {"noise_rate": 0.25}, epochs=3)
    trainer.run(idle, idle)
    assert trainer.method.resolved_params() == {"noise_rate": 0.25}
    assert "said.values" not in trainer.method.extra_state()


def test_an_estimate_leaves_something_to_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_held_out, "conservative_noise_rate", lambda *_: 1.0)
    trainer = build_trainer("co_teaching", points(), epochs=3)
    trainer.run(idle, idle)
    assert trainer.method.rate.item() == pytest.approx(2 / 3)
    kept = math.floor((1 - trainer.method.drop.item()) * 16 + 1e-4)  # of each full batch
    assert kept > 1
    assert trainer.method.metrics()["kept"] == pytest.approx(kept / 16, abs=0.05)


def test_samples_never_visited_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = build_trainer("co_teaching", points(), epochs=3, held_out=False)
    trainer.method.train_pass(0, 0, trainer.predict_logits)
    seen: list[int] = []
    monkeypatch.setattr(
        permll.methods._small_loss, "conservative_noise_rate", lambda logits, _: seen.append(len(logits)) or 0.1
    )
    trainer.method.said.write(torch.arange(7), torch.rand(7, 3))
    trainer.method.on_epoch_end(0, trainer.predict_logits)
    assert seen == [7]


# --- All together --------------------------------------------------------------------------------------------------


def symmetric_noise(rows: int) -> tuple[LabeledData, Tensor]:
    """Return points of four classes, 30 % of them with any other label, and which ones.

    A whole class can fall out of the small losses where another one takes all its wrong labels.
    """
    data, generator = points(rows, 4), torch.Generator().manual_seed(1)
    wrong = torch.rand(rows, generator=generator) < 0.3
    other = (data.labels + torch.randint(1, 4, (rows,), generator=generator)) % 4
    return data.relabel(torch.where(wrong, other, data.labels)), wrong


@pytest.mark.parametrize("rate", [0.3, None])
@pytest.mark.parametrize(("name", "settings"), [("co_teaching", {}), ("co_teaching_plus", {}), ("jocor", {"lam": 0.5})])
def test_wrong_labels_are_found_and_corrected(name: str, settings: dict[str, Any], rate: float | None) -> None:
    every, noisy = symmetric_noise(360)
    data, held_out, wrong = every.take(range(240)), every.take(range(240, 360)), noisy[:240]
    trainer = build_trainer(name, data, {**settings, "noise_rate": rate}, epochs=24, held_out=held_out)
    trainer.run(idle, idle)
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
        ("co_teaching", {"ramp": 0}, "ramp and exponent must be positive, got 0.0 and 1.0"),
        ("co_teaching", {"exponent": -1}, "ramp and exponent must be positive"),
        ("co_teaching", {"schedule": "best"}, "the setting schedule of co_teaching"),
        ("co_teaching_plus", {"warm_up": -1}, "warm_up must be 0 or more"),
        ("co_teaching_plus", {"least": -1}, r"least must lie in \[0, 1\]"),
    ],
)
def test_settings_that_make_no_sense_are_refused(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        METHODS[name].build(**settings)
