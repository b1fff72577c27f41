"""SOP: separate losses of u and v, and training steps against a manual version."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from permll.data import Vectors
from permll.methods import find_method
from tests.helpers.manual_steps import batch_of, move, prepare, take_step, weights
from tests.helpers.toy_training import points

ROWS = [[0, 3, 3, 7], [3, 1, 0, 4], [7, 2, 0]]
SETTINGS = {"lr_u": 0.4, "lr_v": 0.3, "init": 0.2}


def corrected(p: Tensor, y: int, u: Tensor, v: Tensor) -> Tensor:
    given = torch.nn.functional.one_hot(torch.tensor(y), 3)
    q = (p + u**2 * given - v**2 * (1 - given)).clamp(min=1e-4)
    return q / q.sum()


@pytest.mark.parametrize("plus", [{}, {"consistency": 0.9, "balance": 0.1}], ids=["SOP", "SOP+"])
def test_sop_training_matches_manual_steps(plus: dict[str, float]) -> None:
    data = points(12)
    views = ("weak", "strong") if plus else ("weak",)
    method = prepare("sop", data, SETTINGS | plus)
    manual, u, v = weights(method), torch.full((12,), 0.2), torch.full((12, 3), 0.2)
    for rows in ROWS:
        batch = batch_of(data, rows, views)
        losses, predictions, gradients = [], [], []
        for position, row in enumerate(rows):
            views_ = [view[position] for view in batch.views.values()]
            p, *strong = ((manual["weight"] @ x + manual["bias"]).softmax(0) for x in views_)
            y, u_row, v_row = int(data.labels[row]), u[row].clone().requires_grad_(), v[row].clone().requires_grad_()
            fit = -corrected(p, y, u_row, v_row.detach())[y].log()
            given = torch.nn.functional.one_hot(torch.tensor(y), 3)
            predicted = torch.nn.functional.one_hot(p.argmax(), 3)
            error = ((predicted + u_row.detach() ** 2 * given - v_row**2 * (1 - given) - given) ** 2).sum()
            (u_gradient,) = torch.autograd.grad(fit, u_row, retain_graph=True)
            (v_gradient,) = torch.autograd.grad(error, v_row)
            gradients.append((row, u_gradient, v_gradient))
            losses.append(fit + error.detach())
            predictions.append(p)
            for other in strong:
                losses[-1] = losses[-1] + 0.9 * (p.detach() * (p.detach() / other).log()).sum()
        expected = torch.stack(losses).mean()
        if plus:
            expected = expected + 0.1 * (torch.tensor(1 / 3) * (1 / 3 / torch.stack(predictions).mean(0)).log()).sum()
        move(manual, expected)
        for row, by_u, by_v in gradients:
            u[row] -= 0.4 * by_u
            v[row] -= 0.3 * by_v
        u, v = u.clamp(-1, 1), v.clamp(-1, 1)
        assert take_step(method, batch) == pytest.approx(expected.item(), rel=1e-5)
    assert_close(method.u.values, u)
    assert_close(method.v.values, v)
    for name, value in method.networks["net"].named_parameters():
        assert_close(value.detach(), manual[name].detach())


def test_sop_step_is_independent_of_batch_size() -> None:
    data = points(12)
    together, separate = (prepare("sop", data, SETTINGS) for _ in range(2))
    separate.networks["net"].load_state_dict(together.networks["net"].state_dict())
    take_step(together, batch_of(data, range(12)), lr=0.0)
    for row in range(12):
        take_step(separate, batch_of(data, [row]), lr=0.0)
    assert_close(together.u.values, separate.u.values)
    assert_close(together.v.values, separate.v.values)


@pytest.mark.parametrize(
    ("u_loss", "confidence", "corrected_fraction"),
    [("cross_entropy", 5.0, 0.2), ("cross_entropy", 30.0, 0.0), ("both", 30.0, 0.2)],
)
def test_sop_corrects_wrong_labels_only(u_loss: str, confidence: float, corrected_fraction: float) -> None:
    """The network is correct; if it is too confident, the cross-entropy saturates and u has no gradient."""
    truth, wrong = torch.arange(30) % 3, torch.arange(30) % 5 == 0
    logits = confidence * torch.nn.functional.one_hot(truth, 3)
    data = points(30).relabel((truth + wrong) % 3).with_inputs(Vectors(logits))
    method = prepare("sop", data, {"u_loss": u_loss})
    method.networks["net"] = torch.nn.Linear(3, 3, bias=False)
    torch.nn.init.eye_(method.networks["net"].weight)
    for _ in range(150):
        take_step(method, batch_of(data, range(30)), lr=0.0)
    assert_close(method.u.values.round(decimals=3), torch.where(wrong & (corrected_fraction > 0), 1.0, 0.0))
    corrected_labels, quality = method.corrected_labels(torch.zeros), method.label_quality(torch.zeros)
    assert quality[wrong].max() < quality[~wrong].min()
    if corrected_fraction:
        assert torch.equal(corrected_labels.argmax(1), truth)
        assert method.metrics()["corrected"] == pytest.approx(corrected_fraction)


def test_sop_clamped_values_can_decrease() -> None:
    data = points(12)
    method = prepare("sop", data, {"init": 0.9, "lr_v": 50.0})
    (row, label, other) = (0, int(data.labels[0]), (int(data.labels[0]) + 1) % 3)

    def step_with_confident_network(k: int) -> float:
        with torch.no_grad():
            method.networks["net"].weight.zero_()
            method.networks["net"].bias.copy_(30.0 * torch.nn.functional.one_hot(torch.tensor(k), 3))
        take_step(method, batch_of(data, [row]), lr=0.0)
        return float(method.v.values[row, other])

    assert step_with_confident_network(other) == 1
    method.lr_v = 0.05
    assert step_with_confident_network(label) == pytest.approx(1 - 0.05 * 4)


@pytest.mark.parametrize("classes", [2, 10, 100])
def test_sop_growth_of_u_is_independent_of_classes(classes: int) -> None:
    """With uniform predictions, the step of u is 2 (c - 1) lr_u u."""
    method = prepare("sop", points(200, classes))
    torch.nn.init.zeros_(method.networks["net"].weight)
    torch.nn.init.zeros_(method.networks["net"].bias)
    take_step(method, batch_of(points(200, classes), range(200)), lr=0.0)
    growth = 1 + 2 * 100 / 128 * (classes - 1) / classes
    assert_close(method.u.values, torch.full((200,), 1e-8 * growth), rtol=1e-5, atol=0.0)
    assert method.resolved_params() == {"lr_u": pytest.approx(100 / 128 / classes)}


@pytest.mark.parametrize(("settings", "message"), [({"init": 0.0}, "init must lie"), ({"lr_v": -1.0}, "lr_v must lie")])
def test_sop_rejects_invalid_settings(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_method("sop").build(**settings)
