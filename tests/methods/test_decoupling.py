"""Decoupling: who is in dispute, what a batch without dispute does, and when the warm-up ends."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from permll.data import Batch
from permll.methods import METHODS
from permll.methods.decoupling import Decoupling
from permll.training.trainer import Trainer
from tests.helpers.toy_training import build_trainer, points
from tests.methods.test_contract import idle, run_steps
from tests.methods.test_selc import losses_of, noisy_points


def two_linear(name: str, settings: dict[str, Any] | None = None, rows: int = 12) -> tuple[Trainer, Any, Batch]:
    """Return a method of two linear networks, which say the same in all modes, and a batch."""
    trainer = build_trainer(name, points(), settings, epochs=20)
    torch.manual_seed(3)
    for network in trainer.method.network_names:
        trainer.method.networks[network] = nn.Linear(4, 3)
    index = torch.arange(rows)
    return trainer, trainer.method, Batch(index, trainer.data.labels[index], {"weak": torch.randn(rows, 4)}, index)


def said(method: Any, batch: Batch) -> tuple[list[list[float]], list[list[float]]]:
    """Return what both networks predict for a batch."""
    with torch.no_grad():
        one, other = (network(batch.x).softmax(1).tolist() for network in method.networks.values())
    return one, other


def gradients(method: Any, loss: Tensor) -> list[Tensor]:
    found = torch.autograd.grad(loss, list(method.networks.parameters()))
    return list(found)


@pytest.mark.parametrize("least", [0.0, 0.1, 0.9])
def test_the_loss_is_what_loops_make(least: float) -> None:
    _, method, batch = two_linear("decoupling", {"least": least})
    one, other = said(method, batch)
    disputed = [p.index(max(p)) != q.index(max(q)) for p, q in zip(one, other, strict=True)]
    assert 2 <= sum(disputed) <= 9
    weight = 12 / max(sum(disputed), least * 12)
    found = method.loss(batch)
    for i, y in enumerate(batch.labels.tolist()):
        expected = -weight * (torch.tensor([one[i][y], other[i][y]]).log().sum().item()) if disputed[i] else 0.0
        assert found[i].item() == pytest.approx(expected, rel=1e-5)
    assert method.metrics() == {"kept": pytest.approx(sum(disputed) / 12)}


def test_each_network_learns_by_its_own_loss() -> None:
    _, method, batch = two_linear("decoupling", {"least": 0.0})
    disputed = method.networks["net0"](batch.x).argmax(1) != method.networks["net1"](batch.x).argmax(1)
    found = gradients(method, method.loss(batch).mean())
    expected = []
    for network in method.networks.values():
        loss = nn.functional.cross_entropy(network(batch.x[disputed]), batch.labels[disputed])
        expected += list(torch.autograd.grad(loss, list(network.parameters())))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("least", [0.0, 0.1])
def test_networks_that_agree_have_no_gradient(least: float) -> None:
    _, method, batch = two_linear("decoupling", {"least": least})
    method.networks["net1"].load_state_dict(method.networks["net0"].state_dict())
    loss = method.loss(batch)
    assert loss.tolist() == [0.0] * 12
    assert all(not gradient.any() for gradient in gradients(method, loss.mean()))


def test_networks_begin_with_weights_of_their_own(tmp_path: Any) -> None:
    from permll.training.train import train

    run = train(method="decoupling", recipe="tiny/digits", epochs=1, out=tmp_path / "run", callbacks=[])
    assert run.metrics[0]["kept"] > 0.1, "the same weights would never disagree"


def test_the_warm_up_learns_from_all() -> None:
    trainer = build_trainer("decoupling", points(), {"warm_up": 0.25}, epochs=12)
    assert losses_of(trainer, 12) == ["learn_all"] * 3 + ["loss"] * 9
    assert losses_of(build_trainer("decoupling", points(), epochs=3), 3) == ["loss"] * 3
    _, method, batch = two_linear("decoupling")
    one, other = said(method, batch)
    expected = [-torch.tensor([one[i][y], other[i][y]]).log().sum().item() for i, y in enumerate(batch.labels.tolist())]
    assert method.learn_all(batch).tolist() == pytest.approx(expected, rel=1e-5)
    assert method.metrics()["kept"] == 1.0


def test_what_was_kept_is_counted_for_each_epoch() -> None:
    trainer = build_trainer("decoupling", points(), {"warm_up": 1}, epochs=4)
    run_steps(trainer, 4)
    assert trainer.method.visits.tolist() == [60, 60]
    run_steps(trainer, 3)
    assert trainer.method.visits[1] == 48, "three batches of the second epoch"


def test_it_resists_some_wrong_labels() -> None:
    data, _ = noisy_points()
    trainer = build_trainer("decoupling", data, epochs=24)
    trainer.run(idle, idle)
    assert isinstance(trainer.method, Decoupling)
    truth = points(240).labels
    corrected = (trainer.method.corrected_labels(trainer.predict_logits).argmax(1) == truth).float().mean()
    assert corrected > (data.labels == truth).float().mean()
    assert (trainer.predict(data).argmax(1) == truth).float().mean() > 0.85


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"warm_up": -1}, "warm_up must be 0 or more, got -1"),
        ({"least": 2}, r"least must lie in \[0, 1\], got 2"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        METHODS["decoupling"].build(**settings)
