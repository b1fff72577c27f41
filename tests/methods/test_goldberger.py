"""The simple and the complex noise layer: where they begin, when they rest, and what they learn."""

import copy
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from permll.data import Batch, LabeledData
from permll.data.transforms import default_views
from permll.functional.transition import confusion_transition
from permll.methods import FitInfo, Stage, find_method
from permll.training.trainer import Trainer
from tests.helpers.toy_training import build_trainer, points, small_net
from tests.methods.test_contract import idle, run_steps

BOTH = pytest.mark.parametrize("name", ["s_model", "c_model"])
STEPS = 4  # of an epoch of sixty points


def turned(data: LabeledData, share: float = 0.4) -> LabeledData:
    """Return the data with this share of the labels 0 turned into 1, and of the labels 1 into 2."""
    labels = data.labels.clone()
    for label in (0, 1):
        rows = (data.labels == label).nonzero()[:, 0]
        labels[rows[: round(share * len(rows))]] = label + 1
    return data.relabel(labels)


def at_the_end_of_the_baseline(name: str, data: LabeledData, epochs: int, **settings: Any) -> Trainer:
    trainer = build_trainer(name, data, settings, epochs=epochs)
    for _ in trainer.each_epoch():
        if trainer.stage.name != "baseline":
            break
    return trainer


def loop_of(name: str, build: Callable[[], nn.Module], precision: Any = "32-true", **settings: Any) -> Trainer:
    """Return a loop of four epochs with any networks, in any precision."""
    from lightning_fabric import Fabric

    data = points()
    method = find_method(name).build(**settings)
    for network in method.network_names:
        method.networks[network] = build()
    return Trainer(
        Fabric(accelerator="cpu", devices=1, precision=precision),
        method,
        data,
        default_views(data.inputs),
        optimizer={"name": "sgd", "lr": 0.05, "momentum": 0.9},
        epochs=4,
        batch_size=16,
        validation=points(30, seed=2),
    )


def watch(trainer: Trainer, look: Callable[[], Any]) -> list[tuple[Batch, Tensor, Any]]:
    """Return a list that fills with every batch, the generator's state before it, and what there is to see then."""
    seen: list[tuple[Batch, Tensor, Any]] = []
    real = trainer.method.loss

    def watched(batch: Batch) -> Tensor:
        seen.append((batch, torch.get_rng_state(), look()))
        return real(batch)

    trainer.method.loss = watched
    return seen


def prepared(name: str, labels: list[int], classes: int, **settings: Any) -> Any:
    method = find_method(name).build(**settings)
    method.networks["net"] = nn.Linear(2, classes)
    method.on_fit_start(FitInfo(torch.tensor(labels), tuple(map(str, range(len(labels)))), classes, 10, 1))
    return method


# --- The stages -----------------------------------------------------------------------------------------------------


@BOTH
def test_the_layer_begins_with_the_confusion_of_the_best_baseline(name: str) -> None:
    trainer = at_the_end_of_the_baseline(name, turned(points()), 12)
    assert not trainer.method.known
    assert torch.equal(trainer.method.W, torch.zeros(3, 3)), "the layer rests in the baseline"
    assert trainer.stages.best is not None
    best = trainer.predict_logits(best=True)
    weights = copy.deepcopy(trainer.stages.best["networks"]["net"])
    seen = watch(
        trainer, lambda: (trainer.method.W.detach().clone(), copy.deepcopy(trainer.method.networks["net"].module))
    )
    run_steps(trainer, 2)
    W, network = seen[0][2]
    theta = confusion_transition(best.argmax(1), trainer.data.labels, 3)
    assert_close(W, (theta + 1e-8).log().float())
    assert all(torch.equal(network.state_dict()[key], value) for key, value in weights.items())
    assert not torch.equal(trainer.method.W, W), "and learns then"


def test_the_best_baseline_is_the_one_with_the_lowest_loss() -> None:
    method = prepared("s_model", [0, 1], 2)
    probabilities, labels = torch.tensor([[0.9, 0.1], [1.0, 0.0]]), torch.tensor([0, 0])
    assert method.score(probabilities, labels) == pytest.approx(torch.tensor(0.9).log().item() / 2)
    assert -100 < method.score(probabilities, torch.tensor([0, 1])) < -40, "a label held for impossible is no infinity"


