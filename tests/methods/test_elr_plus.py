"""ELR+: targets of the peer, averaged weights, and training steps against a manual version."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from permll.data import Batch, LabeledData
from permll.data.transforms import mixup
from permll.methods import METHODS
from permll.methods.elr_plus import ELRPlus
from permll.training.trainer import Trainer
from tests.helpers.method_training import noisy_points
from tests.helpers.toy_training import build_trainer, do_nothing, equal_states, points, run_steps

ROWS = [[0, 3, 3, 7], [3, 1, 0, 3], [7, 7, 7, 2]]  # some samples twice or thrice in a batch


def linear(settings: dict[str, Any], rows: int = 12, epochs: int = 3) -> tuple[LabeledData, ELRPlus]:
    """Return the method with linear networks on a few points."""
    data = points(rows)
    method = METHODS["elr_plus"].build(**settings)
    assert isinstance(method, ELRPlus)
    from permll.methods import FitInfo

    for name in method.network_names:
        method.networks[name] = nn.Linear(4, 3)
    method.on_fit_start(FitInfo(data.labels, data.ids, 3, epochs, steps_per_epoch=3))
    return data, method


def batch_of(data: LabeledData, rows: list[int], seed: int) -> Batch:
    index = torch.tensor(rows)
    return Batch(index, data.labels[index], {"weak": data.inputs.batch(index)}, torch.arange(len(rows)) + 10 * seed)


def take_step(method: ELRPlus, batch: Batch) -> float:
    trained = method.networks[f"net{int(method.trained)}"]
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    optimizer.zero_grad()
    value = method.loss(batch).mean()
    value.backward()
    optimizer.step()
    method.on_step_end()
    return float(value.detach())


def slow_ramp(step: int, length: float) -> float:
    return math.exp(-5 * (1 - min(step / length, 1.0)) ** 2) if length else 1.0


@pytest.mark.parametrize("refine_labels", [False, True])
@pytest.mark.parametrize(("lam_ramp", "decay_ramp"), [(0.0, 0.5), (0.4, 0.0)])
def test_elr_plus_training_matches_manual_steps(refine_labels: bool, lam_ramp: float, decay_ramp: float) -> None:
    settings = {"beta": 0.6, "lam": 2.0, "decay": 0.8, "mixup": 2.0}
    settings |= {"refine_labels": refine_labels, "lam_ramp": lam_ramp, "decay_ramp": decay_ramp}
    data, method = linear(settings)
    nets = [
        {name: value.detach().clone().requires_grad_() for name, value in method.networks[f"net{n}"].named_parameters()}
        for n in range(2)
    ]
    means = [{name: value.detach().clone() for name, value in net.items()} for net in nets]
    memory = torch.zeros(2, 12, 3)
    steps = [0, 0]
    for epoch in range(3):
        for trained in range(2):
            method.train_pass(epoch, trained, torch.zeros)  # type: ignore[arg-type]
            for seed, rows in enumerate(ROWS):
                batch = batch_of(data, rows, seed)
                mix = mixup(batch.keys, 2.0, keep_first=True)
                weight, partner = mix.lam[0].item(), mix.partner.tolist()
                targets = []
                for i, row in enumerate(rows):
                    p_mean = (means[1 - trained]["weight"] @ batch.x[i] + means[1 - trained]["bias"]).softmax(0)
                    bounded = p_mean.clamp(1e-4, 1 - 1e-4)
                    memory[trained, row] = 0.6 * memory[trained, row] + 0.4 * bounded / bounded.sum()
                    targets.append(memory[trained, row].clone())
                losses = []
                for i, j in enumerate(partner):
                    x = weight * batch.x[i] + (1 - weight) * batch.x[j]
                    p = (nets[trained]["weight"] @ x + nets[trained]["bias"]).softmax(0)
                    t = weight * targets[i] + (1 - weight) * targets[j]
                    y = torch.zeros(3)
                    y[batch.labels[i]] += weight
                    y[batch.labels[j]] += 1 - weight
                    if refine_labels:
                        y = y * t / (y * t).sum()
                    regularizer = (
                        2.0 * slow_ramp(steps[trained], lam_ramp * 9) * (1 - t @ p.clamp(1e-4, 1 - 1e-4)).log()
                    )
                    losses.append(-(y * p.log()).sum() + regularizer)
                expected = torch.stack(losses).mean()
                gradients = torch.autograd.grad(expected, list(nets[trained].values()))
                assert take_step(method, batch) == pytest.approx(expected.item(), rel=1e-4)
                steps[trained] += 1
                decay = (
                    0.8 * slow_ramp(steps[trained], decay_ramp * 9)
                    if decay_ramp
                    else min(0.8, 1 - 1 / (steps[trained] + 1))
                )
                for (name, value), gradient in zip(nets[trained].items(), gradients, strict=True):
                    value.data -= 0.1 * gradient
                    means[trained][name] = decay * means[trained][name] + (1 - decay) * value.detach()
    for n in range(2):
        assert_close(method._targets[n].values, memory[n], rtol=1e-4, atol=1e-5)
        for name, value in method.networks[f"net{n}"].named_parameters():
            assert_close(value.detach(), nets[n][name].detach(), rtol=1e-4, atol=1e-5)
        for name, value in method.networks[f"mean{n}"].named_parameters():
            assert_close(value.detach(), means[n][name], rtol=1e-4, atol=1e-5)


def test_elr_plus_initial_averages_equal_networks() -> None:
    trainer = build_trainer("elr_plus", points(), epochs=4)
    nets = {name: network.state_dict() for name, network in trainer.method.networks.items()}
    assert equal_states(dict(nets["net0"]), dict(nets["mean0"]))
    assert equal_states(dict(nets["net1"]), dict(nets["mean1"]))
    assert not equal_states(dict(nets["net0"]), dict(nets["net1"]))


def test_elr_plus_pass_updates_network_average_and_target() -> None:
    trainer = build_trainer("elr_plus", points(), epochs=2)
    for trained in (0, 1):
        before = {key: value.clone() for key, value in trainer.method.state_dict().items()}
        run_steps(trainer, 4)
        after = trainer.method.state_dict()
        moved = {key for key in after if not torch.equal(after[key], before[key])}
        weights = {key.split(".")[1] for key in moved if key.startswith("networks.") and key.endswith("weight")}
        assert weights == {f"net{trained}", f"mean{trained}"}
        assert {f"target{trained}.values"} == {key for key in moved if key.startswith("target")}
        # The peer's average predicts in training mode, which updates its batch norm statistics.
        assert any(f"mean{1 - trained}" in key and "running_mean" in key for key in moved)
        assert not any(f"mean{trained}" in key and "running_mean" in key for key in moved)


def test_elr_plus_predictions_and_corrected_labels() -> None:
    data, method = linear({})
    for rows in ROWS:
        take_step(method, batch_of(data, rows, 1))
    method.train_pass(0, 1, torch.zeros)  # type: ignore[arg-type]
    take_step(method, batch_of(data, [3, 5], 1))
    x = torch.randn(6, 4)
    expected = (method.networks["net0"](x).softmax(1) + method.networks["net1"](x).softmax(1)) / 2
    assert_close(method.predict(x), expected)
    labels = method.corrected_labels(torch.zeros)  # type: ignore[arg-type]
    both: Tensor = method.target0.values + method.target1.values
    visited = sorted({row for rows in ROWS for row in rows} | {5})
    assert_close(labels[visited], both[visited] / both[visited].sum(1, keepdim=True))
    unvisited = [row for row in range(12) if row not in visited]
    assert torch.equal(labels[unvisited], nn.functional.one_hot(data.labels[unvisited], 3).float())
    turned = (labels.argmax(1) != data.labels).double().mean().item()
    assert method.metrics()["corrected"] == pytest.approx(turned)


def test_elr_plus_epoch_is_balanced_draw() -> None:
    trainer = build_trainer("elr_plus", points(), {"draws": 30, "decay_ramp": 0.5}, epochs=4)
    recorded: list[tuple[int, int]] = []

    def after_step(trainer: Trainer) -> None:
        recorded.append((trainer.epoch, trainer.pass_number))

    trainer.run(after_step, do_nothing)
    assert [recorded.count((epoch, number)) for epoch in range(4) for number in (0, 1)] == [2] * 8
    assert trainer.method._total_steps == 8, "half of four steps in four epochs"
    assert trainer.method.steps.tolist() == [8, 8]


def test_elr_plus_corrects_wrong_labels() -> None:
    data, wrong = noisy_points()
    trainer = build_trainer("elr_plus", data, epochs=20)
    trainer.run(do_nothing, do_nothing)
    truth = points(240).labels
    corrected = (trainer.method.corrected_labels(trainer.predict_logits).argmax(1) == truth).float().mean()
    quality = trainer.method.label_quality(trainer.predict_logits)
    assert corrected > (~wrong).float().mean() + 0.2
    assert quality[~wrong].mean() > quality[wrong].mean() + 0.2
    assert (trainer.predict(data).argmax(1) == truth).float().mean() > 0.9


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beta": 1.0}, "beta must lie"),
        ({"decay": 1.0}, "decay must lie"),
        ({"lam": -1.0}, "lam must lie"),
        ({"mixup": 0.0}, "mixup must lie"),
        ({"lam_ramp": 2.0}, "lam_ramp must lie"),
        ({"decay_ramp": -0.1}, "decay_ramp must lie"),
        ({"draws": 1}, "draws must lie"),
    ],
)
def test_elr_plus_rejects_invalid_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        METHODS["elr_plus"].build(**settings)
