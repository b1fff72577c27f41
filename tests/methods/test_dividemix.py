"""DivideMix: division, MixMatch step, noise rate, and edge cases."""

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from permll.data import Batch, LabeledData
from permll.data.transforms import mixup
from permll.data.transforms.counter_rng import fold_in
from permll.functional.mixture import min_max_scale
from permll.functional.semi_supervised import gmm_clean_probability
from permll.methods import METHODS, TrainPass, _noise_tracking
from permll.methods.dividemix import DivideMix
from permll.training.checkpoint import load_state, save_state
from permll.training.trainer import Trainer
from tests.helpers.method_training import fake_predict_logits, logits_for_labels, noisy_points, slow_softmax
from tests.helpers.toy_training import build_trainer, do_nothing, equal_states, points, run_steps

VIEWS = ("weak", "weak:2")


def divided(settings: dict[str, Any] | None = None, epochs: int = 10) -> tuple[Trainer, DivideMix]:
    """Return a training with a warm-up of one epoch, and linear networks, whose outputs do not depend on the mode."""
    trainer = build_trainer("dividemix", points(), {"warm_up": 1, **(settings or {})}, epochs=epochs, held_out=False)
    method = trainer.method
    assert isinstance(method, DivideMix)
    for name in method.network_names:
        method.networks[name] = nn.Linear(4, 3)
    return trainer, method


def batch_of(data: LabeledData, rows: list[int], seed: int) -> Batch:
    index = torch.tensor(rows)
    views = {name: torch.randn(len(rows), 4) for name in VIEWS}
    return Batch(index, data.labels[index], views, index + 1000 * seed)


# Passes


def test_dividemix_networks_alternate() -> None:
    trainer = build_trainer("dividemix", noisy_points(60)[0], {"warm_up": 2}, epochs=6)
    recorded: list[tuple[int, str, tuple[str, ...]]] = []

    def after_step(trainer: Trainer) -> None:
        assert trainer._pass is not None
        assert trainer._pass.networks is not None
        entry = (trainer.epoch, trainer._pass.loss, trainer._pass.networks)
        if not recorded or recorded[-1] != entry:
            recorded.append(entry)

    trainer.run(after_step, do_nothing)
    networks = [("net0",), ("net1",)]
    assert recorded == [
        (epoch, "loss" if epoch < 2 else "mixmatch_loss", trained) for epoch in range(6) for trained in networks
    ]
    assert len(trainer.stages.plan) == 1, "one optimizer and one schedule"


def test_dividemix_pass_trains_one_network() -> None:
    trainer = build_trainer("dividemix", noisy_points(60)[0], {"warm_up": 1}, epochs=4)
    before: dict[str, Any] = {}

    def after_step(trainer: Trainer) -> None:
        assert trainer._pass is not None
        assert trainer._pass.networks is not None
        (trained,) = trainer._pass.networks
        now = {name: copy.deepcopy(network.state_dict()) for name, network in trainer.method.networks.items()}
        for name in now:
            if name in before:
                assert equal_states(now[name], before[name]) is (name != trained)
        before.update(now)

    trainer.run(after_step, do_nothing)


def test_dividemix_networks_divide_for_each_other() -> None:
    trainer, method = divided()
    labels = trainer.data.labels
    halves = torch.arange(60) < 24, torch.arange(60) >= 40  # samples that net0 and net1 consider correct
    probs = [logits_for_labels(labels, half) for half in halves]
    predict_logits, calls = fake_predict_logits(*probs)
    first = method.train_pass(1, 0, predict_logits)
    assert calls == [("net0", 60), ("net1", 60)]
    second = method.train_pass(1, 1, predict_logits)
    assert len(calls) == 2, "no predictions in between"
    assert method.train_pass(1, 2, predict_logits) is None
    for train_pass, half, number in ((first, halves[1], 1), (second, halves[0], 0)):
        assert isinstance(train_pass, TrainPass)
        assert list(train_pass.streams) == ["labelled", "unlabelled"], "labeled samples set the length of the pass"
        labeled, unlabeled = train_pass.streams.values()
        assert torch.equal(labeled.rows, half.nonzero()[:, 0])  # type: ignore[arg-type]
        assert torch.equal(unlabeled.rows, (~half).nonzero()[:, 0])  # type: ignore[arg-type]
        assert labeled.views == unlabeled.views == VIEWS
        assert labeled.batch_factor == unlabeled.batch_factor == 0.5
        losses = nn.functional.cross_entropy(probs[number], labels, reduction="none")
        expected = gmm_clean_probability((losses - losses.min()) / (losses.max() - losses.min()))
        torch.testing.assert_close(method.clean.values[:, number], expected)
    assert method.networks.keys() == {"net0", "net1"}
    assert method.metrics()["kept"] == pytest.approx((24 + 20) / 120)


