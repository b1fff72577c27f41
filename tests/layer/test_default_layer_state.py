"""``PermutationLayer``: state dicts, copies and storage formats."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from permll import PermutationLayer
from tests.helpers.default_layer import (
    ALL_FORMATS,
    FORMATS,
    C,
    N,
    Simulation,
    end_warm_up,
    held_out_rows,
    same_state,
    visit,
)


@pytest.fixture
def labels() -> Tensor:
    return torch.arange(N) % C


@ALL_FORMATS
@pytest.mark.parametrize("visits", [250, 600, 2650])
def test_state_round_trip_resumes_exactly(fmt: dict[str, Any], visits: int, tmp_path: Path) -> None:
    """In the middle of the first epoch, after it, and in the middle of the fifth."""
    simulation = Simulation()
    trained, order = torch.ones(600), torch.randperm(600).repeat(6)

    def run(layer: PermutationLayer, start: int, stop: int) -> None:
        for at in range(start, stop, 50):
            index = order[at : at + 50]
            visit(layer, simulation.logits(trained, 0.0 if at < 600 else 2.0)[index], index)
            layer.step()

    layer = PermutationLayer(simulation.labels, 3, **fmt)
    trained = (layer.loss_weight.values != 0).float()
    run(layer, 0, visits)
    torch.save(layer.state_dict(), tmp_path / "layer.pt")
    loaded, copied = PermutationLayer(simulation.labels, 3, **fmt), copy.deepcopy(layer)
    run(loaded, 0, 50)  # visits that the state replaces
    loaded.load_state_dict(torch.load(tmp_path / "layer.pt", weights_only=True))
    assert same_state(loaded, layer)
    assert torch.equal(loaded.learned, layer.learned)
    assert torch.equal(loaded.held_out_log_prob, layer.held_out_log_prob)
    assert layer.held_out_log_prob.shape[1] == (0 if visits < 600 else 30)
    assert layer.learned.any() == (visits > 2000)
    for one in (layer, loaded, copied):
        run(one, visits, 3600)
    assert not layer.is_warm_up
    assert same_state(loaded, layer)
    assert same_state(copied, layer)
    assert torch.equal(loaded.corrected_labels(), layer.corrected_labels())
    assert torch.equal(loaded.alpha, layer.alpha)


def test_loaded_state_is_separate_from_saved_one(labels: Tensor) -> None:
    saved, layer = end_warm_up(PermutationLayer(labels, C)), PermutationLayer(labels, C)
    layer.load_state_dict(saved.state_dict())
    assert layer.learned.all()
    saved.learned.fill_(False)
    assert layer.learned.all()


def test_copy_has_separate_state(labels: Tensor) -> None:
    layer = end_warm_up(PermutationLayer(labels, C))
    visit(layer, torch.randn(N, C), range(N))
    other, before = copy.deepcopy(layer), copy.deepcopy(layer.state_dict())
    other.step()
    other.estimates.accuracy = 0.1
    assert all(torch.equal(layer.state_dict()[key], before[key]) for key in before if key != "estimates")
    assert layer.estimates.accuracy == 0.7
    layer.step()
    assert torch.equal(layer.table.values, other.table.values)
    assert layer.table.values.any()


@pytest.mark.parametrize("as_text", [True, False])
def test_state_matches_rows_by_id(as_text: bool) -> None:
    """Reversed, 100 rows removed, 50 added; held-out samples stay held out."""
    simulation = Simulation(rows=700)
    ids: list[Any] = [f"{row}.png" if as_text else 10 * row for row in range(700)]
    saved = PermutationLayer(simulation.labels[:600], 3, ids=ids[:600])
    trained = torch.ones(700)
    trained[held_out_rows(saved)] = 0
    for memorization in (0.0, 2.0, 2.0, 2.0, 2.0):
        visit(saved, simulation.logits(trained, memorization)[:600], range(600))
        saved.step()
    visit(saved, simulation.logits(trained, 2.0)[:300], range(300))
    saved.step()
    assert not saved.is_warm_up
    state = saved.state_dict()

    rows = torch.arange(100, 650).flip(0)  # row of the simulation of each new row
    layer = PermutationLayer(simulation.labels[rows], 3, ids=[ids[row] for row in rows])
    start = copy.deepcopy(layer)
    layer.load_state_dict(state)
    old = rows < 600
    for name in ("predictions", "loss_weight", "targets", "visited"):
        loaded, kept, initial = (getattr(one, name).values for one in (layer, saved, start))
        assert torch.equal(loaded[old], kept[rows[old]])
        assert torch.equal(loaded[~old], initial[~old])
    assert torch.equal(layer.table.values[old], saved.table.values[rows[old]])
    assert not layer.table.values[~old].any()
    assert layer.visited.values.sum() == 200
    held_out = {int((rows == row).nonzero()) for row in held_out_rows(saved).tolist() if row >= 100}
    assert held_out <= set(held_out_rows(layer).tolist())
    assert layer.estimates == saved.estimates
    assert torch.equal(layer.learned, saved.learned)
    for name in ("log_likelihood", "verdict_log_likelihood", "predicted_prior"):
        assert torch.equal(getattr(layer, name), getattr(saved, name))
    assert torch.equal(layer.corrected_labels()[old], saved.corrected_labels()[rows[old]])


def test_growth_is_measured_per_sample_after_reordering() -> None:
    """The labels of all held-out samples become a little more likely."""
    simulation = Simulation(noise=0.0)
    saved = PermutationLayer(simulation.labels, 3, ids=range(600), held_out=0.2)
    trained = saved.loss_weight.values != 0
    for epoch in range(10):
        visit(saved, 0.3 * min(epoch, 2) * simulation.logits(trained, 5.0 if epoch else 0.0), range(600))
        saved.step()
    order = torch.randperm(600)
    layer = PermutationLayer(simulation.labels[order], 3, ids=order.tolist(), held_out=0.2)
    layer.load_state_dict(saved.state_dict())
    for one, rows in ((saved, torch.arange(600)), (layer, order)):
        visit(one, 0.6 * simulation.logits(trained, 5.0)[rows], range(600))
        one.step()
        assert one.estimates.influence > 1
        assert one.is_warm_up
        assert not one.learned.any()


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            {"held_out": 0.1},
            r"saved with held_out=0.1 instead of 0.05: build the layer with the settings of the state\.",
        ),
        ({"labels": (torch.arange(N) + 1) % C}, "the state was saved for other labels: 400 differ"),
        ({"labels": torch.arange(N + 1) % C}, "the state has 401 rows and this layer 400"),
        ({"num_classes": C + 1}, rf"the state has shape \({N}, {C + 1}\), but this layer has {C} classes"),
        ({"ids": range(N)}, "the state has ids and this layer does not"),
    ],
)
def test_unfitting_state_is_rejected_and_changes_nothing(labels: Tensor, other: dict[str, Any], message: str) -> None:
    layer, saved = (PermutationLayer(**({"labels": labels, "num_classes": C} | more)) for more in ({}, other))
    visit(saved, torch.randn(N, saved.num_classes), range(N))
    saved.step()
    before = copy.deepcopy(layer)
    with pytest.raises(RuntimeError, match=message):
        layer.load_state_dict(saved.state_dict())
    assert same_state(layer, before)


@pytest.mark.parametrize(
    "key",
    [
        "estimates",
        "delta",
        "predictions.values",
        "loss_weight.values",
        "targets.values",
        "visited.values",
        "predicted_prior",
        "log_likelihood",
        "verdict_log_likelihood",
        "learned",
        "held_out_log_prob",
    ],
)
def test_state_without_a_key_is_rejected(labels: Tensor, key: str) -> None:
    layer = PermutationLayer(labels, C)
    state = layer.state_dict()
    del state[key]
    with pytest.raises(RuntimeError, match=rf'Missing key\(s\) in state_dict: "{key}"'):
        layer.load_state_dict(state)


def test_state_moves_between_formats() -> None:
    simulation = Simulation()
    dense = simulation.train(PermutationLayer(simulation.labels, 3), 4)
    for name in ("float64", "disk", "top_k"):
        layer = PermutationLayer(simulation.labels, 3, **FORMATS[name])
        layer.load_state_dict(dense.state_dict())
        assert layer.estimates == dense.estimates
        assert (layer.corrected_labels() == dense.corrected_labels()).float().mean() > 0.99, name
        assert torch.equal(layer.loss_weight.values, dense.loss_weight.values)


def test_top_k_of_all_classes_matches_dense_layer() -> None:
    simulation = Simulation()
    settings: dict[str, Any] = {"dtype": torch.float64}
    dense = simulation.train(PermutationLayer(simulation.labels, 3, **settings), 5)
    layer = simulation.train(PermutationLayer(simulation.labels, 3, top_k=3, **settings), 5)
    assert not layer.is_warm_up
    assert_close(layer.alpha, dense.alpha, rtol=1e-6, atol=1e-6)
    assert_close(layer.label_quality(), dense.label_quality(), rtol=1e-6, atol=1e-6)
    assert layer.table.values.any()
