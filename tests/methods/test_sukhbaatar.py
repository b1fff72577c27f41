"""The linear noise layer: freezing, training, decay and projection."""

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from permll.functional.noise_adaptation import project_to_stochastic
from permll.methods import find_method
from permll.training.trainer import Trainer
from tests.helpers.method_training import STEPS_PER_EPOCH, flip_labels, record_batches, run_baseline
from tests.helpers.toy_training import build_trainer, do_nothing, points, run_steps


def clamped_identity(classes: int, min_entry: float = 0.01) -> torch.Tensor:
    off_diagonal = min_entry / classes
    return off_diagonal + (1 - classes * off_diagonal) * torch.eye(classes)


def test_sukhbaatar_layer_stays_stochastic() -> None:
    trainer = build_trainer(
        "sukhbaatar", flip_labels(points()), {"freeze": 2, "lr_factor": 1.0, "decay": 1.0}, epochs=8
    )
    recorded: list[torch.Tensor] = []

    def after_step(trainer: Trainer) -> None:
        recorded.append(trainer.method.Q.detach().clone())

    trainer.run(after_step, do_nothing)
    assert all(torch.equal(Q, recorded[0]) for Q in recorded[: 2 * STEPS_PER_EPOCH])
    assert_close(recorded[0], clamped_identity(3))
    assert not torch.equal(recorded[2 * STEPS_PER_EPOCH], recorded[0])
    for Q in recorded:
        assert_close(Q.sum(1), torch.ones(3))
        assert Q.min() >= 0.01 / 3 * (1 - 1e-4)


@pytest.mark.parametrize("lr_factor", [1.0, 0.25])
def test_sukhbaatar_training_matches_manual_steps(lr_factor: float) -> None:
    settings: dict[str, Any] = {"decay": 0.7, "lr_factor": lr_factor, "min_entry": 0.03}
    trainer = run_baseline("sukhbaatar", flip_labels(points()), 16, **settings)
    recorded = record_batches(
        trainer,
        snapshot=lambda: (trainer.method.Q.detach().clone(), copy.deepcopy(trainer.method.networks["net"].module)),
    )
    run_steps(trainer, 5)
    Q, network = recorded[0][2]
    assert_close(Q, clamped_identity(3, 0.03))
    Q = nn.Parameter(Q)
    network_optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    layer_optimizer = torch.optim.SGD([Q], lr=0.05 * lr_factor, momentum=0.9)
    for batch, rng_state, _ in recorded:
        torch.set_rng_state(rng_state)
        network_optimizer.zero_grad()
        layer_optimizer.zero_grad()
        noisy = network(batch.x).softmax(1) @ Q
        nll = -noisy[torch.arange(len(batch.labels)), batch.labels].log().mean()
        (nll + 0.7 / 2 * sum((Q[i] ** 2).sum() for i in range(3)) / 3).backward()
        network_optimizer.step()
        layer_optimizer.step()
        Q.data = project_to_stochastic(Q.data, 0.01)
    assert_close(trainer.method.Q, Q, rtol=1e-4, atol=1e-6)
    for actual, expected in zip(trainer.method.networks["net"].parameters(), network.parameters(), strict=True):
        assert_close(actual, expected, rtol=1e-4, atol=1e-6)


def test_sukhbaatar_decay_lowers_diagonal() -> None:
    clean = points(300)
    diagonals = {}
    for decay in (0.0, 0.3):
        trainer = build_trainer(
            "sukhbaatar", flip_labels(clean), {"freeze": 0.2, "lr_factor": 0.3, "decay": decay}, epochs=20
        )
        trainer.run(do_nothing, do_nothing)
        diagonals[decay] = trainer.method.metrics()["T_diagonal"]
    corrected = trainer.method.corrected_labels(trainer.predict_logits).argmax(1)
    assert (corrected == clean.labels).float().mean() > 0.9
    assert diagonals[0.3] < diagonals[0.0] < 1
    assert diagonals[0.3] > 0.6, "the noise leaves 0.6, 0.6 and 1"


@pytest.mark.parametrize("settings", [{"decay": -1.0}, {"lr_factor": 0.0}, {"min_entry": 0.0}, {"min_entry": 1.0}])
def test_sukhbaatar_rejects_invalid_settings(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(settings))} must lie"):
        find_method("sukhbaatar").build(**settings)
