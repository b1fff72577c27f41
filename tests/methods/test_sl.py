"""Symmetric learning: its training is the formula's, step by step."""

import copy
import math

import pytest
from torch import Tensor, nn

from permll.data import Batch
from permll.methods import find_method
from tests.helpers.toy_training import build_trainer, points
from tests.methods.test_bootstrap import assert_same_weights, train_by_hand, watch
from tests.methods.test_contract import run_steps


def by_hand(p: Tensor, batch: Batch) -> Tensor:
    label = nn.functional.one_hot(batch.labels, 3).float()
    there = -(label * p.log()).sum(1)
    back = -(p * label.clamp_min(1e-4).log()).sum(1)  # as the authors' code has it
    return (0.3 * there + 0.8 * back).mean()


def test_training_is_a_few_plain_steps() -> None:
    trainer = build_trainer("sl", points(), {"alpha": 0.3, "beta": 0.8, "A": math.log(1e-4)})
    initial = copy.deepcopy(trainer.method.networks["net"].module)
    seen = watch(trainer)
    run_steps(trainer, 6)
    assert_same_weights(trainer.method.networks["net"].module, train_by_hand(initial, seen, by_hand))


def test_log_0_of_the_code_is_that_of_the_paper_with_a_larger_beta() -> None:
    states = []
    for settings in ({"A": math.log(1e-4)}, {"A": -4.0, "beta": -math.log(1e-4) / 4}):
        trainer = build_trainer("sl", points(), settings)
        run_steps(trainer, 6)
        states.append(trainer.method.networks["net"].module)
    assert_same_weights(*states)


@pytest.mark.parametrize("settings", [{"alpha": -0.1}, {"beta": -1.0}, {"A": 0.0}])
def test_weights_that_reward_wrong_labels_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must not be negative, and A must be"):
        find_method("sl").build(**settings)