def test_a_class_that_is_never_predicted_keeps_its_labels() -> None:
    method = prepared("s_model", [0, 1, 2, 2], 3)
    logits = torch.eye(3)[[0, 1, 1, 0]]
    method.on_stage_start(Stage("adapt", 1), lambda **_: logits)
    expected = torch.tensor([[0.5, 0.0, 0.5], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]])
    assert_close(method.transition, expected)
    assert method.W.isfinite().all()


@BOTH
def test_until_the_layer_is_there_labels_are_believed_as_predicted(name: str) -> None:
    trainer = build_trainer(name, points(), epochs=12)
    run_steps(trainer, STEPS)
    assert torch.equal(trainer.method.corrected_labels(trainer.predict_logits), trainer.predict_logits().softmax(-1))
    assert trainer.method.metrics()["T_diagonal"] == 1


# --- The simple model -----------------------------------------------------------------------------------------------


def test_training_with_the_layer_is_a_few_plain_steps() -> None:
    trainer = at_the_end_of_the_baseline("s_model", turned(points()), 16)
    seen = watch(
        trainer, lambda: (trainer.method.W.detach().clone(), copy.deepcopy(trainer.method.networks["net"].module))
    )
    run_steps(trainer, 5)
    W, network = seen[0][2]
    W = nn.Parameter(W)
    optimizer = torch.optim.SGD([W, *network.parameters()], lr=0.05, momentum=0.9)
    for batch, random, _ in seen:
        torch.set_rng_state(random)
        optimizer.zero_grad()
        noisy = network(batch.x).softmax(1) @ W.softmax(1)
        (-noisy[torch.arange(len(batch.labels)), batch.labels].log()).mean().backward()
        optimizer.step()
    assert_close(trainer.method.W, W, rtol=1e-4, atol=1e-6)
    for found, expected in zip(trainer.method.networks["net"].parameters(), network.parameters(), strict=True):
        assert_close(found, expected, rtol=1e-4, atol=1e-6)


@BOTH
def test_a_known_noise_is_found_and_seen_through(name: str) -> None:
    clean = points(300)
    trainer = build_trainer(name, turned(clean, 0.4), epochs=16)
    trainer.run(idle, idle)
    method = trainer.method
    expected = torch.tensor([[0.6, 0.4, 0.0], [0.0, 0.6, 0.4], [0.0, 0.0, 1.0]])
    assert (method.log_theta().exp() - expected).abs().max() < 0.15
    believed = method.corrected_labels(trainer.predict_logits)
    assert (believed.argmax(1) == clean.labels).float().mean() > 0.95
    wrong = trainer.data.labels != clean.labels
    quality = method.label_quality(trainer.predict_logits)
    assert quality[wrong].mean() < 0.3 < 0.8 < quality[~wrong].mean()


def test_beliefs_are_the_posterior_of_the_layer() -> None:
    trainer = build_trainer("s_model", turned(points()), epochs=8)
    trainer.run(idle, idle)
    joint = trainer.predict_logits().softmax(1) * trainer.method.W.detach().softmax(1)[:, trainer.data.labels].T
    assert_close(trainer.method.corrected_labels(trainer.predict_logits), joint / joint.sum(1, keepdim=True))


# --- The complex model ----------------------------------------------------------------------------------------------


def complex_loop(**settings: Any) -> Trainer:
    """Return a loop within the complex stage."""
    trainer = build_trainer("c_model", turned(points()), settings, epochs=10)
    run_steps(trainer, 9 * STEPS + 2)
    assert trainer.method.complex
    return trainer


