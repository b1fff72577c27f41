"""S-model and C-model: initialization, stages, training steps and corrected labels."""

import copy
import functools
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from permll.data import Batch
from permll.functional.transition import confusion_transition
from permll.methods import Stage, find_method
from permll.training.trainer import Trainer
from tests.helpers.method_training import (
    STEPS_PER_EPOCH,
    flip_labels,
    prepared_method,
    record_batches,
    run_baseline,
    trainer_with_networks,
)
from tests.helpers.toy_training import build_trainer, do_nothing, points, run_steps, small_net

BOTH = pytest.mark.parametrize("name", ["s_model", "c_model"])


# Stages


@BOTH
def test_noise_layer_starts_with_confusion_of_best_baseline(name: str) -> None:
    trainer = run_baseline(name, flip_labels(points()), 12)
    assert not trainer.method.is_estimated
    assert torch.equal(trainer.method.W, torch.zeros(3, 3)), "constant in the baseline"
    assert trainer.stages.best is not None
    best = trainer.predict_logits(best=True)
    weights = copy.deepcopy(trainer.stages.best["networks"]["net"])
    recorded = record_batches(
        trainer,
        snapshot=lambda: (trainer.method.W.detach().clone(), copy.deepcopy(trainer.method.networks["net"].module)),
    )
    run_steps(trainer, 2)
    W, network = recorded[0][2]
    theta = confusion_transition(best.argmax(1), trainer.data.labels, 3)
    assert_close(W, (theta + 1e-8).log().float())
    assert all(torch.equal(network.state_dict()[key], value) for key, value in weights.items())
    assert not torch.equal(trainer.method.W, W), "trained afterwards"


def test_noise_layer_score_is_validation_log_likelihood() -> None:
    method = prepared_method("s_model", [0, 1], 2)
    probabilities, labels = torch.tensor([[0.9, 0.1], [1.0, 0.0]]), torch.tensor([0, 0])
    assert method.score(probabilities, labels) == pytest.approx(torch.tensor(0.9).log().item() / 2)
    assert -100 < method.score(probabilities, torch.tensor([0, 1])) < -40, "finite for impossible labels"


def test_s_model_unpredicted_class_has_identity_row() -> None:
    method = prepared_method("s_model", [0, 1, 2, 2], 3)
    logits = torch.eye(3)[[0, 1, 1, 0]]
    method.on_stage_start(Stage("adapt", 1), lambda **_: logits)
    expected = torch.tensor([[0.5, 0.0, 0.5], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]])
    assert_close(method.transition, expected)
    assert method.W.isfinite().all()


@BOTH
def test_noise_layer_baseline_labels_are_predictions(name: str) -> None:
    trainer = build_trainer(name, points(), epochs=12)
    run_steps(trainer, STEPS_PER_EPOCH)
    assert torch.equal(trainer.method.corrected_labels(trainer.predict_logits), trainer.predict_logits().softmax(-1))
    assert trainer.method.metrics()["T_diagonal"] == 1


# Simple model


def test_s_model_training_matches_manual_steps() -> None:
    trainer = run_baseline("s_model", flip_labels(points()), 16)
    recorded = record_batches(
        trainer,
        snapshot=lambda: (trainer.method.W.detach().clone(), copy.deepcopy(trainer.method.networks["net"].module)),
    )
    run_steps(trainer, 5)
    W, network = recorded[0][2]
    W = nn.Parameter(W)
    optimizer = torch.optim.SGD([W, *network.parameters()], lr=0.05, momentum=0.9)
    for batch, rng_state, _ in recorded:
        torch.set_rng_state(rng_state)
        optimizer.zero_grad()
        noisy = network(batch.x).softmax(1) @ W.softmax(1)
        (-noisy[torch.arange(len(batch.labels)), batch.labels].log()).mean().backward()
        optimizer.step()
    assert_close(trainer.method.W, W, rtol=1e-4, atol=1e-6)
    for actual, expected in zip(trainer.method.networks["net"].parameters(), network.parameters(), strict=True):
        assert_close(actual, expected, rtol=1e-4, atol=1e-6)


@BOTH
def test_noise_layer_recovers_known_noise(name: str) -> None:
    clean = points(300)
    trainer = build_trainer(name, flip_labels(clean, 0.4), epochs=16)
    trainer.run(do_nothing, do_nothing)
    method = trainer.method
    expected = torch.tensor([[0.6, 0.4, 0.0], [0.0, 0.6, 0.4], [0.0, 0.0, 1.0]])
    assert (method.log_theta().exp() - expected).abs().max() < 0.15
    corrected = method.corrected_labels(trainer.predict_logits)
    assert (corrected.argmax(1) == clean.labels).float().mean() > 0.95
    wrong = trainer.data.labels != clean.labels
    quality = method.label_quality(trainer.predict_logits)
    assert quality[wrong].mean() < 0.3 < 0.8 < quality[~wrong].mean()


def test_s_model_corrected_labels_are_posterior() -> None:
    trainer = build_trainer("s_model", flip_labels(points()), epochs=8)
    trainer.run(do_nothing, do_nothing)
    joint = trainer.predict_logits().softmax(1) * trainer.method.W.detach().softmax(1)[:, trainer.data.labels].T
    assert_close(trainer.method.corrected_labels(trainer.predict_logits), joint / joint.sum(1, keepdim=True))


# Complex model