def test_dividemix_warm_up_has_confidence_penalty() -> None:
    trainer, method = divided({"penalty": 0.5})
    batch = Batch(torch.arange(4), trainer.data.labels[:4], {"weak": torch.randn(4, 4)}, torch.arange(4))
    for number in range(2):
        method.train_pass(0, number, trainer.predict_logits)
        logits = method.networks[f"net{number}"](batch.x).tolist()
        for actual, row, y in zip(method.loss(batch).tolist(), logits, batch.labels.tolist(), strict=True):
            p = slow_softmax(row)
            assert actual == pytest.approx(-math.log(p[y]) + 0.5 * sum(q * math.log(q) for q in p), rel=1e-5)


def test_dividemix_history_averages_losses() -> None:
    trainer, method = divided({"history": 2})
    labels = trainer.data.labels
    scaled = []
    for epoch in range(1, 5):
        logits = logits_for_labels(labels, torch.rand(60) < 0.6)
        predict_logits, _ = fake_predict_logits(logits, logits)
        method.train_pass(epoch, 0, predict_logits)
        scaled.append(min_max_scale(nn.functional.cross_entropy(logits, labels, reduction="none")))
        expected = gmm_clean_probability(torch.stack(scaled[-2:]).mean(0))
        torch.testing.assert_close(method.clean.values[:, 0], expected)


# Loss


@pytest.mark.parametrize("mixup_on", ["all", "labeled"])
@pytest.mark.parametrize("number", [0, 1])
def test_dividemix_loss_matches_loops(number: int, mixup_on: str) -> None:
    trainer, method = divided({"lambda_u": 7.0, "ramp": 4, "mixup_on": mixup_on})
    labels = trainer.data.labels
    predict_logits, _ = fake_predict_logits(
        *(logits_for_labels(labels, torch.rand(60) < 0.5, gap=1.0) for _ in range(2))
    )
    method.train_pass(2, 0, predict_logits)
    method.train_pass(2, number, predict_logits)
    network, peer = method.networks[f"net{number}"], method.networks[f"net{1 - number}"]
    labeled, unlabeled = batch_of(trainer.data, [3, 8, 20], 1), batch_of(trainer.data, [40, 1], 2)
    inputs, targets = [], []
    for view in VIEWS:
        for i, row in enumerate(labeled.index.tolist()):
            w, y = method.clean.values[row, 1 - number].item(), int(labels[row])
            probs = [slow_softmax(network(labeled.views[v][i]).tolist()) for v in VIEWS]
            mixed = [w * (k == y) + (1 - w) * (probs[0][k] + probs[1][k]) / 2 for k in range(3)]
            targets.append([t**2 / sum(u**2 for u in mixed) for t in mixed])
            inputs.append(labeled.views[view][i])
    for view in VIEWS:
        for i in range(2):
            probs = [slow_softmax(one(unlabeled.views[v][i]).tolist()) for one in (network, peer) for v in VIEWS]
            mean = [sum(p[k] for p in probs) / 4 for k in range(3)]
            targets.append([t**2 / sum(u**2 for u in mean) for t in mean])
            inputs.append(unlabeled.views[view][i])
    keys = [fold_in(batch.keys, n) for batch in (labeled, unlabeled) for n in (0, 1)]
    mix = mixup(torch.cat(keys), 4.0, keep_first=True)
    weight = mix.lam[0].item()
    assert weight >= 0.5
    labeled_loss = unlabeled_loss = 0.0
    predictions = []
    for i, j in enumerate(mix.partner.tolist()):
        p = slow_softmax(network(weight * inputs[i] + (1 - weight) * inputs[j]).tolist())
        t = [weight * targets[i][k] + (1 - weight) * targets[j][k] for k in range(3)]
        if i < 6:
            labeled_loss -= sum(t[k] * math.log(p[k]) for k in range(3)) / 6
        elif mixup_on == "all":
            unlabeled_loss += sum((p[k] - t[k]) ** 2 for k in range(3)) / 3 / 4
        if i < 6 or mixup_on == "all":
            predictions.append(p)
    mean = [sum(p[k] for p in predictions) / len(predictions) for k in range(3)]
    penalty = sum(math.log(1 / 3 / m) / 3 for m in mean)
    expected = labeled_loss + 7.0 * (1 / 4) * unlabeled_loss + penalty  # after one of four ramp epochs
    assert method.mixmatch_loss(labeled, unlabeled).item() == pytest.approx(expected, rel=1e-4)


