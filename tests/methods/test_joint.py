"""Joint optimization: recorded predictions, label updates, and the second network."""

import pytest
import torch
from torch.testing import assert_close

from permll.methods import Method, find_method
from permll.training.trainer import Trainer
from tests.helpers.manual_steps import batch_of, move, prepare, take_step, weights
from tests.helpers.toy_training import build_trainer, points


def predict_row(method: Method, row: int) -> torch.Tensor:
    """Return the network's probabilities for a sample."""
    return method.networks["net"](points(12).inputs.batch(torch.tensor([row])))[0].detach().softmax(-1)


def test_joint_stages_match_paper() -> None:
    first, second = prepare("joint", points(), {"final_lr": 0.2}, epochs=320).stages(320)
    assert (first.epochs, first.weights, dict(first.schedule)) == (200, "last", {"kind": "constant"})
    assert (second.epochs, second.weights, dict(second.optimizer)) == (120, "fresh", {"lr": 0.2})


def test_joint_labels_are_mean_of_recent_predictions() -> None:
    data = points(12)
    method = prepare("joint", data, {"window": 3, "first": 2, "second": 6})
    given = torch.nn.functional.one_hot(data.labels, 3).float()
    predictions: dict[int, list[tuple[int, torch.Tensor]]] = {row: [] for row in range(12)}
    visits = [[[0, 1, 1]], [[0, 2], [0]], [[0, 1]], [[0, 2]], [[0]]]  # 3 and others are never visited
    for epoch, batches in enumerate(visits):
        method.train_pass(epoch, 0, torch.zeros)
        for rows in batches:
            for row in rows:
                earlier = [one for one in predictions[row] if one[0] != epoch]
                predictions[row] = [*earlier, (epoch, predict_row(method, row))]
            take_step(method, batch_of(data, rows))
        method.on_epoch_end(epoch, torch.zeros)
        labels = method.corrected_labels(torch.zeros)
        if epoch == 0:
            assert torch.equal(labels, given)
            continue
        for row, recorded in predictions.items():
            # Slots are reused after three epochs, for epochs that visit the sample.
            kept = {number % 3: p for number, p in recorded}
            expected = torch.stack(list(kept.values())).mean(0) if kept else given[row]
            assert_close(labels[row], expected)


def test_joint_training_matches_manual_steps() -> None:
    data = points(12).relabel(torch.arange(12) % 4 % 3)
    method = prepare("joint", data, {"alpha": 0.7, "beta": 0.3, "prior": "given", "window": 2, "first": 1, "second": 4})
    manual, predictions = weights(method), torch.zeros(2, 12, 3)
    labels = torch.nn.functional.one_hot(data.labels, 3).float()
    x, class_prior = data.inputs.batch(torch.arange(12)), torch.tensor([6 / 12, 3 / 12, 3 / 12])
    for epoch in range(4):
        method.train_pass(epoch, 0, torch.zeros)
        for rows in (list(range(7)), list(range(7, 12))):
            p = (x[rows] @ manual["weight"].T + manual["bias"]).softmax(-1)
            fit = -(labels[rows] * p.log()).sum(1).mean()
            divergence = (class_prior * (class_prior / p.mean(0)).log()).sum()
            expected = fit + 0.7 * divergence - 0.3 * (p * p.log()).sum(1).mean()
            predictions[epoch % 2, rows] = p.detach()
            move(manual, expected)
            assert take_step(method, batch_of(data, rows)) == pytest.approx(expected.item(), rel=1e-5)
        method.on_epoch_end(epoch, torch.zeros)
        labels = predictions[: epoch + 1].mean(0)
        assert_close(method.corrected_labels(torch.zeros), labels)
    for name, value in method.networks["net"].named_parameters():
        assert_close(value.detach(), manual[name].detach())


def test_joint_second_network_trains_on_final_labels() -> None:
    settings = {"first": 2, "second": 2, "window": 2, "final_lr": 0.2}
    trainer = build_trainer("joint", points(), settings, epochs=10)
    initial = {name: value.clone() for name, value in trainer.method.networks["net"].state_dict().items()}
    changed, rates, first_states = [], [], []
    before = trainer.method.corrected_labels(trainer.predict_logits)

    def after_step(trainer: Trainer) -> None:
        if trainer.epoch == 4 and trainer._epoch_steps == 1:
            first_states.append(
                {name: value.clone() for name, value in trainer.method.networks["net"].state_dict().items()}
            )

    def after_epoch(trainer: Trainer) -> None:
        nonlocal before
        now = trainer.method.corrected_labels(trainer.predict_logits)
        changed.append(not torch.equal(now, before))
        rates.append(trainer.optimizers["net"].param_groups[0]["lr"])
        before = now

    trainer.run(after_step, after_epoch)
    assert changed == [False, True, True, True] + [False] * 6
    assert rates == pytest.approx([0.05] * 4 + [0.2] * 2 + [0.02] * 2 + [0.002] * 2)
    batches = next(name for name in initial if name.endswith("num_batches_tracked"))
    assert int(first_states[0][batches]) == 1, "the second network starts from new weights"


def test_joint_prior_penalizes_collapse() -> None:
    """Confident equal predictions cost only the prior term."""
    data = points(12)
    losses = {}
    for alpha in (0.0, 1.0):
        method = prepare("joint", data, {"alpha": alpha, "beta": 1.0})
        with torch.no_grad():
            method.networks["net"].weight.zero_()
            method.networks["net"].bias.copy_(torch.tensor([20.0, 0.0, 0.0]))
            method.labels.values.copy_(torch.tensor([1.0, 0.0, 0.0]))
        losses[alpha] = method.loss(batch_of(data, range(12))).mean().item()
    assert losses[0.0] == pytest.approx(0.0, abs=1e-6)
    assert losses[1.0] == pytest.approx(2 / 3 * 20 + torch.tensor(1 / 3).log().item(), rel=1e-5)


def test_joint_rejects_empty_window() -> None:
    with pytest.raises(ValueError, match="window must lie"):
        find_method("joint").build(window=0)
