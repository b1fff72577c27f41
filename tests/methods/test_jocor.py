"""JoCoR: both networks learn from the same samples, by a loss that asks them to agree."""

import math
from typing import Any

import pytest
import torch

from permll.methods import METHODS
from tests.methods.test_co_teaching import smallest
from tests.methods.test_decoupling import gradients, said, two_linear


@pytest.mark.parametrize("drop", [0.0, 0.4, 0.99])
def test_the_loss_is_what_loops_make(drop: float) -> None:
    _, method, batch = two_linear("jocor", {"lam": 0.7})
    method.drop.fill_(drop)
    one, other = said(method, batch)
    joint = []
    for p, q, y in zip(one, other, batch.labels.tolist(), strict=True):
        apart = sum((a - b) * math.log(a / b) for a, b in zip(p, q, strict=True))
        joint.append(0.3 * (-math.log(p[y]) - math.log(q[y])) + 0.7 * apart)
    chosen = smallest(joint, drop, list(range(12)))
    expected = [12 / len(chosen) * loss if i in chosen else 0.0 for i, loss in enumerate(joint)]
    assert method.loss(batch).tolist() == pytest.approx(expected, rel=1e-4)
    assert method.metrics()["kept"] == pytest.approx(len(chosen) / 12)


def test_samples_that_are_left_out_pull_nobody() -> None:
    _, method, batch = two_linear("jocor")
    method.drop.fill_(0.5)
    loss = method.loss(batch)
    found = gradients(method, loss.mean())
    kept = loss.detach() > 0
    assert int(kept.sum()) == 6
    again = type(batch)(batch.index[kept], batch.labels[kept], {"weak": batch.x[kept]}, batch.keys[kept])
    method.drop.fill_(0.0)
    torch.testing.assert_close(found, gradients(method, method.loss(again).mean()))


def test_networks_come_to_agree() -> None:
    def apart(lam: float) -> float:
        _, method, batch = two_linear("jocor", {"lam": lam})
        optimizer = torch.optim.SGD(method.networks.parameters(), lr=0.3)
        for _ in range(20):
            optimizer.zero_grad()
            method.loss(batch).mean().backward()
            optimizer.step()
        one, other = (torch.tensor(rows) for rows in said(method, batch))
        return (one - other).abs().sum(1).mean().item()

    assert apart(0.9) < 0.6 * apart(0.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lam": 1}, r"lam must lie in \[0, 1\), or no label is learned; got 1"),
        ({"lam": -0.1}, r"lam must lie in \[0, 1\)"),
        ({"noise_rate": -1}, r"noise_rate must lie in \[0, 1\)"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        METHODS["jocor"].build(**settings)