def test_dividemix_lambda_u_ramps_by_labeled_samples() -> None:
    trainer, method = divided({"lambda_u": 8.0, "ramp": 2})
    predict_logits, _ = fake_predict_logits(
        *(logits_for_labels(trainer.data.labels, torch.arange(60) < 12) for _ in range(2))
    )
    actual = []
    for epoch in (1, 2, 3):
        method.train_pass(epoch, 0, predict_logits)
        assert int(method.current_pass[2]) == 12
        for rows in ([0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]):
            actual.append(method.ramped_lambda_u())
            method.mixmatch_loss(batch_of(trainer.data, rows, 1), batch_of(trainer.data, [40, 41], 2))
    assert actual == pytest.approx([0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8])


def test_dividemix_targets_have_no_side_effects() -> None:
    trainer = build_trainer("dividemix", points(), {"warm_up": 1}, epochs=6, held_out=False)
    method = trainer.method
    predict_logits, _ = fake_predict_logits(
        *(logits_for_labels(trainer.data.labels, torch.arange(60) < 30) for _ in range(2))
    )
    method.train_pass(1, 0, predict_logits)
    method.train()
    nets = copy.deepcopy(method.networks.state_dict())
    labeled, unlabeled = batch_of(trainer.data, [3, 8, 20], 1), batch_of(trainer.data, [40, 1], 2)
    random = torch.get_rng_state()
    targets = method._targets(*method.trained_and_peer(), labeled, unlabeled)
    assert not targets.requires_grad
    assert torch.equal(torch.get_rng_state(), random), "no dropout"
    assert equal_states(method.networks.state_dict(), nets)
    assert all(module.training for module in method.networks.modules())
    method.mixmatch_loss(labeled, unlabeled).backward()
    assert all(value.grad is None for value in method.networks["net1"].parameters())
    method.guess = "training"
    before = copy.deepcopy(method.networks.state_dict())
    method._targets(*method.trained_and_peer(), labeled, unlabeled)
    after = method.networks.state_dict()
    moved = {key.split(".")[0] for key in after if not torch.equal(after[key], before[key])}
    assert moved == {"net0"}, "as in the authors' code, and never the peer"


# λ_u without a given noise rate


@pytest.mark.parametrize(("right", "expected"), [(0.8, 0.0), (0.4, 25 * 6 ** math.log10(0.3))])
def test_dividemix_lambda_u_follows_mixture(right: float, expected: float) -> None:
    trainer, method = divided()
    halves = torch.arange(60) < round(60 * right)
    predict_logits, _ = fake_predict_logits(
        *(logits_for_labels(trainer.data.labels, halves, gap=6.0) for _ in range(2))
    )
    method.train_pass(1, 0, predict_logits)
    assert method.metrics()["noise_rate"] == pytest.approx(1 - right, abs=0.02)
    assert method.resolved_params() == {"lambda_u": pytest.approx(expected), "noise_rate": method.rate.item()}


def test_dividemix_estimates_rate_from_held_out_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = build_trainer("dividemix", points(), {"warm_up": 1}, epochs=4)
    estimates = iter([0.2, 0.5, 0.8])

    def estimate(logits: Tensor, labels: Tensor) -> float:
        assert trainer.validation is not None
        assert torch.equal(labels, trainer.validation.labels)
        p = torch.stack([trainer.predict_logits(name, held_out=True).softmax(1) for name in ("net0", "net1")]).mean(0)
        torch.testing.assert_close(logits.exp(), p)
        return next(estimates)

    monkeypatch.setattr(_noise_tracking, "conservative_noise_rate", estimate)
    rates: list[float] = []
    trainer.run(do_nothing, lambda trainer: rates.append(trainer.method.metrics()["noise_rate"]))
    assert rates == pytest.approx([0.0, 0.2, 0.3, 0.3 + 0.5 / 3])
    given = build_trainer("dividemix", points(), {"warm_up": 1, "lambda_u": 2.0}, epochs=2)
    given.run(do_nothing, do_nothing)
    assert next(estimates, None) is None, "no estimate if λ_u is given"


