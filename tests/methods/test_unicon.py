"""UniCon: uniform selection, batch sizes, and the loss of a step."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from permll.data import Batch, LabeledData
from permll.data.transforms import mixup
from permll.data.transforms.counter_rng import fold_in
from permll.methods import METHODS
from permll.methods.unicon import UniCon
from permll.training.trainer import Trainer
from tests.helpers.method_training import fake_predict_logits, logits_for_labels, noisy_points, slow_softmax
from tests.helpers.toy_training import build_trainer, do_nothing, equal_states, points, run_steps

VIEWS = ("weak", "weak:2", "strong", "strong:2")


def divided(settings: dict[str, Any] | None = None, data: LabeledData | None = None) -> tuple[Trainer, UniCon]:
    """Return a training with a warm-up of one epoch, and linear networks, whose outputs do not depend on the mode."""
    trainer = build_trainer("unicon", data or points(), {"warm_up": 1, **(settings or {})}, epochs=10)
    method = trainer.method
    assert isinstance(method, UniCon)
    for name in method.network_names:
        method.networks[name] = nn.Linear(4, 3)
        method.projections[name] = nn.Sequential(nn.Linear(4, 2, bias=False), nn.BatchNorm1d(2))
    return trainer, method


def batch_of(data: LabeledData, rows: list[int], seed: int) -> Batch:
    index = torch.tensor(rows)
    return Batch(index, data.labels[index], {name: torch.randn(len(rows), 4) for name in VIEWS}, index + 1000 * seed)


def slow_divergence(p: list[float], y: int, base: float) -> float:
    divergence = 0.0
    for k, q in enumerate(p):
        m = (q + (k == y)) / 2
        for one in (q, float(k == y)):
            divergence += one * math.log(one / m, base) / 2 if one > 0 else 0.0
    return divergence


# Division


@pytest.mark.parametrize(("units", "base"), [("bits", 2.0), ("nats", math.e)])
@pytest.mark.parametrize("right", [0.7, 0.1])
def test_unicon_division_matches_loops(units: str, base: float, right: float) -> None:
    trainer, method = divided({"units": units})
    labels = trainer.data.labels
    logits = [logits_for_labels(labels, torch.rand(60) < right, gap=6.0) for _ in range(2)]
    predict_logits, calls = fake_predict_logits(*logits)
    train_pass = method.train_pass(1, 0, predict_logits)
    p = [
        [(a + b) / 2 for a, b in zip(*map(slow_softmax, rows), strict=True)]
        for rows in zip(*(one.tolist() for one in logits), strict=True)
    ]
    d = [slow_divergence(row, y, base) for row, y in zip(p, labels.tolist(), strict=True)]
    assert method.divergence.values.tolist() == pytest.approx(d, abs=1e-5)
    mean = sum(d) / 60
    assert (mean >= 0.7) is (units == "bits" and right == 0.1), "never in nats"
    cutoff = mean if mean < 0.7 else mean - (mean - min(d)) / 5
    fraction = sum(one < cutoff for one in d) / 60
    assert method.metrics()["R"] == pytest.approx(fraction)
    selected = []
    for label in range(3):
        rows = sorted((row for row in range(60) if labels[row] == label), key=lambda row: d[row])
        selected += rows[: max(int(fraction * 60 / 3), 1)]
    assert train_pass is not None
    labeled, unlabeled = train_pass.streams["labelled"], train_pass.streams["unlabelled"]
    assert labeled.rows is not None
    assert unlabeled.rows is not None
    assert labeled.rows.tolist() == sorted(selected)
    assert unlabeled.rows.tolist() == [row for row in range(60) if row not in selected]
    assert method.metrics()["kept"] == pytest.approx(len(selected) / 60)
    assert labeled.batch_factor == 0.5
    assert unlabeled.batch_factor == pytest.approx(min(0.25 / fraction, 4.0))
    assert labeled.views == unlabeled.views == VIEWS
    assert train_pass.networks == ("net0", "own")
    assert calls == [("net0", 60), ("net1", 60)]
    method.train_pass(1, 1, predict_logits)
    assert len(calls) == 4, "both networks predict again before the second pass"


def test_unicon_small_class_contributes_all_samples() -> None:
    data = points(60)
    labels = torch.where((data.labels == 2) & (torch.arange(60) > 10), 1, data.labels)
    rare = LabeledData(data.inputs, labels, data.classes, data.ids)
    _, method = divided(data=rare)
    predict_logits, _ = fake_predict_logits(
        *(logits_for_labels(labels, torch.arange(60) < 45, gap=6.0) for _ in range(2))
    )
    train_pass = method.train_pass(1, 0, predict_logits)
    assert train_pass is not None
    rows = train_pass.streams["labelled"].rows
    assert rows is not None
    assert (labels == 2).sum() == 3
    assert torch.bincount(labels[rows]).tolist() == [15, 15, 3]
    assert len(rows.unique()) == len(rows)


def test_unicon_label_weights_follow_divergence() -> None:
    _, method = divided()
    method.divergence.values[:4] = torch.tensor([0.0, 0.49, 0.5, 0.9])
    assert method.label_weights(torch.arange(4)).tolist() == pytest.approx([1.0, 1.0, 0.5, 0.1])
    method.labeled.values[:3] = True
    assert method.final_label_weights()[:5].tolist() == pytest.approx([1.0, 1.0, 0.5, 0.0, 0.0])


def test_unicon_unlabeled_batch_size() -> None:
    _, method = divided({"unlabeled_ratio": 1.0})
    actual = []
    for fraction in (1.0, 0.5, 0.25, 0.01, 0.0):
        method.selected_fraction.fill_(fraction)
        actual.append(method.unlabeled_factor())
    assert actual == pytest.approx([0.5, 1.0, 2.0, 4.0, 4.0])


@pytest.mark.parametrize(("classes", "expected"), [(2, 6.0), (10, 30.0), (100, 30.0)])
def test_unicon_default_lambda_u(classes: int, expected: float) -> None:
    trainer = build_trainer("unicon", points(200, classes), epochs=4)
    assert trainer.method.resolved_params() == {"lambda_u": expected}
    given = build_trainer("unicon", points(200, classes), {"lambda_u": 1.5}, epochs=4)
    assert given.method.resolved_params() == {"lambda_u": 1.5}


def test_unicon_draws_are_independent_by_pass() -> None:
    trainer, method = divided({"draws": 21})
    predict_logits, calls = fake_predict_logits(*(torch.randn(60, 3) for _ in range(2)))
    drawn = []
    for number in (0, 1):
        train_pass = method.train_pass(1, number, predict_logits)
        assert train_pass is not None
        rows = torch.cat([spec.rows for spec in train_pass.streams.values()]).sort().values  # type: ignore[misc]
        assert torch.bincount(trainer.data.labels[rows]).tolist() == [7, 7, 7]
        drawn.append(rows)
    assert calls == [("net0", 21), ("net1", 21)] * 2
    assert not torch.equal(*drawn)


# Loss


@pytest.mark.parametrize("number", [0, 1])
def test_unicon_loss_matches_loops(number: int) -> None:
    trainer, method = divided({"lambda_u": 7.0, "lambda_c": 0.5, "contrast_temperature": 0.3, "ramp": 0.0})
    labels = trainer.data.labels
    predict_logits, _ = fake_predict_logits(
        *(logits_for_labels(labels, torch.rand(60) < 0.5, gap=1.0) for _ in range(2))
    )
    method.train_pass(2, number, predict_logits)
    method.train()
    network, peer = method.networks[f"net{number}"], method.networks[f"net{1 - number}"]
    labeled, unlabeled = batch_of(trainer.data, [3, 8, 20], 1), batch_of(trainer.data, [40, 1], 2)
    inputs, targets = [], []
    for strong in VIEWS[2:]:
        for i, row in enumerate(labeled.index.tolist()):
            d, y = method.divergence.values[row].item(), int(labels[row])
            w = 1.0 if d < 0.5 else 1 - d
            probs = [slow_softmax(network(labeled.views[v][i]).tolist()) for v in VIEWS[:2]]
            mixed = [w * (k == y) + (1 - w) * (probs[0][k] + probs[1][k]) / 2 for k in range(3)]
            targets.append([t**2 / sum(u**2 for u in mixed) for t in mixed])
            inputs.append(labeled.views[strong][i])
    for strong in VIEWS[2:]:
        for i in range(2):
            probs = [slow_softmax(one(unlabeled.views[v][i]).tolist()) for one in (network, peer) for v in VIEWS[:2]]
            mean = [sum(p[k] for p in probs) / 4 for k in range(3)]
            targets.append([t**2 / sum(u**2 for u in mean) for t in mean])
            inputs.append(unlabeled.views[strong][i])
    keys = [fold_in(batch.keys, n) for batch in (labeled, unlabeled) for n in (0, 1)]
    mix = mixup(torch.cat(keys), 4.0, keep_first=True)
    fraction = mix.lam[0].item()
    expected, predictions = 0.0, []
    for i, j in enumerate(mix.partner.tolist()):
        p = slow_softmax(network(fraction * inputs[i] + (1 - fraction) * inputs[j]).tolist())
        t = [fraction * targets[i][k] + (1 - fraction) * targets[j][k] for k in range(3)]
        predictions.append(p)
        if i < 6:
            expected -= sum(t[k] * math.log(p[k]) for k in range(3)) / 6
        else:
            expected += 7.0 * sum((p[k] - t[k]) ** 2 for k in range(3)) / 3 / 4
    expected += sum(math.log(1 / 3 / (sum(p[k] for p in predictions) / 10)) / 3 for k in range(3))
    # The features of a linear network are its inputs.
    features = torch.cat([unlabeled.views[v] for v in VIEWS[2:]])
    linear, norm = method.projections[f"net{number}"]  # type: ignore[misc]
    values = linear(features)
    values = (values - values.mean(0)) / (values.var(0, correction=0) + norm.eps).sqrt()
    values = values / values.norm(dim=1, keepdim=True)
    contrast = 0.0
    for i in range(4):
        similar = [math.exp((values[i] @ values[k]).item() / 0.3) for k in range(4)]
        contrast -= math.log(similar[(i + 2) % 4] / (sum(similar) - similar[i])) / 4
    actual = method.mixmatch_loss(labeled, unlabeled)
    assert actual.item() == pytest.approx(expected + 0.5 * contrast, rel=1e-4)
    actual.backward()
    assert linear.weight.grad is not None
    other = method.projections[f"net{1 - number}"]
    assert all(value.grad is None for value in [*peer.parameters(), *other.parameters()])


def test_unicon_trains_without_unlabeled_samples() -> None:
    trainer, method = divided()
    predict_logits, _ = fake_predict_logits(*(torch.randn(60, 3) for _ in range(2)))
    method.train_pass(1, 0, predict_logits)
    loss = method.mixmatch_loss(batch_of(trainer.data, [1, 2, 3], 1))
    loss.backward()
    assert all(value.grad is None for value in method.projections.parameters())


def test_unicon_projections_alternate() -> None:
    trainer = build_trainer("unicon", noisy_points(60)[0], {"warm_up": 1}, epochs=3)
    initial = {key: value.clone() for key, value in trainer.method.projections.state_dict().items()}
    trained: list[tuple[str, ...]] = []
    while trainer.epoch < 2 or trainer.pass_number == 0:
        before = {key: value.clone() for key, value in trainer.method.projections.state_dict().items()}
        run_steps(trainer, 1)
        assert trainer._pass is None or trainer._pass.networks is not None
        moved = {
            key.split(".")[0]
            for key, value in trainer.method.projections.state_dict().items()
            if not torch.equal(value, before[key])
        }
        if trainer._pass is not None and trainer._pass.loss == "mixmatch_loss":
            assert moved == {f"net{trainer.pass_number}"}
            trained.append(tuple(moved))
        elif trainer.epoch == 0:
            assert not moved, "constant in the warm-up"
    assert set(trained) == {("net0",), ("net1",)}
    assert not equal_states(trainer.method.projections.state_dict(), initial)


# Training


def test_unicon_corrects_wrong_labels() -> None:
    data, wrong = noisy_points()
    trainer = build_trainer("unicon", data, epochs=14)
    trainer.run(do_nothing, do_nothing)
    truth = points(240).labels
    corrected = (trainer.method.corrected_labels(trainer.predict_logits).argmax(1) == truth).float().mean()
    quality = trainer.method.label_quality(trainer.predict_logits)
    assert corrected > (~wrong).float().mean() + 0.2
    assert quality[~wrong].mean() > quality[wrong].mean() + 0.3
    assert (trainer.predict(data).argmax(1) == truth).float().mean() > 0.9


def test_unicon_label_quality_uses_current_networks() -> None:
    trainer, method = divided()
    p: Tensor = torch.stack([trainer.predict_logits(name).softmax(1) for name in method.network_names]).mean(0)
    quality = method.label_quality(trainer.predict_logits)
    for i, y in enumerate(trainer.data.labels.tolist()):
        assert quality[i].item() == pytest.approx(1 - slow_divergence(p[i].tolist(), y, 2.0), abs=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lambda_u": -1.0}, "lambda_u must lie"),
        ({"lambda_c": -1.0}, "lambda_c must lie"),
        ({"contrast_temperature": 0.0}, "contrast_temperature must lie"),
        ({"unlabeled_ratio": 0.0}, "unlabeled_ratio must lie"),
        ({"projection": 0}, "projection must lie"),
        ({"d_mu": 0.0}, "d_mu must lie"),
        ({"tau": 0.5}, "tau must lie"),
        ({"units": "bans"}, "the setting units of unicon"),
    ],
)
def test_unicon_rejects_invalid_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        METHODS["unicon"].build(**settings)