def test_features_rest_until_the_complex_stage_which_goes_on_from_the_simple_one() -> None:
    trainer = build_trainer("c_model", turned(points()), {"baseline": 0.4, "simple": 0.2}, epochs=10)
    assert [stage.epochs for stage in trainer.stages.plan] == [4, 2, 4]
    run_steps(trainer, 6 * STEPS)
    W, network = trainer.method.W.detach().clone(), copy.deepcopy(trainer.method.networks["net"].state_dict())
    assert W.abs().sum() > 0
    assert torch.equal(trainer.method.u, torch.zeros(16, 3, 3))
    assert not trainer.method.complex
    simple = trainer.method.corrected_labels(trainer.predict_logits)
    trainer.stages.enter(7, trainer.predict_logits)
    assert trainer.method.complex
    assert torch.equal(trainer.method.W, W)
    assert all(torch.equal(trainer.method.networks["net"].state_dict()[key], value) for key, value in network.items())
    assert_close(trainer.method.corrected_labels(trainer.predict_logits), simple)  # with u = 0 nothing has changed


@pytest.mark.parametrize("neighbors", [2, 100])
def test_beliefs_are_the_posterior_of_the_layer_at_each_samples_features(neighbors: int) -> None:
    trainer = complex_loop(neighbors=neighbors)
    method, network = trainer.method, trainer.method.networks["net"].module.eval()
    x = trainer.views["plain"](trainer.data.inputs.batch(torch.arange(60)), torch.arange(60))
    with torch.no_grad():
        features = network[:-1](x)
        p = network[-1](features).softmax(1)
        expected = torch.zeros(60, 3)
        for n, label in enumerate(trainer.data.labels.tolist()):
            for i in range(3):
                kept = method.targets[i].tolist()
                w = {j: method.W[i, j] + features[n] @ method.u[:, i, k] for k, j in enumerate(kept)}
                total = torch.stack(list(w.values())).exp().sum()
                expected[n, i] = p[n, i] * (w[label].exp() / total if label in w else 0)
    assert method.u.abs().sum() > 0
    assert method.targets.shape == (3, min(neighbors, 3))
    assert_close(
        method.corrected_labels(trainer.predict_logits), expected / expected.sum(1, keepdim=True), rtol=1e-4, atol=1e-5
    )


def test_beliefs_ask_for_no_more_than_a_scan_that_remembers_its_answers() -> None:
    trainer = complex_loop()
    predict_logits = functools.cache(trainer.predict_logits)
    believed, quality = trainer.method.corrected_labels(predict_logits), trainer.method.label_quality(predict_logits)
    assert_close(quality, believed.gather(1, trainer.data.labels[:, None])[:, 0])
    assert list(trainer.method.networks) == ["net"]


def test_gradients_of_the_complex_model_reach_the_network_by_predictions_and_by_features() -> None:
    trainer = complex_loop()
    method, network = trainer.method, trainer.method.networks["net"].module.eval()
    x, labels = torch.randn(8, 4), torch.arange(8) % 3
    loss = method.loss(Batch(torch.arange(8), labels, {"weak": x}, torch.arange(8))).mean()
    features = network[:-1](x)
    theta = torch.zeros(8, 3, 3)
    for i in range(3):
        row = (features @ method.u[:, i] + method.W[i, method.targets[i]]).softmax(1)
        theta[:, i, method.targets[i]] = row
    noisy = torch.einsum("ni,nij->nj", network[-1](features).softmax(1), theta)
    by_hand = -noisy[torch.arange(8), labels].log().mean()
    moving = [*network.parameters(), method.u, method.W]
    assert_close(loss, by_hand)
    for found, expected in zip(torch.autograd.grad(loss, moving), torch.autograd.grad(by_hand, moving), strict=True):
        assert_close(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("precision", ["bf16-mixed", "64-true"])
def test_features_of_another_precision_are_taken(precision: str) -> None:
    trainer = loop_of("c_model", lambda: small_net(4, 3), precision, baseline=1, simple=1)
    trainer.run(idle, idle)
    assert trainer.method.u.abs().sum() > 0
    assert trainer.method.corrected_labels(trainer.predict_logits).isfinite().all()


@pytest.mark.parametrize("classes", [2, 1000])
def test_two_classes_and_a_thousand(classes: int) -> None:
    labels = torch.arange(8) % classes
    method = prepared("c_model", labels.tolist(), classes)
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


def test_a_class_turns_into_one_label_at_least() -> None:
    with pytest.raises(ValueError, match="neighbors must be one or more, got 0"):
        find_method("c_model").build(neighbors=0)