def test_dividemix_accepts_noise_rate() -> None:
    trainer, method = divided({"noise_rate": 0.6})
    predict_logits, _ = fake_predict_logits(
        *(logits_for_labels(trainer.data.labels, torch.arange(60) < 50, gap=6.0) for _ in range(2))
    )
    method.train_pass(1, 0, predict_logits)
    assert method.metrics()["noise_rate"] == pytest.approx(0.6)
    assert method.lambda_u_value() > 0
    given = divided({"lambda_u": 3.0})[1]
    assert given.resolved_params() == {"lambda_u": 3.0}


# Edge cases


def test_dividemix_labels_at_least_two_samples() -> None:
    trainer, method = divided({"threshold": 0.999999})
    predict_logits, _ = fake_predict_logits(*(torch.randn(60, 3) for _ in range(2)))
    train_pass = method.train_pass(1, 0, predict_logits)
    assert train_pass is not None
    rows = train_pass.streams["labelled"].rows
    assert rows is not None
    w = method.clean.values[:, 1]
    assert torch.equal(w[rows].sort().values, w.sort().values[-2:])
    assert method.clean.values.max() < 0.999999
    build_trainer("dividemix", trainer.data, {"warm_up": 1, "threshold": 0.999999}, epochs=3).run(
        do_nothing, do_nothing
    )


@pytest.mark.parametrize("bad", [0.0, math.nan])
def test_dividemix_failed_fit_keeps_division(bad: float) -> None:
    trainer, method = divided()
    predict_logits, _ = fake_predict_logits(
        *(logits_for_labels(trainer.data.labels, torch.arange(60) < 30) for _ in range(2))
    )
    method.train_pass(1, 0, predict_logits)
    before = method.clean.values.clone()
    flat, _ = fake_predict_logits(*(torch.full((60, 3), bad) for _ in range(2)))
    method.train_pass(2, 0, flat)
    assert torch.equal(method.clean.values, before)
    fresh = divided()[1]
    train_pass = fresh.train_pass(1, 0, flat)
    assert train_pass is not None
    assert list(train_pass.streams) == ["labelled"], "without a mixture all samples are labeled"
    assert fresh.metrics() == {"kept": 1.0, "noise_rate": 0.0}


def test_dividemix_trains_without_unlabeled_samples() -> None:
    trainer, method = divided({"threshold": 0.0})
    predict_logits, _ = fake_predict_logits(*(torch.randn(60, 3) for _ in range(2)))
    train_pass = method.train_pass(1, 0, predict_logits)
    assert train_pass is not None
    assert list(train_pass.streams) == ["labelled"]
    loss = method.mixmatch_loss(batch_of(trainer.data, [1, 2, 3], 1))
    assert bool(loss.isfinite())
    build_trainer("dividemix", trainer.data, {"warm_up": 1, "threshold": 0.0}, epochs=3).run(do_nothing, do_nothing)


# Draws


def test_dividemix_draws_are_balanced_and_independent() -> None:
    data = points(120)
    few = LabeledData(data.inputs, torch.where(torch.arange(120) < 90, 0, data.labels), data.classes, data.ids)
    trainer = build_trainer("dividemix", few, {"warm_up": 1, "draws": 24}, epochs=4, held_out=False)
    method = trainer.method
    warm = method.train_pass(0, 0, trainer.predict_logits)
    assert (warm.streams["batch"].order, warm.streams["batch"].draws) == ("balanced", 48)
    predict_logits, calls = fake_predict_logits(*(torch.randn(120, 3) for _ in range(2)))
    rows = []
    for epoch in (1, 2):
        for number in (0, 1):
            train_pass = method.train_pass(epoch, number, predict_logits)
            parts = [spec.rows for spec in train_pass.streams.values()]
            rows.append(torch.cat(parts).sort().values)
            assert torch.bincount(few.labels[rows[-1]]).tolist() == [8, 8, 8]
            assert torch.equal(rows[-1], method.drawn.values[:, 1 - number].nonzero()[:, 0])
    assert calls == [("net0", 24), ("net1", 24)] * 2
    assert len({tuple(drawn.tolist()) for drawn in rows}) == 4, "independent draws in every epoch"
    trainer.run(do_nothing, do_nothing)


