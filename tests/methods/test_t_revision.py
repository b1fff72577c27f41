"""T-Revision: stages, reweighting, and the slack."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from permll.data import Batch
from permll.functional.transition import anchor_transition
from permll.methods import FitInfo, find_method
from permll.training.trainer import Trainer
from tests.helpers.method_training import assert_weights_close, record_batches, train_manually
from tests.helpers.toy_training import build_trainer, points, run_steps

SETTINGS = {"estimate": 2, "reweight": 4, "quantile": 0.9, "revision_lr": 1e-3}
EPOCHS, STEPS = 8, 4  # two, four and two epochs of four steps


def noisy_trainer(**settings: Any) -> Trainer:
    data = points()
    wrong = torch.arange(len(data)) % 5 == 0
    data = data.relabel(torch.where(wrong, (data.labels + 1) % 3, data.labels))
    return build_trainer("t_revision", data, {**SETTINGS, **settings}, epochs=EPOCHS)


def finish_epochs(trainer: Trainer, epochs: int) -> None:
    for done, _ in enumerate(trainer.each_epoch(), start=1):
        if done == epochs:
            return


def network_of(trainer: Trainer) -> nn.Module:
    return trainer.method.networks["net"].module


def best_of(trainer: Trainer) -> nn.Module:
    network = copy.deepcopy(network_of(trainer))
    with trainer.stages.best_weights("net"):
        network.load_state_dict(network_of(trainer).state_dict())
    return network


def beta(p: Tensor, y: int, T: Tensor) -> Tensor:
    return p[y] / sum((p[i] * T[i, y] for i in range(3)), torch.zeros(()))


def test_t_revision_stages_have_own_loss_and_optimizer() -> None:
    trainer = noisy_trainer(estimate_lr=0.01)
    losses = {name: record_batches(trainer, name) for name in ("loss", "reweighted_loss", "revised_loss")}
    counts, kinds, rates, momenta = [], [], [], []
    for _ in trainer.each_epoch():
        counts.append([len(recorded) // STEPS for recorded in losses.values()])
        optimizer = trainer.optimizers["net"].optimizer
        kinds.append(type(optimizer).__name__)
        rates.append(optimizer.param_groups[0]["lr"])
        momenta.append(optimizer.param_groups[0].get("momentum"))
    assert counts == [[1, 0, 0], [2, 0, 0], [2, 1, 0], [2, 2, 0], [2, 3, 0], [2, 4, 0], [2, 4, 1], [2, 4, 2]]
    assert kinds == ["SGD"] * 6 + ["Adam"] * 2
    assert rates == pytest.approx([0.01] * 2 + [0.05] * 2 + [0.005] * 2 + [1e-3] * 2)
    assert momenta == [0] * 2 + [0.9] * 4 + [None] * 2


def test_t_revision_reweighting_matches_manual_steps() -> None:
    trainer = noisy_trainer()
    finish_epochs(trainer, 2)
    assert torch.equal(trainer.method.T, torch.eye(3))
    expected, best = anchor_transition(trainer.predict_logits(best=True).softmax(-1), 0.9), best_of(trainer)
    recorded = record_batches(trainer, "reweighted_loss")
    run_steps(trainer, 6)
    torch.testing.assert_close(trainer.method.T, expected)

    def manual_loss(p: Tensor, batch: Batch) -> Tensor:
        losses = [-beta(p[b].detach(), y, expected) * p[b, y].log() for b, y in enumerate(batch.labels.tolist())]
        return torch.stack(losses).mean()

    assert_weights_close(network_of(trainer), train_manually(best, recorded, manual_loss))


def test_t_revision_slack_matches_manual_steps() -> None:
    trainer = noisy_trainer()
    finish_epochs(trainer, 6)
    assert torch.equal(trainer.method.D, torch.zeros(3, 3))
    network, T = best_of(trainer).train(), trainer.method.T.clone()
    recorded = record_batches(trainer, "revised_loss")
    run_steps(trainer, 5)
    assert torch.equal(trainer.method.T, T)

    D = torch.zeros(3, 3, requires_grad=True)
    optimizer = torch.optim.Adam([{"params": network.parameters(), "weight_decay": 1e-4}, {"params": [D]}], lr=1e-3)
    for batch, rng_state, _ in recorded:
        torch.set_rng_state(rng_state)
        optimizer.zero_grad()
        p = network(batch.x).softmax(1)
        losses = [-beta(p[b], y, T + D) * p[b, y].log() for b, y in enumerate(batch.labels.tolist())]
        torch.stack(losses).mean().backward()
        optimizer.step()
    assert D.abs().min() > 0
    torch.testing.assert_close(trainer.method.D, D, rtol=1e-3, atol=1e-5)
    for one, other in zip(network_of(trainer).parameters(), network.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def prepared_revision() -> Any:
    method = find_method("t_revision").build()
    method.on_fit_start(FitInfo(torch.tensor([0, 1, 2]), ("a", "b", "c"), 3, 10, 4))
    return method


def test_t_revision_score_is_noisy_accuracy() -> None:
    method = prepared_revision()
    p, labels = torch.tensor([[0.9, 0.1, 0.0], [0.0, 0.0, 1.0]]), torch.tensor([1, 2])
    assert method.score(p, labels) == 0.5
    with torch.no_grad():
        method.D[0] = torch.tensor([-0.6, 0.6, 0.0])
    assert method.score(p, labels) == 1.0
    assert method.metrics()["T_slack"] == pytest.approx(0.6)
    assert method.metrics()["T_diagonal"] == pytest.approx((0.4 + 1 + 1) / 3)


def test_t_revision_negative_entries_give_probabilities() -> None:
    method = prepared_revision()
    method.set_transition(torch.eye(3))
    with torch.no_grad():
        method.D[:] = torch.tensor([[-0.2, 0.2, 0.0], [-0.1, 0.0, 0.1], [-0.3, -0.3, -1.5]])
    logits = torch.tensor([[9.0, 0.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 9.0]])
    corrected = method.corrected_labels(lambda: logits)
    assert corrected.min() >= 0
    torch.testing.assert_close(corrected.sum(1), torch.ones(3))
    assert corrected[2, 2] == 0, "label 2 is impossible for class 2"


def test_t_revision_trains_with_negative_matrix() -> None:
    trainer = noisy_trainer()
    finish_epochs(trainer, 6)
    with torch.no_grad():
        trainer.method.D.fill_(-1.0)
    run_steps(trainer, 7)
    assert (trainer.method.T + trainer.method.D).max() < 0
    assert all(value.isfinite().all() for value in trainer.method.state_dict().values())


@pytest.mark.parametrize("quantile", [0.0, 1.5])
def test_t_revision_rejects_invalid_quantile(quantile: float) -> None:
    with pytest.raises(ValueError, match=r"quantile must lie in \(0, 1\]"):
        find_method("t_revision").build(quantile=quantile)
