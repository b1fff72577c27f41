"""ELR+: crosswise memories, means that follow, and steps against a straight-line form."""

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
from tests.helpers.toy_training import build_trainer, points
from tests.methods.test_contract import idle, run_steps, same
from tests.methods.test_selc import noisy_points

ROWS = [[0, 3, 3, 7], [3, 1, 0, 3], [7, 7, 7, 2]]  # some samples twice or thrice in a batch


def linear(settings: dict[str, Any], rows: int = 12, epochs: int = 3) -> tuple[LabeledData, ELRPlus]:
    """Return the method on a few points, with linear networks and their means."""
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
    own = method.networks[f"net{int(method.turn)}"]
    optimizer = torch.optim.SGD(own.parameters(), lr=0.1)
    optimizer.zero_grad()
    value = method.loss(batch).mean()
    value.backward()
    optimizer.step()
    method.on_step_end()
    return float(value.detach())


def slow_rise(step: int, length: float) -> float:
    return math.exp(-5 * (1 - min(step / length, 1.0)) ** 2) if length else 1.0


@pytest.mark.parametrize("supported", [False, True])
@pytest.mark.parametrize(("lam_ramp", "decay_ramp"), [(0.0, 0.5), (0.4, 0.0)])
def test_steps_are_those_of_the_straight_line(supported: bool, lam_ramp: float, decay_ramp: float) -> None:
    settings = {"beta": 0.6, "lam": 2.0, "decay": 0.8, "mixup": 2.0}
    settings |= {"supported": supported, "lam_ramp": lam_ramp, "decay_ramp": decay_ramp}
    data, method = linear(settings)
    nets = [
        {name: value.detach().clone().requires_grad_() for name, value in method.networks[f"net{n}"].named_parameters()}
        for n in range(2)
    ]
    means = [{name: value.detach().clone() for name, value in net.items()} for net in nets]
    memory = torch.zeros(2, 12, 3)
    steps = [0, 0]
    for epoch in range(3):
        for own in range(2):
            method.train_pass(epoch, own, torch.zeros)  # type: ignore[arg-type]
            for seed, rows in enumerate(ROWS):
                batch = batch_of(data, rows, seed)
                mix = mixup(batch.keys, 2.0, keep_first=True)
                share, partner = mix.lam[0].item(), mix.partner.tolist()
                remembered = []
                for i, row in enumerate(rows):
                    said = (means[1 - own]["weight"] @ batch.x[i] + means[1 - own]["bias"]).softmax(0)
                    bounded = said.clamp(1e-4, 1 - 1e-4)
                    memory[own, row] = 0.6 * memory[own, row] + 0.4 * bounded / bounded.sum()
                    remembered.append(memory[own, row].clone())
                losses = []
                for i, j in enumerate(partner):
                    x = share * batch.x[i] + (1 - share) * batch.x[j]
                    p = (nets[own]["weight"] @ x + nets[own]["bias"]).softmax(0)
                    t = share * remembered[i] + (1 - share) * remembered[j]
                    y = torch.zeros(3)
                    y[batch.labels[i]] += share
                    y[batch.labels[j]] += 1 - share
                    if supported:
                        y = y * t / (y * t).sum()
                    pull = 2.0 * slow_rise(steps[own], lam_ramp * 9) * (1 - t @ p.clamp(1e-4, 1 - 1e-4)).log()
                    losses.append(-(y * p.log()).sum() + pull)
                expected = torch.stack(losses).mean()
                gradients = torch.autograd.grad(expected, list(nets[own].values()))
                assert take_step(method, batch) == pytest.approx(expected.item(), rel=1e-4)
                steps[own] += 1
                decay = (
                    0.8 * slow_rise(steps[own], decay_ramp * 9) if decay_ramp else min(0.8, 1 - 1 / (steps[own] + 1))
                )
                for (name, value), gradient in zip(nets[own].items(), gradients, strict=True):
                    value.data -= 0.1 * gradient
                    means[own][name] = decay * means[own][name] + (1 - decay) * value.detach()
    for n in range(2):
        assert_close(method._targets[n].values, memory[n], rtol=1e-4, atol=1e-5)
        for name, value in method.networks[f"net{n}"].named_parameters():
            assert_close(value.detach(), nets[n][name].detach(), rtol=1e-4, atol=1e-5)
        for name, value in method.networks[f"mean{n}"].named_parameters():
            assert_close(value.detach(), means[n][name], rtol=1e-4, atol=1e-5)


def test_means_begin_as_copies_and_the_networks_differ() -> None:
    trainer = build_trainer("elr_plus", points(), epochs=4)
    nets = {name: network.state_dict() for name, network in trainer.method.networks.items()}
    assert same(dict(nets["net0"]), dict(nets["mean0"]))
    assert same(dict(nets["net1"]), dict(nets["mean1"]))
    assert not same(dict(nets["net0"]), dict(nets["net1"]))


def test_in_its_turn_a_network_its_mean_and_its_memory_move() -> None:
    trainer = build_trainer("elr_plus", points(), epochs=2)
    for own in (0, 1):
        before = {key: value.clone() for key, value in trainer.method.state_dict().items()}
        run_steps(trainer, 4)
        after = trainer.method.state_dict()
        moved = {key for key in after if not torch.equal(after[key], before[key])}
        weights = {key.split(".")[1] for key in moved if key.startswith("networks.") and key.endswith("weight")}
        assert weights == {f"net{own}", f"mean{own}"}
        assert {f"target{own}.values"} == {key for key in moved if key.startswith("target")}
        # It is the other's mean that spoke, in training mode: its batch norms keep count.
        assert any(f"mean{1 - own}" in key and "running_mean" in key for key in moved)
        assert not any(f"mean{own}" in key and "running_mean" in key for key in moved)


def test_networks_predict_and_memories_label() -> None:
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
    strangers = [row for row in range(12) if row not in visited]
    assert torch.equal(labels[strangers], nn.functional.one_hot(data.labels[strangers], 3).float())
    turned = (labels.argmax(1) != data.labels).double().mean().item()
    assert method.metrics()["turned"] == pytest.approx(turned)


def test_a_balanced_draw_is_an_epoch() -> None:
    trainer = build_trainer("elr_plus", points(), {"draws": 30, "decay_ramp": 0.5}, epochs=4)
    seen: list[tuple[int, int]] = []

    def after_step(trainer: Trainer) -> None:
        seen.append((trainer.epoch, trainer.number))

    trainer.run(after_step, idle)
    assert [seen.count((epoch, number)) for epoch in range(4) for number in (0, 1)] == [2] * 8
    assert trainer.method._total == 8, "half of four steps, four times"
    assert trainer.method.steps.tolist() == [8, 8]


def test_wrong_labels_are_found_and_corrected() -> None:
    data, wrong = noisy_points()
    trainer = build_trainer("elr_plus", data, epochs=20)
    trainer.run(idle, idle)
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
        ({"lam": -1.0}, "lam must be 0"),
        ({"mixup": 0.0}, "mixup positive"),
        ({"lam_ramp": 2.0}, "lam_ramp is a share"),
        ({"decay_ramp": -0.1}, "decay_ramp is a share"),
        ({"draws": 1}, "draws must be two"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        METHODS["elr_plus"].build(**settings)
