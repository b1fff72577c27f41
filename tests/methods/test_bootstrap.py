"""Bootstrapping: training steps against the formula, and the warm-up."""

import copy

import pytest
import torch
from torch import Tensor, nn

from permll.data import Batch
from permll.methods import find_method
from tests.helpers.method_training import ManualLoss, assert_weights_close, record_batches, train_manually
from tests.helpers.toy_training import build_trainer, do_nothing, points, run_steps


def soft(p: Tensor, batch: Batch) -> Tensor:
    return -((0.6 * nn.functional.one_hot(batch.labels, 3) + 0.4 * p) * p.log()).sum(1).mean()


def hard(p: Tensor, batch: Batch) -> Tensor:
    target = 0.6 * nn.functional.one_hot(batch.labels, 3) + 0.4 * nn.functional.one_hot(p.argmax(1), 3)
    return -(target * p.log()).sum(1).mean()


def plain(p: Tensor, batch: Batch) -> Tensor:
    return -(nn.functional.one_hot(batch.labels, 3) * p.log()).sum(1).mean()


@pytest.mark.parametrize(("name", "manual_loss"), [("bootstrap_soft", soft), ("bootstrap_hard", hard)])
def test_bootstrap_training_matches_manual_steps(name: str, manual_loss: ManualLoss) -> None:
    trainer = build_trainer(name, points(), {"beta": 0.6})
    initial = copy.deepcopy(trainer.method.networks["net"].module)
    recorded = record_batches(trainer)
    run_steps(trainer, 6)
    assert len(recorded) == 6
    assert_weights_close(trainer.method.networks["net"].module, train_manually(initial, recorded, manual_loss))


@pytest.mark.parametrize("name", ["bootstrap_soft", "bootstrap_hard"])
def test_bootstrap_warm_up_is_cross_entropy(name: str) -> None:
    trainer = build_trainer(name, points(), {"warm_up_epochs": 1, "beta": 0.6})
    initial = copy.deepcopy(trainer.method.networks["net"].module)
    warm_up, after = record_batches(trainer, "warm_up_loss"), record_batches(trainer)
    run_steps(trainer, 4)
    assert (len(warm_up), len(after)) == (4, 0)
    assert_weights_close(trainer.method.networks["net"].module, train_manually(initial, warm_up, plain))
    run_steps(trainer, 3)
    assert (len(warm_up), len(after)) == (4, 3)


def test_bootstrap_detached_target_is_scaled_cross_entropy() -> None:
    trainer = build_trainer("bootstrap_soft", points(), {"beta": 0.6, "detach_target": True})
    initial = copy.deepcopy(trainer.method.networks["net"].module)
    recorded = record_batches(trainer)
    run_steps(trainer, 6)
    expected = train_manually(initial, recorded, lambda p, batch: 0.6 * plain(p, batch))
    assert_weights_close(trainer.method.networks["net"].module, expected)


def test_bootstrap_beta_one_is_cross_entropy() -> None:
    trainers = [build_trainer(name, points(), {"beta": 1.0}) for name in ("bootstrap_soft", "bootstrap_hard")]
    trainers.append(build_trainer("ce", points()))
    for trainer in trainers:
        torch.manual_seed(5)
        trainer.run(do_nothing, do_nothing)
    for trainer in trainers[:2]:
        assert_weights_close(trainer.method.networks["net"].module, trainers[2].method.networks["net"].module)


@pytest.mark.parametrize("beta", [0.0, -0.2, 1.5])
def test_bootstrap_rejects_invalid_beta(beta: float) -> None:
    with pytest.raises(ValueError, match=r"beta must lie in \(0, 1\]"):
        find_method("bootstrap_soft").build(beta=beta)
