"""SOP: u and v move by their own losses and nothing else, and its steps are those of a straight-line form."""

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


@pytest.mark.parametrize("more", [{}, {"consistency": 0.9, "balance": 0.1}], ids=["SOP", "SOP+"])
def test_steps_are_those_of_the_straight_line(more: dict[str, float]) -> None:
    data = points(12)
    views = ("weak", "strong") if more else ("weak",)
    method = prepare("sop", data, SETTINGS | more)
    by_hand, u, v = weights(method), torch.full((12,), 0.2), torch.full((12, 3), 0.2)
    for rows in ROWS:
        batch = batch_of(data, rows, views)
        losses, predictions, moves = [], [], []
        for place, row in enumerate(rows):
            shown = [view[place] for view in batch.views.values()]
            p, *strong = ((by_hand["weight"] @ x + by_hand["bias"]).softmax(0) for x in shown)
            y, u_row, v_row = int(data.labels[row]), u[row].clone().requires_grad_(), v[row].clone().requires_grad_()
            fit = -corrected(p, y, u_row, v_row.detach())[y].log()
            given = torch.nn.functional.one_hot(torch.tensor(y), 3)
            chosen = torch.nn.functional.one_hot(p.argmax(), 3)
            error = ((chosen + u_row.detach() ** 2 * given - v_row**2 * (1 - given) - given) ** 2).sum()
            moves.append((row, *torch.autograd.grad(fit, u_row, retain_graph=True), *torch.autograd.grad(error, v_row)))
            losses.append(fit + error.detach())
            predictions.append(p)
            for other in strong:
                losses[-1] = losses[-1] + 0.9 * (p.detach() * (p.detach() / other).log()).sum()
        expected = torch.stack(losses).mean()
        if more:
            expected = expected + 0.1 * (torch.tensor(1 / 3) * (1 / 3 / torch.stack(predictions).mean(0)).log()).sum()
        move(by_hand, expected)
        for row, by_u, by_v in moves:
            u[row] -= 0.4 * by_u
            v[row] -= 0.3 * by_v
        u, v = u.clamp(-1, 1), v.clamp(-1, 1)
        assert take_step(method, batch) == pytest.approx(expected.item(), rel=1e-5)
    assert_close(method.u.values, u)
    assert_close(method.v.values, v)
    for name, value in method.networks["net"].named_parameters():
        assert_close(value.detach(), by_hand[name].detach())


def test_a_sample_moves_as_far_in_a_small_batch_as_in_a_large_one() -> None:
    data = points(12)
    together, apart = (prepare("sop", data, SETTINGS) for _ in range(2))
    apart.networks["net"].load_state_dict(together.networks["net"].state_dict())
    take_step(together, batch_of(data, range(12)), lr=0.0)
    for row in range(12):
        take_step(apart, batch_of(data, [row]), lr=0.0)
    assert_close(together.u.values, apart.u.values)
    assert_close(together.v.values, apart.v.values)


@pytest.mark.parametrize(
    ("u_by", "certainty", "turned"), [("cross_entropy", 5.0, 0.2), ("cross_entropy", 30.0, 0.0), ("both", 30.0, 0.2)]
)
def test_a_wrong_label_turns_and_a_right_one_stays(u_by: str, certainty: float, turned: float) -> None:
    """With a network that knows the classes; too sure of them, its cross-entropy is at the floor and u cannot learn."""
    truth, wrong = torch.arange(30) % 3, torch.arange(30) % 5 == 0
    logits = certainty * torch.nn.functional.one_hot(truth, 3)
    data = points(30).relabel((truth + wrong) % 3).with_inputs(Vectors(logits))
    method = prepare("sop", data, {"u_by": u_by})
    method.networks["net"] = torch.nn.Linear(3, 3, bias=False)
    torch.nn.init.eye_(method.networks["net"].weight)
    for _ in range(150):
        take_step(method, batch_of(data, range(30)), lr=0.0)
    assert_close(method.u.values.round(decimals=3), torch.where(wrong & (turned > 0), 1.0, 0.0))
    believed, quality = method.corrected_labels(torch.zeros), method.label_quality(torch.zeros)
    assert quality[wrong].max() < quality[~wrong].min()
    if turned:
        assert torch.equal(believed.argmax(1), truth)
        assert method.metrics()["turned"] == pytest.approx(turned)


def test_what_grew_to_one_stops_there_and_can_come_back() -> None:
    data = points(12)
    method = prepare("sop", data, {"init": 0.9, "lr_v": 50.0})
    (row, label, other) = (0, int(data.labels[0]), (int(data.labels[0]) + 1) % 3)

    def step_with_a_network_sure_of(k: int) -> float:
        with torch.no_grad():
            method.networks["net"].weight.zero_()
            method.networks["net"].bias.copy_(30.0 * torch.nn.functional.one_hot(torch.tensor(k), 3))
        take_step(method, batch_of(data, [row]), lr=0.0)
        return float(method.v.values[row, other])

    assert step_with_a_network_sure_of(other) == 1
    method.lr_v = 0.05
    assert step_with_a_network_sure_of(label) == pytest.approx(1 - 0.05 * 4)


@pytest.mark.parametrize("classes", [2, 10, 100])
def test_u_grows_as_fast_for_all_numbers_of_classes(classes: int) -> None:
    """With a network that knows nothing yet, u² / p_y is next to 0 and its step 2 (c - 1) times that of the setting."""
    method = prepare("sop", points(200, classes))
    torch.nn.init.zeros_(method.networks["net"].weight)
    torch.nn.init.zeros_(method.networks["net"].bias)
    take_step(method, batch_of(points(200, classes), range(200)), lr=0.0)
    growth = 1 + 2 * 100 / 128 * (classes - 1) / classes
    assert_close(method.u.values, torch.full((200,), 1e-8 * growth), rtol=1e-5, atol=0.0)
    assert method.resolved_params() == {"lr_u": pytest.approx(100 / 128 / classes)}


@pytest.mark.parametrize(
    ("settings", "message"), [({"init": 0.0}, "never leave 0"), ({"lr_v": -1.0}, "lr_v must be 0 or more, got -1.0")]
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_method("sop").build(**settings)
