"""JoCoR: joint loss, selection and co-regularization."""

import math
from typing import Any

import pytest
import torch

from permll.methods import METHODS
from tests.helpers.method_training import network_gradients, predictions_of, small_loss_positions, two_linear_networks


@pytest.mark.parametrize("drop", [0.0, 0.4, 0.99])
def test_jocor_loss_matches_loops(drop: float) -> None:
    _, method, batch = two_linear_networks("jocor", {"lam": 0.7})
    method.drop.fill_(drop)
    one, other = predictions_of(method, batch)
    joint = []
    for p, q, y in zip(one, other, batch.labels.tolist(), strict=True):
        divergence = sum((a - b) * math.log(a / b) for a, b in zip(p, q, strict=True))
        joint.append(0.3 * (-math.log(p[y]) - math.log(q[y])) + 0.7 * divergence)
    selected = small_loss_positions(joint, drop, list(range(12)))
    expected = [12 / len(selected) * loss if i in selected else 0.0 for i, loss in enumerate(joint)]
    assert method.loss(batch).tolist() == pytest.approx(expected, rel=1e-4)
    assert method.metrics()["kept"] == pytest.approx(len(selected) / 12)


def test_jocor_dropped_samples_have_no_gradient() -> None:
    _, method, batch = two_linear_networks("jocor")
    method.drop.fill_(0.5)
    loss = method.loss(batch)
    actual = network_gradients(method, loss.mean())
    kept = loss.detach() > 0
    assert int(kept.sum()) == 6
    kept_batch = type(batch)(batch.index[kept], batch.labels[kept], {"weak": batch.x[kept]}, batch.keys[kept])
    method.drop.fill_(0.0)
    torch.testing.assert_close(actual, network_gradients(method, method.loss(kept_batch).mean()))


def test_jocor_co_regularization_increases_agreement() -> None:
    def mean_distance(lam: float) -> float:
        _, method, batch = two_linear_networks("jocor", {"lam": lam})
        optimizer = torch.optim.SGD(method.networks.parameters(), lr=0.3)
        for _ in range(20):
            optimizer.zero_grad()
            method.loss(batch).mean().backward()
            optimizer.step()
        one, other = (torch.tensor(rows) for rows in predictions_of(method, batch))
        return (one - other).abs().sum(1).mean().item()

    assert mean_distance(0.9) < 0.6 * mean_distance(0.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lam": 1}, r"lam must lie in \[0, 1\), got 1"),
        ({"lam": -0.1}, r"lam must lie in \[0, 1\)"),
        ({"noise_rate": -1}, r"noise_rate must lie in \[0, 1\)"),
    ],
)
def test_jocor_rejects_invalid_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        METHODS["jocor"].build(**settings)
