"""PENCIL: stages, label updates, and training steps against a manual version."""

import pytest
import torch
from torch.testing import assert_close

from permll.training.trainer import Trainer
from tests.helpers.manual_steps import batch_of, move, prepare, take_step, weights
from tests.helpers.toy_training import build_trainer, points


def test_pencil_stages_match_paper() -> None:
    stages = prepare("pencil", points(), {"final_lr": 0.2}, epochs=320).stages(320)
    assert [stage.epochs for stage in stages] == [70, 130, 120]
    assert [stage.weights for stage in stages] == ["last"] * 3
    assert [dict(stage.optimizer) for stage in stages] == [{}, {}, {"lr": 0.2}]


def test_pencil_updates_labels_in_second_stage() -> None:
    trainer = build_trainer("pencil", points(), {"first": 2, "second": 3, "final_lr": 0.2}, epochs=11)
    recorded: list[tuple[bool, float]] = []
    before = trainer.method.label_logits.values.clone()

    def after_epoch(trainer: Trainer) -> None:
        nonlocal before
        changed = not torch.equal(before, trainer.method.label_logits.values)
        recorded.append((changed, trainer.optimizers["net"].param_groups[0]["lr"]))
        before = trainer.method.label_logits.values.clone()

    trainer.run(lambda _: None, after_epoch)
    assert [changed for changed, _ in recorded] == [False] * 2 + [True] * 3 + [False] * 6
    assert [rate for _, rate in recorded] == pytest.approx([0.05] * 5 + [0.2] * 2 + [0.02] * 2 + [0.002] * 2)


@pytest.mark.parametrize("compatibility", ["softened", "plain"])
def test_pencil_training_matches_manual_steps(compatibility: str) -> None:
    data = points(12)
    settings = {"alpha": 0.3, "beta": 0.2, "lr": 6.0, "init": 1.0, "compatibility": compatibility}
    method = prepare("pencil", data, settings)
    manual = weights(method)
    label_logits = torch.nn.functional.one_hot(data.labels, 3).float()
    for rows in ([0, 3, 3, 7], [3, 1, 0, 4], [7, 2, 0]):
        losses, row_gradients = [], []
        for row in rows:
            x, y = data.inputs.batch(torch.tensor([row]))[0], int(data.labels[row])
            p = (manual["weight"] @ x + manual["bias"]).softmax(0)
            row_logits = label_logits[row].clone().requires_grad_()
            d = row_logits.softmax(0)
            compatibility_loss = -(d.softmax(0) if compatibility == "softened" else d)[y].log()
            loss = (p * (p / d).log()).mean() + 0.3 * compatibility_loss - 0.2 * (p * p.log()).mean()
            row_gradients.append((row, *torch.autograd.grad(loss, row_logits, retain_graph=True)))
            losses.append(loss)
        expected = torch.stack(losses).mean()
        move(manual, expected)
        for row, gradient in row_gradients:
            label_logits[row] -= 6.0 * gradient
        loss_value = take_step(method, batch_of(data, rows), loss="label_update_loss")
        assert loss_value == pytest.approx(expected.item(), rel=1e-5)
    assert_close(method.label_logits.values, label_logits)
    for name, value in method.networks["net"].named_parameters():
        assert_close(value.detach(), manual[name].detach())


def test_pencil_last_stage_fits_fixed_labels() -> None:
    data = points(12)
    method = prepare("pencil", data, {"init": 2.0})
    before = method.label_logits.values.clone()
    losses = [take_step(method, batch_of(data, range(12)), lr=1.0, loss="final_loss") for _ in range(200)]
    assert torch.equal(method.label_logits.values, before)
    assert losses[-1] < 0.2 * losses[0]
    p, d = method.networks["net"](data.inputs.batch(torch.arange(12))).softmax(-1).detach(), before.softmax(-1)
    assert losses[-1] == pytest.approx((p * (p / d).log()).mean().item(), rel=0.05)


def test_pencil_unvisited_sample_keeps_label() -> None:
    data = points(12)
    method = prepare("pencil", data)
    take_step(method, batch_of(data, [0, 1]), loss="label_update_loss")
    changed = (method.corrected_labels(torch.zeros) != prepare("pencil", data).corrected_labels(torch.zeros)).any(1)
    assert changed.nonzero()[:, 0].tolist() == [0, 1]
    given = method.corrected_labels(torch.zeros)[2:].gather(1, data.labels[2:, None])
    assert_close(given, torch.full((10, 1), 1 / (1 + 2 * torch.tensor(-10.0).exp().item())))


@pytest.mark.parametrize(("classes", "rate"), [(2, 0.9375), (10, 4.6875), (100, 46.875)])
def test_pencil_default_lr_scales_with_classes(classes: int, rate: float) -> None:
    method = prepare("pencil", points(200, classes))
    assert method.resolved_params() == {"lr": pytest.approx(rate)}
    assert prepare("pencil", points(200, classes), {"lr": 3.0}).resolved_params() == {"lr": 3.0}