def complex_trainer(**settings: Any) -> Trainer:
    """Return a trainer within the complex stage."""
    trainer = build_trainer("c_model", flip_labels(points()), settings, epochs=10)
    run_steps(trainer, 9 * STEPS_PER_EPOCH + 2)
    assert trainer.method.is_complex
    return trainer


def test_c_model_continues_from_simple_model() -> None:
    trainer = build_trainer("c_model", flip_labels(points()), {"baseline": 0.4, "simple": 0.2}, epochs=10)
    assert [stage.epochs for stage in trainer.stages.plan] == [4, 2, 4]
    run_steps(trainer, 6 * STEPS_PER_EPOCH)
    W, network = trainer.method.W.detach().clone(), copy.deepcopy(trainer.method.networks["net"].state_dict())
    assert W.abs().sum() > 0
    assert torch.equal(trainer.method.u, torch.zeros(16, 3, 3))
    assert not trainer.method.is_complex
    simple = trainer.method.corrected_labels(trainer.predict_logits)
    trainer.stages.enter(7, trainer.predict_logits)
    assert trainer.method.is_complex
    assert torch.equal(trainer.method.W, W)
    assert all(torch.equal(trainer.method.networks["net"].state_dict()[key], value) for key, value in network.items())
    assert_close(trainer.method.corrected_labels(trainer.predict_logits), simple)  # unchanged with u = 0


@pytest.mark.parametrize("neighbors", [2, 100])
def test_c_model_corrected_labels_match_loops(neighbors: int) -> None:
    trainer = complex_trainer(neighbors=neighbors)
    method, network = trainer.method, trainer.method.networks["net"].module.eval()
    x = trainer.views["plain"](trainer.data.inputs.batch(torch.arange(60)), torch.arange(60))
    with torch.no_grad():
        features = network[:-1](x)
        p = network[-1](features).softmax(1)
        expected = torch.zeros(60, 3)
        for n, label in enumerate(trainer.data.labels.tolist()):
            for i in range(3):
                targets = method.targets[i].tolist()
                w = {j: method.W[i, j] + features[n] @ method.u[:, i, k] for k, j in enumerate(targets)}
                total = torch.stack(list(w.values())).exp().sum()
                expected[n, i] = p[n, i] * (w[label].exp() / total if label in w else 0)
    assert method.u.abs().sum() > 0
    assert method.targets.shape == (3, min(neighbors, 3))
    assert_close(
        method.corrected_labels(trainer.predict_logits), expected / expected.sum(1, keepdim=True), rtol=1e-4, atol=1e-5
    )


def test_c_model_works_with_cached_predictions() -> None:
    trainer = complex_trainer()
    predict_logits = functools.cache(trainer.predict_logits)
    corrected, quality = trainer.method.corrected_labels(predict_logits), trainer.method.label_quality(predict_logits)
    assert_close(quality, corrected.gather(1, trainer.data.labels[:, None])[:, 0])
    assert list(trainer.method.networks) == ["net"]


def test_c_model_gradients_match_manual_ones() -> None:
    trainer = complex_trainer()
    method, network = trainer.method, trainer.method.networks["net"].module.eval()
    x, labels = torch.randn(8, 4), torch.arange(8) % 3
    loss = method.loss(Batch(torch.arange(8), labels, {"weak": x}, torch.arange(8))).mean()
    features = network[:-1](x)
    theta = torch.zeros(8, 3, 3)
    for i in range(3):
        row = (features @ method.u[:, i] + method.W[i, method.targets[i]]).softmax(1)
        theta[:, i, method.targets[i]] = row
    noisy = torch.einsum("ni,nij->nj", network[-1](features).softmax(1), theta)
    manual_loss = -noisy[torch.arange(8), labels].log().mean()
    moving = [*network.parameters(), method.u, method.W]
    assert_close(loss, manual_loss)
    for actual, expected in zip(
        torch.autograd.grad(loss, moving), torch.autograd.grad(manual_loss, moving), strict=True
    ):
        assert_close(actual, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("precision", ["bf16-mixed", "64-true"])
def test_c_model_trains_in_other_precisions(precision: str) -> None:
    trainer = trainer_with_networks("c_model", lambda: small_net(4, 3), precision, baseline=1, simple=1)
    trainer.run(do_nothing, do_nothing)
    assert trainer.method.u.abs().sum() > 0
    assert trainer.method.corrected_labels(trainer.predict_logits).isfinite().all()


@pytest.mark.parametrize("classes", [2, 1000])
def test_c_model_handles_few_and_many_classes(classes: int) -> None:
    labels = torch.arange(8) % classes
    method = prepared_method("c_model", labels.tolist(), classes)
    logits = torch.zeros(8, classes).scatter_(1, labels[:, None], 5.0)
    method.on_stage_start(Stage("simple", 1), lambda **_: logits)
    method.on_stage_start(Stage("complex", 1), lambda **_: logits)
    assert method.u.shape == (2, classes, min(100, classes))
    batch = Batch(torch.arange(8), labels, {"weak": torch.randn(8, 2)}, torch.arange(8))
    losses = method.loss(batch)
    losses.mean().backward()
    assert losses.shape == (8,)
    assert losses.isfinite().all()
    assert method.u.grad is not None
    assert method.u.grad.isfinite().all()


def test_c_model_rejects_zero_neighbors() -> None:
    with pytest.raises(ValueError, match=r"neighbors must lie in \[1, inf\), got 0"):
        find_method("c_model").build(neighbors=0)
