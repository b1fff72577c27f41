"""T-Revision: three stages with a loss each, the slack that only the last one learns, and its bounds."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from permll.data import Batch
from permll.functional.transition import anchor_transition
from permll.methods import FitInfo, find_method
from permll.training.trainer import Loop
from tests.methods.test_bootstrap import assert_same_weights, train_by_hand, watch
from tests.methods.test_contract import run_steps
from tests.helpers.toy_training import make_loop, points

SETTINGS = {"estimate": 2, "reweight": 4, "quantile": 0.9, "revision_lr": 1e-3}
EPOCHS, STEPS = 8, 4  # two, four and two epochs of four steps


def noisy_loop(**settings: Any) -> Loop:
    data = points()
    wrong = torch.arange(len(data)) % 5 == 0
    data = data.relabel(torch.where(wrong, (data.labels + 1) % 3, data.labels))
    return make_loop("t_revision", data, {**SETTINGS, **settings}, epochs=EPOCHS)


def finish_epochs(loop: Loop, epochs: int) -> None:
    for done, _ in enumerate(loop.each_epoch(), start=1):
        if done == epochs:
            return


def network_of(loop: Loop) -> nn.Module:
    return loop.method.networks["net"].module


def best_of(loop: Loop) -> nn.Module:
    network = copy.deepcopy(network_of(loop))
    with loop.stages.best_weights("net"):
        network.load_state_dict(network_of(loop).state_dict())
    return network


def beta(p: Tensor, y: int, T: Tensor) -> Tensor:
    return p[y] / sum((p[i] * T[i, y] for i in range(3)), torch.zeros(()))


def test_each_stage_has_its_loss_its_weights_and_its_optimizer() -> None:
    loop = noisy_loop(estimate_lr=0.01)
    losses = {name: watch(loop, name) for name in ("loss", "reweighted_loss", "revised_loss")}
    counts, kinds, rates, momenta = [], [], [], []
    for _ in loop.each_epoch():
        counts.append([len(seen) // STEPS for seen in losses.values()])
        optimizer = loop.optimizers["net"].optimizer
        kinds.append(type(optimizer).__name__)
        rates.append(optimizer.param_groups[0]["lr"])
        momenta.append(optimizer.param_groups[0].get("momentum"))
    assert counts == [[1, 0, 0], [2, 0, 0], [2, 1, 0], [2, 2, 0], [2, 3, 0], [2, 4, 0], [2, 4, 1], [2, 4, 2]]
    assert kinds == ["SGD"] * 6 + ["Adam"] * 2
    assert rates == pytest.approx([0.01] * 2 + [0.05] * 2 + [0.005] * 2 + [1e-3] * 2)
    assert momenta == [0] * 2 + [0.9] * 4 + [None] * 2


def test_the_matrix_is_read_off_the_best_network_which_goes_on_with_constant_weights() -> None:
    loop = noisy_loop()
    finish_epochs(loop, 2)
    assert torch.equal(loop.method.T, torch.eye(3))
    expected, best = anchor_transition(loop.scan(best=True).softmax(-1), 0.9), best_of(loop)
    seen = watch(loop, "reweighted_loss")
    run_steps(loop, 6)
    torch.testing.assert_close(loop.method.T, expected)

    def by_hand(p: Tensor, batch: Batch) -> Tensor:
        losses = [-beta(p[b].detach(), y, expected) * p[b, y].log() for b, y in enumerate(batch.labels.tolist())]
        return torch.stack(losses).mean()

    assert_same_weights(network_of(loop), train_by_hand(best, seen, by_hand))


def test_only_the_last_stage_moves_the_slack_and_it_moves_with_the_network() -> None:
    loop = noisy_loop()
    finish_epochs(loop, 6)
    assert torch.equal(loop.method.D, torch.zeros(3, 3))
    network, T = best_of(loop).train(), loop.method.T.clone()
    seen = watch(loop, "revised_loss")
    run_steps(loop, 5)
    assert torch.equal(loop.method.T, T)

    D = torch.zeros(3, 3, requires_grad=True)
    optimizer = torch.optim.Adam([{"params": network.parameters(), "weight_decay": 1e-4}, {"params": [D]}], lr=1e-3)
    for batch, random in seen:
        torch.set_rng_state(random)
        optimizer.zero_grad()
        p = network(batch.x).softmax(1)
        losses = [-beta(p[b], y, T + D) * p[b, y].log() for b, y in enumerate(batch.labels.tolist())]
        torch.stack(losses).mean().backward()
        optimizer.step()
    assert D.abs().min() > 0
    torch.testing.assert_close(loop.method.D, D, rtol=1e-3, atol=1e-5)
    for one, other in zip(network_of(loop).parameters(), network.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def prepared() -> Any:
    method = find_method("t_revision").build()
    method.on_fit_start(FitInfo(torch.tensor([0, 1, 2]), ("a", "b", "c"), 3, 10, 4))
    return method


def test_the_score_is_how_often_the_label_that_the_revised_matrix_expects_is_given() -> None:
    method = prepared()
    p, labels = torch.tensor([[0.9, 0.1, 0.0], [0.0, 0.0, 1.0]]), torch.tensor([1, 2])
    assert method.score(p, labels) == 0.5
    with torch.no_grad():
        method.D[0] = torch.tensor([-0.6, 0.6, 0.0])
    assert method.score(p, labels) == 1.0
    assert method.metrics()["T_slack"] == pytest.approx(0.6)
    assert method.metrics()["T_diagonal"] == pytest.approx((0.4 + 1 + 1) / 3)


def test_a_revised_matrix_with_negative_entries_still_gives_probabilities() -> None:
    method = prepared()
    method.set_transition(torch.eye(3))
    with torch.no_grad():
        method.D[:] = torch.tensor([[-0.2, 0.2, 0.0], [-0.1, 0.0, 0.1], [-0.3, -0.3, -1.5]])
    logits = torch.tensor([[9.0, 0.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 9.0]])
    corrected = method.corrected_labels(lambda: logits)
    assert corrected.min() >= 0
    torch.testing.assert_close(corrected.sum(1), torch.ones(3))
    assert corrected[2, 2] == 0, "class 2 turns into no label 2 now"


def test_training_goes_on_when_the_slack_makes_the_matrix_negative() -> None:
    loop = noisy_loop()
    finish_epochs(loop, 6)
    with torch.no_grad():
        loop.method.D.fill_(-1.0)
    run_steps(loop, 7)
    assert (loop.method.T + loop.method.D).max() < 0
    assert all(value.isfinite().all() for value in loop.method.state_dict().values())


@pytest.mark.parametrize("quantile", [0.0, 1.5])
def test_a_quantile_that_is_none_is_refused(quantile: float) -> None:
    with pytest.raises(ValueError, match=r"quantile must lie in \(0, 1\]"):
        find_method("t_revision").build(quantile=quantile)
