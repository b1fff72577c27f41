"""Bootstrapping: its training is the formula's, step by step, and its warm-up is cross-entropy's."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from permll.data import Batch
from permll.methods import find_method
from permll.training.trainer import Trainer
from tests.helpers.toy_training import build_trainer, points
from tests.methods.test_contract import idle, run_steps

ByHand = Callable[[Tensor, Batch], Tensor]


def watch(trainer: Trainer, name: str = "loss") -> list[tuple[Batch, Tensor]]:
    """Return a list that fills with every batch of a loss, and with the generator's state before it."""
    seen: list[tuple[Batch, Tensor]] = []
    real = getattr(trainer.method, name)

    def watched(batch: Batch) -> Tensor:
        seen.append((batch, torch.get_rng_state()))
        return real(batch)

    setattr(trainer.method, name, watched)
    return seen


def train_by_hand(network: nn.Module, seen: list[tuple[Batch, Tensor]], loss: ByHand) -> nn.Module:
    """Return the network after plain steps on these batches; ``loss`` takes p and a batch and gives a mean."""
    network = copy.deepcopy(network).train()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    for batch, random in seen:
        torch.set_rng_state(random)
        optimizer.zero_grad()
        loss(network(batch.x).softmax(1), batch).backward()
        optimizer.step()
    return network


def assert_same_weights(one: nn.Module, other: nn.Module) -> None:
    for first, second in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-6)


def soft(p: Tensor, batch: Batch) -> Tensor:
    return -((0.6 * nn.functional.one_hot(batch.labels, 3) + 0.4 * p) * p.log()).sum(1).mean()


def hard(p: Tensor, batch: Batch) -> Tensor:
    target = 0.6 * nn.functional.one_hot(batch.labels, 3) + 0.4 * nn.functional.one_hot(p.argmax(1), 3)
    return -(target * p.log()).sum(1).mean()


def plain(p: Tensor, batch: Batch) -> Tensor:
    return -(nn.functional.one_hot(batch.labels, 3) * p.log()).sum(1).mean()


@pytest.mark.parametrize(("name", "by_hand"), [("bootstrap_soft", soft), ("bootstrap_hard", hard)])
def test_training_is_a_few_plain_steps(name: str, by_hand: ByHand) -> None:
    trainer = build_trainer(name, points(), {"beta": 0.6})
    initial = copy.deepcopy(trainer.method.networks["net"].module)
    seen = watch(trainer)
    run_steps(trainer, 6)
    assert len(seen) == 6
    assert_same_weights(trainer.method.networks["net"].module, train_by_hand(initial, seen, by_hand))


@pytest.mark.parametrize("name", ["bootstrap_soft", "bootstrap_hard"])
def test_warm_up_is_cross_entropy_for_so_many_epochs(name: str) -> None:
    trainer = build_trainer(name, points(), {"warm_up_epochs": 1, "beta": 0.6})
    initial = copy.deepcopy(trainer.method.networks["net"].module)
    warm_up, after = watch(trainer, "warm_up_loss"), watch(trainer)
    run_steps(trainer, 4)
    assert (len(warm_up), len(after)) == (4, 0)
    assert_same_weights(trainer.method.networks["net"].module, train_by_hand(initial, warm_up, plain))
    run_steps(trainer, 3)
    assert (len(warm_up), len(after)) == (4, 3)


def test_a_detached_target_trains_as_cross_entropy_times_beta() -> None:
    trainer = build_trainer("bootstrap_soft", points(), {"beta": 0.6, "detach_target": True})
    initial = copy.deepcopy(trainer.method.networks["net"].module)
    seen = watch(trainer)
    run_steps(trainer, 6)
    by_hand = train_by_hand(initial, seen, lambda p, batch: 0.6 * plain(p, batch))
    assert_same_weights(trainer.method.networks["net"].module, by_hand)


def test_a_beta_of_one_is_cross_entropy() -> None:
    loops = [build_trainer(name, points(), {"beta": 1.0}) for name in ("bootstrap_soft", "bootstrap_hard")]
    loops.append(build_trainer("ce", points()))
    for trainer in loops:
        torch.manual_seed(5)
        trainer.run(idle, idle)
    for trainer in loops[:2]:
        assert_same_weights(trainer.method.networks["net"].module, loops[2].method.networks["net"].module)


@pytest.mark.parametrize("beta", [0.0, -0.2, 1.5])
def test_a_share_that_is_none_is_refused(beta: float) -> None:
    with pytest.raises(ValueError, match="beta is the share of the given label"):
        find_method("bootstrap_soft").build(beta=beta)