# Training


def test_dividemix_corrects_wrong_labels() -> None:
    every, noisy = noisy_points(360)
    data, wrong = every.take(range(240)), noisy[:240]
    trainer = build_trainer("dividemix", data, epochs=12, held_out=every.take(range(240, 360)))
    trainer.run(do_nothing, do_nothing)
    truth = points(240).labels
    corrected = (trainer.method.corrected_labels(trainer.predict_logits).argmax(1) == truth).float().mean()
    quality = trainer.method.label_quality(trainer.predict_logits)
    assert corrected > (~wrong).float().mean() + 0.2
    assert quality[~wrong].mean() > quality[wrong].mean() + 0.5
    assert (trainer.predict(data).argmax(1) == truth).float().mean() > 0.9
    assert trainer.method.metrics()["kept"] == pytest.approx((~wrong).float().mean().item(), abs=0.1)


def test_dividemix_corrected_labels_match_loops() -> None:
    trainer, method = divided()
    p = torch.stack([trainer.predict_logits(name).softmax(1) for name in method.network_names]).mean(0)
    assert torch.equal(method.corrected_labels(trainer.predict_logits), p), "the predictions in the warm-up"
    method.clean.values.copy_(torch.rand(60, 2))
    actual = method.corrected_labels(trainer.predict_logits)
    for i, y in enumerate(trainer.data.labels.tolist()):
        w = sum(v for v in method.clean.values[i].tolist() if v > 0.5) / 2
        for k in range(3):
            assert actual[i, k].item() == pytest.approx(w * (k == y) + (1 - w) * p[i, k].item(), abs=1e-5)


def test_dividemix_resumes_in_second_pass(tmp_path: Path) -> None:
    data, settings = noisy_points(60)[0], {"warm_up": 1, "guess": "training"}
    uninterrupted = build_trainer("dividemix", data, settings, epochs=5)
    uninterrupted.run(do_nothing, do_nothing)
    steps, first = 0, build_trainer("dividemix", data, settings, epochs=5)
    while not (first.epoch == 3 and first.pass_number == 1 and int(first.method.current_pass[3]) > 8):
        run_steps(first, 1)
        steps += 1
    assert first._pass is not None
    assert first._pass.networks == ("net1",)
    path = save_state(tmp_path / "state.safetensors", first.state_dict())
    second = build_trainer("dividemix", data, settings, epochs=5)
    second.load_state_dict(load_state(path))
    recorded: list[tuple[str, int]] = []
    predict_logits = second.predict_logits

    def recording(*a: Any, **k: Any) -> Tensor:
        if not k.get("held_out"):
            recorded.append((a[0], second.epoch))
        return predict_logits(*a, **k)

    second.predict_logits = recording  # type: ignore[method-assign]
    second.run(do_nothing, do_nothing)
    assert recorded == [("net0", 4), ("net1", 4)], "no new division before the next epoch"
    assert equal_states(
        *(
            load_state(save_state(tmp_path / "end.safetensors", trainer.state_dict()))
            for trainer in (uninterrupted, second)
        )
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lambda_u": -1.0}, "lambda_u must lie"),
        ({"noise_rate": 1.0}, "noise_rate must lie"),
        ({"threshold": 1.0}, "threshold must lie"),
        ({"history": 0}, "history must lie"),
        ({"history": 2, "draws": 100}, r"history must lie in \[1, 1\]"),
        ({"temperature": 0.0}, "temperature must lie"),
        ({"mixup": 0.0}, "mixup must lie"),
        ({"penalty": -1.0}, "penalty must lie"),
        ({"ramp": -1.0}, "ramp must lie"),
        ({"draws": 1}, "draws must lie"),
        ({"guess": "other"}, "the setting guess of dividemix"),
        ({"mixup_on": "none"}, "the setting mixup_on of dividemix"),
    ],
)
def test_dividemix_rejects_invalid_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        METHODS["dividemix"].build(**settings)
