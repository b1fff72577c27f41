"""PermLL+: the method is the permutation layer; validation data replace the layer's held-out samples."""

from typing import cast

import pytest
import torch
from torch.testing import assert_close

from permll.layer.module import PermutationLayer
from permll.methods._base import PredictLogits
from tests.helpers.manual_steps import batch_of, prepare, take_step
from tests.helpers.toy_training import points

NAME = "permll_plus"
N = 600


def predictor(train_logits: torch.Tensor, held_out_logits: torch.Tensor) -> PredictLogits:
    """Return a ``predict_logits`` with these logits for training and for held-out samples."""

    def predict_logits(
        *_: object, rows: torch.Tensor | None = None, held_out: bool = False, **__: object
    ) -> torch.Tensor:
        return held_out_logits if held_out else train_logits if rows is None else train_logits[rows]

    return cast("PredictLogits", predict_logits)


@pytest.mark.parametrize("has_validation", [True, False])
def test_permll_plus_takes_the_steps_of_the_layer(has_validation: bool) -> None:
    data, validation = points(N), points(60, seed=1)
    method = prepare(NAME, data, held_out=validation.labels if has_validation else None)
    layer = PermutationLayer(data.labels, 3, held_out=0.0 if has_validation else 0.05, ids=data.ids)
    assert (layer.loss_weight.values == 0).sum() == (0 if has_validation else 30)
    net = torch.nn.Linear(4, 3)
    net.load_state_dict(method.networks["net"].state_dict())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for rows in torch.arange(N).split(100):
        batch = batch_of(data, rows.tolist())
        loss = layer(net(batch.x), batch.index)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        layer.step()
        assert take_step(method, batch) == pytest.approx(loss.item())
    for name, value in layer.state_dict().items():
        assert_close(method.layer.state_dict()[name], value)
    assert torch.equal(method.corrected_labels(torch.zeros), layer.class_probs())
    assert torch.equal(method.label_quality(torch.zeros), layer.label_quality())


def test_permll_plus_estimates_noise_on_validation_data() -> None:
    """Every fifth label is wrong, and memorized by the network. The first estimate has none before it to compare."""
    data, validation = points(N), points(200, seed=1)
    given, given_validation = (
        torch.where(torch.arange(len(one)) % 5 == 0, (one.labels + 1) % 3, one.labels) for one in (data, validation)
    )
    method = prepare(NAME, data.relabel(given), held_out=given_validation)
    one_hot = torch.nn.functional.one_hot
    memorized = 6.0 * one_hot(data.labels, 3) + 9.0 * (given != data.labels)[:, None] * one_hot(given, 3)
    for epoch in range(2):  # held-out labels become less likely, as the network becomes more confident
        assert method.layer.is_warm_up
        method.on_epoch_end(epoch, predictor(memorized, (6.0 + epoch) * one_hot(validation.labels, 3)))
    assert not method.layer.is_warm_up
    assert method.layer.learned.all()
    assert method.layer.estimates.influence > 1
    learned = prepare(NAME, data.relabel(given), held_out=given_validation)
    for epoch in range(2):
        learned.on_epoch_end(epoch, predictor(6.0 * one_hot(data.labels, 3), 6.0 * one_hot(validation.labels, 3)))
    assert learned.layer.is_warm_up
    assert learned.metrics() == {"corrected": 0.0, "right": pytest.approx(0.8, abs=0.01)}


def test_few_validation_samples_are_not_used() -> None:
    data = points(N)
    method = prepare(NAME, data, held_out=torch.zeros(19, dtype=torch.int64))
    assert method.resolved_params() == {"held_out": 0.05}
    method.on_epoch_end(0, torch.zeros)  # predicts nothing
    assert method.layer.estimates.accuracy == 1


def test_held_out_fraction_is_a_setting() -> None:
    method = prepare(NAME, points(N), {"held_out": 0.2})
    assert (method.layer.loss_weight.values == 0).sum() == 120
