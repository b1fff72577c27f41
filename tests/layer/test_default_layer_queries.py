"""``PermutationLayer``: verdict on labels, and bad input."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot
from torch.testing import assert_close

from permll import PermutationLayer
from permll.layer import label_noise, transition
from permll.layer.label_noise import MIN_PROB
from tests.helpers.default_layer import C, N, Simulation, mean_predictions, visit


@pytest.fixture
def labels() -> Tensor:
    return torch.arange(N) % C


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"held_out": -0.1}, r"held_out must be a fraction in \[0, 1\), got -0.1"),
        ({"held_out": 1.0}, r"held_out must be a fraction in \[0, 1\), got 1.0"),
        ({"held_out": 50}, "got 50"),
        ({"held_out": float("nan")}, "got nan"),
        ({"held_out": "0.1"}, "got '0.1'"),
        ({"held_out": None}, "got None"),
        (
            {"dtype": torch.float16},
            "dtype must be one of torch.float32, torch.float64, torch.bfloat16; got torch.float16",
        ),
        ({"file": "rows.bin"}, "file must be True or None for this layer, got 'rows.bin'"),
        ({"file": Path("rows.bin")}, "file must be True or None for this layer"),
        ({"labels": [0, 1, 3]}, r"labels must be in 0\.\.2, but 1 position \(2\) is not"),
        ({"labels": [0, -1, 2]}, r"labels must be in 0\.\.\d, but 1 position \(1\) is not"),
        ({"labels": []}, r"N > 0; got int64 of shape \(0,\)"),
        ({"num_classes": 1}, "num_classes must be an integer >= 2, got 1"),
        ({"top_k": 0}, "top_k must be an integer >= 1, got 0"),
        ({"ids": ["a", "b", "a"]}, "'a' occurs more than once"),
    ],
)
def test_constructor_rejects_bad_input(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        PermutationLayer(**({"labels": [0, 1, 2], "num_classes": 3} | settings))
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_warm_up_gives_no_verdict(labels: Tensor) -> None:
    layer = PermutationLayer(labels, C)
    for _ in range(2):
        visit(layer, 9.0 * one_hot((labels + 1) % C, C) + torch.randn(N, C), range(N))  # contradicts all labels
        layer.step()
    assert layer.is_warm_up
    assert torch.equal(layer.corrected_labels(), labels)
    assert torch.equal(layer.label_quality(), torch.ones(N))
    assert torch.equal(layer.class_probs(), one_hot(labels, C).float())
    assert torch.equal(layer.suspects(), torch.arange(N))
    assert torch.equal(layer.weights(), one_hot(labels, C).float())
    assert torch.equal(layer.alpha.amax(1), torch.zeros(N))
    assert (layer.alpha.sort(1).values[:, :-1] == transition.IMPOSSIBLE).all()


def test_class_probs_match_loop() -> None:
    simulation = Simulation()
    layer = simulation.train(PermutationLayer(simulation.labels, 3), 4)
    assert layer.learned.all()
    layer.estimates.credibility, layer.estimates.temperature = 0.8, 1.7
    layer.predictions.write(torch.tensor([5]), torch.zeros(1, 3))  # a sample that was not seen yet
    T = layer.verdict_log_likelihood.exp().T.tolist()
    t, y = mean_predictions(layer).tolist(), simulation.labels.tolist()
    probs = layer.class_probs()
    assert torch.equal(layer.corrected_labels(), probs.argmax(1))
    quality = layer.label_quality()
    assert_close(quality, probs[torch.arange(600), simulation.labels])
    assert ((quality >= 0) & (quality <= 1)).all()
    order = layer.suspects()
    assert sorted(order.tolist()) == list(range(600))
    assert (quality[order].diff() >= 0).all()
    assert torch.equal(layer.suspects(limit=7), order[:7])
    wrong_labels = simulation.labels != simulation.truth
    assert wrong_labels[order[:100]].float().mean() > 0.9

    for i in range(100):
        joint = [T[k][y[i]] * max(t[i][k], MIN_PROB) ** (1 / 1.7) for k in range(3)]
        w = 0.8 if i != 5 else 0.0
        expected = [w * joint[k] / sum(joint) + (1 - w) * (k == y[i]) for k in range(3)]
        assert probs[i].tolist() == pytest.approx(expected, rel=1e-3, abs=1e-5)


def test_queries_contain_all_visits() -> None:
    """Predictions that wait to be averaged count in every query."""
    simulation = Simulation()
    layer = simulation.train(PermutationLayer(simulation.labels, 3), 4)
    logits = 9.0 * one_hot((simulation.labels + 1) % 3, 3) + simulation.noise
    visit(layer, logits[:300], range(300))
    layer.step()
    averaged = copy.deepcopy(layer)
    averaged.state_dict()
    for name in ("class_probs", "corrected_labels", "label_quality", "suspects"):
        waiting = copy.deepcopy(layer)
        assert torch.equal(getattr(waiting, name)(), getattr(averaged, name)())


def test_weak_classifier_changes_no_label() -> None:
    simulation = Simulation()
    layer = simulation.train(PermutationLayer(simulation.labels, 3), 4)
    assert not torch.equal(layer.corrected_labels(), simulation.labels)
    layer.estimates.credibility = label_noise.credibility(0.67)
    assert torch.equal(layer.corrected_labels(), simulation.labels)


def test_queries_warn_about_pending_updates(labels: Tensor) -> None:
    layer = PermutationLayer(labels, C)
    visit(layer, torch.randn(2, C), [0, 1])
    for query in (layer.corrected_labels, layer.label_quality, layer.suspects, layer.class_probs):
        with pytest.warns(UserWarning, match=r"1 batches are not applied .*: call layer.step\(\) first"):
            query()
    layer.step()
    layer.suspects()
