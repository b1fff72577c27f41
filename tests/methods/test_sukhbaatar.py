"""The linear noise layer: it rests, learns, decays, and stays stochastic."""

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from permll.functional.noise_adaptation import project_to_stochastic
from permll.methods import find_method
from permll.training.trainer import Trainer
from tests.helpers.toy_training import build_trainer, points
from tests.methods.test_contract import idle, run_steps
from tests.methods.test_goldberger import STEPS, at_the_end_of_the_baseline, turned, watch


def almost_identity(classes: int, least: float = 0.01) -> torch.Tensor:
    off = least / classes
    return off + (1 - classes * off) * torch.eye(classes)


def test_the_layer_is_the_identity_while_it_rests_and_stochastic_when_it_learns() -> None:
    trainer = build_trainer("sukhbaatar", turned(points()), {"freeze": 2, "pace": 1.0, "decay": 1.0}, epochs=8)
    seen: list[torch.Tensor] = []

    def after_step(trainer: Trainer) -> None:
        seen.append(trainer.method.Q.detach().clone())

    trainer.run(after_step, idle)
    assert all(torch.equal(Q, seen[0]) for Q in seen[: 2 * STEPS])
    assert_close(seen[0], almost_identity(3))
    assert not torch.equal(seen[2 * STEPS], seen[0])
    for Q in seen:
        assert_close(Q.sum(1), torch.ones(3))
        assert Q.min() >= 0.01 / 3 * (1 - 1e-4)


@pytest.mark.parametrize("pace", [1.0, 0.25])
def test_training_with_the_layer_is_a_few_plain_steps_each_followed_by_a_projection(pace: float) -> None:
    settings: dict[str, Any] = {"decay": 0.7, "pace": pace, "least": 0.03}
    trainer = at_the_end_of_the_baseline("sukhbaatar", turned(points()), 16, **settings)
    seen = watch(
        trainer, lambda: (trainer.method.Q.detach().clone(), copy.deepcopy(trainer.method.networks["net"].module))
    )
    run_steps(trainer, 5)
    Q, network = seen[0][2]
    assert_close(Q, almost_identity(3, 0.03))
    Q = nn.Parameter(Q)
    by_net = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    by_layer = torch.optim.SGD([Q], lr=0.05 * pace, momentum=0.9)
    for batch, random, _ in seen:
        torch.set_rng_state(random)
        by_net.zero_grad()
        by_layer.zero_grad()
        noisy = network(batch.x).softmax(1) @ Q
        nll = -noisy[torch.arange(len(batch.labels)), batch.labels].log().mean()
        (nll + 0.7 / 2 * sum((Q[i] ** 2).sum() for i in range(3)) / 3).backward()
        by_net.step()
        by_layer.step()
        Q.data = project_to_stochastic(Q.data, 0.01)
    assert_close(trainer.method.Q, Q, rtol=1e-4, atol=1e-6)
    for found, expected in zip(trainer.method.networks["net"].parameters(), network.parameters(), strict=True):
        assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_the_decay_drives_the_layer_from_the_identity_and_not_below_what_the_noise_is() -> None:
    clean = points(300)
    diagonals = {}
    for decay in (0.0, 0.3):
        trainer = build_trainer("sukhbaatar", turned(clean), {"freeze": 0.2, "pace": 0.3, "decay": decay}, epochs=20)
        trainer.run(idle, idle)
        diagonals[decay] = trainer.method.metrics()["T_diagonal"]
    believed = trainer.method.corrected_labels(trainer.predict_logits).argmax(1)
    assert (believed == clean.labels).float().mean() > 0.9
    assert diagonals[0.3] < diagonals[0.0] < 1
    assert diagonals[0.3] > 0.6, "the noise leaves 0.6, 0.6 and 1"


@pytest.mark.parametrize("settings", [{"decay": -1.0}, {"pace": 0.0}, {"least": 0.0}, {"least": 1.0}])
def test_settings_that_make_no_sense_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must hold"):
        find_method("sukhbaatar").build(**settings)
