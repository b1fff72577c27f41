"""The graph of related classes: where it comes from, that it stays, and what it changes."""

import pytest
import torch
from torch.testing import assert_close

from permll.data import Batch
from permll.functional.noise_adaptation import relationship_graph
from permll.methods import Stage, find_method
from tests.helpers.toy_training import points
from tests.methods.test_contract import idle, run_steps
from tests.methods.test_goldberger import at_the_end_of_the_baseline, prepared, turned, watch


def test_the_graph_is_drawn_from_the_best_baseline_and_stays() -> None:
    trainer = at_the_end_of_the_baseline("webly", turned(points()), 12, neighbors=2)
    assert trainer.stages.best is not None
    best = trainer.predict_logits(best=True)
    expected = relationship_graph(best.softmax(1), trainer.data.labels, 2).float()
    seen = watch(trainer, lambda: trainer.method.T.clone())
    trainer.run(idle, idle)
    assert len(seen) > 4
    for _, _, graph in seen:
        assert torch.equal(graph, expected)
    assert ((expected > 0).sum(1) <= 2).all()


def test_the_loss_goes_through_the_graph_also_where_it_has_no_edge() -> None:
    method = prepared("webly", [0, 0, 1, 2], 3, neighbors=2)
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
def test_a_graph_of_few_or_many_classes_and_of_labels_nobody_predicts(classes: int) -> None:
    method = prepared("webly", [0, 1], classes)
    method.on_stage_start(Stage("adapt", 1), lambda **_: torch.eye(classes)[[1, 0]])
    assert torch.equal(method.transition, torch.eye(classes)), "without easy rows each class is its only relative"


def test_a_class_is_related_to_itself_at_least() -> None:
    with pytest.raises(ValueError, match="neighbors must be one or more, got 0"):
        find_method("webly").build(neighbors=0)


def test_a_known_noise_is_seen_through() -> None:
    clean = points(300)
    trainer = at_the_end_of_the_baseline("webly", turned(clean, 0.3), 16)
    run_steps(trainer, 100)
    believed = trainer.method.corrected_labels(trainer.predict_logits).argmax(1)
    assert (believed == clean.labels).float().mean() > 0.95
