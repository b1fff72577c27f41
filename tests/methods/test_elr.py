"""ELR: targets and training steps against a manual version."""

import pytest
import torch
from torch.testing import assert_close

from permll.methods import find_method
from tests.helpers.manual_steps import batch_of, move, prepare, take_step, weights
from tests.helpers.toy_training import points

ROWS = [[0, 3, 3, 7], [3, 1, 0, 3], [7, 7, 7, 2]]  # some samples twice or thrice in a batch


def test_elr_training_matches_manual_steps() -> None:
    data = points(12)
    method = prepare("elr", data, {"beta": 0.6, "lam": 2.0})
    manual, target = weights(method), torch.zeros(12, 3)
    for rows in ROWS:
        losses = []
        for row in rows:
            x, y = data.inputs.batch(torch.tensor([row]))[0], int(data.labels[row])
            p = (manual["weight"] @ x + manual["bias"]).softmax(0)
            bounded = p.clamp(1e-4, 1 - 1e-4)
            target[row] = 0.6 * target[row] + 0.4 * bounded.detach() / bounded.detach().sum()
            losses.append(-p[y].log() + 2.0 * (1 - target[row].clone() @ bounded).log())
        expected = torch.stack(losses).mean()
        move(manual, expected)
        assert take_step(method, batch_of(data, rows)) == pytest.approx(expected.item(), rel=1e-5)
    assert_close(method.target.values, target)
    for name, value in method.networks["net"].named_parameters():
        assert_close(value.detach(), manual[name].detach())


def test_elr_target_is_independent_of_batching() -> None:
    data = points(12)
    together, apart = (prepare("elr", data) for _ in range(2))
    apart.networks["net"].load_state_dict(together.networks["net"].state_dict())
    for rows in ROWS:
        together.loss(batch_of(data, rows))
        for row in rows:
            apart.loss(batch_of(data, [row]))
    assert_close(together.target.values, apart.target.values)


def test_elr_corrected_labels_are_normalized_targets() -> None:
    data = points(12)
    method = prepare("elr", data)
    for rows in ROWS:
        take_step(method, batch_of(data, rows))
    labels, visited = method.corrected_labels(torch.zeros), sorted({row for rows in ROWS for row in rows})
    assert_close(labels.sum(1), torch.ones(12))
    expected = method.target.values[visited]
    assert_close(labels[visited], expected / expected.sum(1, keepdim=True))
    unvisited = [row for row in range(12) if row not in visited]
    assert torch.equal(labels[unvisited], torch.nn.functional.one_hot(data.labels[unvisited], 3).float())
    turned = (labels.argmax(1) != data.labels).double().mean().item()
    assert method.metrics()["corrected"] == pytest.approx(turned)


@pytest.mark.parametrize(("settings", "message"), [({"beta": 1.0}, "beta must lie"), ({"lam": -1.0}, "lam must lie")])
def test_elr_rejects_invalid_settings(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_method("elr").build(**settings)
