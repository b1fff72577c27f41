"""Webly: relationship graph, loss and corrected labels."""

import pytest
import torch
from torch.testing import assert_close

from permll.data import Batch
from permll.functional.noise_adaptation import relationship_graph
from permll.methods import Stage, find_method
from tests.helpers.method_training import flip_labels, prepared_method, record_batches, run_baseline
from tests.helpers.toy_training import do_nothing, points, run_steps


def test_webly_graph_comes_from_best_baseline() -> None:
    trainer = run_baseline("webly", flip_labels(points()), 12, neighbors=2)
    assert trainer.stages.best is not None
    best = trainer.predict_logits(best=True)
    expected = relationship_graph(best.softmax(1), trainer.data.labels, 2).float()
    recorded = record_batches(trainer, snapshot=lambda: trainer.method.T.clone())
    trainer.run(do_nothing, do_nothing)
    assert len(recorded) > 4
    for _, _, graph in recorded:
        assert torch.equal(graph, expected)
    assert ((expected > 0).sum(1) <= 2).all()


def test_webly_loss_matches_formula() -> None:
    method = prepared_method("webly", [0, 0, 1, 2], 3, neighbors=2)
    p = torch.tensor([[0.7, 0.2, 0.1], [0.5, 0.3, 0.2], [0.3, 0.6, 0.1], [0.8, 0.1, 0.1]])
    method.on_stage_start(Stage("adapt", 1), lambda **_: p.log())
    R = torch.tensor([[0.6 / 0.85, 0.25 / 0.85, 0.0], [0.3 / 0.9, 0.6 / 0.9, 0.0], [0.0, 0.0, 1.0]])
    assert_close(method.transition, R)
    network = method.networks["net"]
    x, labels = torch.randn(3, 2), torch.tensor([0, 1, 2])
    losses = method.loss(Batch(torch.arange(3), labels, {"weak": x}, torch.arange(3)))
    assert_close(losses, -(network(x).softmax(1) @ R)[torch.arange(3), labels].log())
    losses.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in network.parameters())


@pytest.mark.parametrize("classes", [2, 1000])
def test_webly_graph_without_easy_samples_is_identity(classes: int) -> None:
    method = prepared_method("webly", [0, 1], classes)
    method.on_stage_start(Stage("adapt", 1), lambda **_: torch.eye(classes)[[1, 0]])
    assert torch.equal(method.transition, torch.eye(classes)), "identity without easy samples"


def test_webly_rejects_zero_neighbors() -> None:
    with pytest.raises(ValueError, match=r"neighbors must lie in \[1, inf\), got 0"):
        find_method("webly").build(neighbors=0)


def test_webly_recovers_known_noise() -> None:
    clean = points(300)
    trainer = run_baseline("webly", flip_labels(clean, 0.3), 16)
    run_steps(trainer, 100)
    corrected = trainer.method.corrected_labels(trainer.predict_logits).argmax(1)
    assert (corrected == clean.labels).float().mean() > 0.95
