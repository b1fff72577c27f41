"""Decoupling: selection by disagreement, and the warm-up."""

from typing import Any

import pytest
import torch
from torch import nn

from permll.methods import METHODS
from permll.methods.decoupling import Decoupling
from tests.helpers.method_training import (
    loss_names,
    network_gradients,
    noisy_points,
    predictions_of,
    two_linear_networks,
)
from tests.helpers.toy_training import build_trainer, do_nothing, points, run_steps


@pytest.mark.parametrize("min_fraction", [0.0, 0.1, 0.9])
def test_decoupling_loss_matches_loops(min_fraction: float) -> None:
    _, method, batch = two_linear_networks("decoupling", {"min_fraction": min_fraction})
    one, other = predictions_of(method, batch)
    selected = [p.index(max(p)) != q.index(max(q)) for p, q in zip(one, other, strict=True)]
    assert 2 <= sum(selected) <= 9
    weight = 12 / max(sum(selected), min_fraction * 12)
    actual = method.loss(batch)
    for i, y in enumerate(batch.labels.tolist()):
        expected = -weight * (torch.tensor([one[i][y], other[i][y]]).log().sum().item()) if selected[i] else 0.0
        assert actual[i].item() == pytest.approx(expected, rel=1e-5)
    assert method.metrics() == {"kept": pytest.approx(sum(selected) / 12)}


def test_decoupling_network_uses_own_loss() -> None:
    _, method, batch = two_linear_networks("decoupling", {"min_fraction": 0.0})
    selected = method.networks["net0"](batch.x).argmax(1) != method.networks["net1"](batch.x).argmax(1)
    actual = network_gradients(method, method.loss(batch).mean())
    expected = []
    for network in method.networks.values():
        loss = nn.functional.cross_entropy(network(batch.x[selected]), batch.labels[selected])
        expected += list(torch.autograd.grad(loss, list(network.parameters())))
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("min_fraction", [0.0, 0.1])
def test_decoupling_agreement_has_zero_gradient(min_fraction: float) -> None:
    _, method, batch = two_linear_networks("decoupling", {"min_fraction": min_fraction})
    method.networks["net1"].load_state_dict(method.networks["net0"].state_dict())
    loss = method.loss(batch)
    assert loss.tolist() == [0.0] * 12
    assert all(not gradient.any() for gradient in network_gradients(method, loss.mean()))


def test_decoupling_networks_have_different_initial_weights(tmp_path: Any) -> None:
    from permll.training.train import train

    run = train(method="decoupling", recipe="tiny/digits", epochs=1, out=tmp_path / "run", callbacks=[])
    assert run.metrics[0]["kept"] > 0.1, "networks with equal weights never disagree"


def test_decoupling_warm_up_uses_all_samples() -> None:
    trainer = build_trainer("decoupling", points(), {"warm_up": 0.25}, epochs=12)
    assert loss_names(trainer, 12) == ["warm_up_loss"] * 3 + ["loss"] * 9
    assert loss_names(build_trainer("decoupling", points(), epochs=3), 3) == ["loss"] * 3
    _, method, batch = two_linear_networks("decoupling")
    one, other = predictions_of(method, batch)
    expected = [-torch.tensor([one[i][y], other[i][y]]).log().sum().item() for i, y in enumerate(batch.labels.tolist())]
    assert method.warm_up_loss(batch).tolist() == pytest.approx(expected, rel=1e-5)
    assert method.metrics()["kept"] == 1.0


def test_decoupling_counts_selected_samples_per_epoch() -> None:
    trainer = build_trainer("decoupling", points(), {"warm_up": 1}, epochs=4)
    run_steps(trainer, 4)
    assert trainer.method.visits.tolist() == [60, 60]
    run_steps(trainer, 3)
    assert trainer.method.visits[1] == 48, "three batches of the second epoch"


def test_decoupling_corrects_some_wrong_labels() -> None:
    data, _ = noisy_points()
    trainer = build_trainer("decoupling", data, epochs=24)
    trainer.run(do_nothing, do_nothing)
    assert isinstance(trainer.method, Decoupling)
    truth = points(240).labels
    corrected = (trainer.method.corrected_labels(trainer.predict_logits).argmax(1) == truth).float().mean()
    assert corrected > (data.labels == truth).float().mean()
    assert (trainer.predict(data).argmax(1) == truth).float().mean() > 0.85


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"warm_up": -1}, r"warm_up must lie in \[0, inf\), got -1"),
        ({"min_fraction": 2}, r"min_fraction must lie in \[0, 1\], got 2"),
    ],
)
def test_decoupling_rejects_invalid_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        METHODS["decoupling"].build(**settings)
