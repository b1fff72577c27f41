"""Symmetric learning: training steps against the formula."""

import copy
import math

import pytest
from torch import Tensor, nn

from permll.data import Batch
from permll.methods import find_method
from tests.helpers.method_training import assert_weights_close, record_batches, train_manually
from tests.helpers.toy_training import build_trainer, points, run_steps


def manual_loss(p: Tensor, batch: Batch) -> Tensor:
    label = nn.functional.one_hot(batch.labels, 3).float()
    cross_entropy = -(label * p.log()).sum(1)
    reverse = -(p * label.clamp_min(1e-4).log()).sum(1)  # as in the authors' code
    return (0.3 * cross_entropy + 0.8 * reverse).mean()


def test_sl_training_matches_manual_steps() -> None:
    trainer = build_trainer("sl", points(), {"alpha": 0.3, "beta": 0.8, "A": math.log(1e-4)})
    initial = copy.deepcopy(trainer.method.networks["net"].module)
    recorded = record_batches(trainer)
    run_steps(trainer, 6)
    assert_weights_close(trainer.method.networks["net"].module, train_manually(initial, recorded, manual_loss))


def test_sl_larger_a_equals_larger_beta() -> None:
    networks = []
    for settings in ({"A": math.log(1e-4)}, {"A": -4.0, "beta": -math.log(1e-4) / 4}):
        trainer = build_trainer("sl", points(), settings)
        run_steps(trainer, 6)
        networks.append(trainer.method.networks["net"].module)
    assert_weights_close(*networks)


@pytest.mark.parametrize("settings", [{"alpha": -0.1}, {"beta": -1.0}, {"A": 0.0}])
def test_sl_rejects_invalid_weights(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(settings))} must lie"):
        find_method("sl").build(**settings)
