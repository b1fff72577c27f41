"""Trusted labels in PermLL: they are learned as they are, and their rows of α do not change."""

from dataclasses import replace

import pytest
import torch

from permll.data import LabeledData
from permll.training.data_preparation import prepare_data
from tests.helpers.toy_training import build_trainer, do_nothing, points, points_recipe


def with_wrong_labels(data: LabeledData, rows: int) -> LabeledData:
    """Return the data with wrong labels of the first rows."""
    labels = data.labels.clone()
    labels[:rows] = (labels[:rows] + 1) % data.num_classes
    return data.relabel(labels)


@pytest.mark.parametrize("settings", [{}, {"top_k": 2}, {"networks": 2}], ids=str)
def test_trusted_labels_are_not_corrected(settings: dict[str, int]) -> None:
    data = with_wrong_labels(points(90), 20)
    trusted = torch.arange(90) < 10
    trainer = build_trainer("permll", data, {"correct_after": 0.1, **settings}, epochs=12, trusted=trusted)
    layer = trainer.method.layer
    before = layer.weights()[trusted].clone()
    trainer.run(do_nothing, do_nothing)
    assert torch.equal(layer.weights()[trusted], before)
    corrected, quality = trainer.method.labels_and_quality(trainer.predict_logits)
    assert torch.equal(corrected.argmax(1)[trusted], data.labels[trusted]), "also those that are wrong"
    assert bool((quality[trusted] == 1).all())
    others = (~trusted) & (torch.arange(90) < 20)
    assert (corrected.argmax(1)[others] != data.labels[others]).float().mean() > 0.6, "the others are corrected"


def test_network_learns_trusted_labels() -> None:
    """Wrong labels that are trusted are learned, others are not."""
    data = with_wrong_labels(points(90), 30)
    agreement = {}
    for trusted in (torch.arange(90) < 30, torch.zeros(90, dtype=torch.bool)):
        trainer = build_trainer("permll", data, {"correct_after": 0.1}, epochs=40, trusted=trusted, dropout=0.0)
        trainer.run(do_nothing, do_nothing)
        predicted = trainer.predict(data).argmax(1)
        agreement[bool(trusted.any())] = float((predicted == data.labels)[:30].float().mean())
    assert agreement[True] > agreement[False] + 0.2


def test_trusted_samples_are_trained_on() -> None:
    """None of them is held out, and the mask follows the samples."""
    data = replace(points(60), trusted=torch.arange(60) % 3 == 0)
    prepared = prepare_data(points_recipe(data__validation=0.25), data)
    assert prepared.validation is not None
    assert prepared.train.trusted is not None
    assert len(prepared.validation) == 10
    assert not bool(prepared.validation.trusted.any())  # type: ignore[union-attr]
    names = {name for name, mask in zip(data.ids, data.trusted.tolist(), strict=True) if mask}  # type: ignore[union-attr]
    kept = {name for name, mask in zip(prepared.train.ids, prepared.train.trusted.tolist(), strict=True) if mask}
    assert kept == names
    assert torch.equal(prepared.trusted, prepared.train.trusted)  # type: ignore[arg-type]
    everything = replace(data, trusted=torch.ones(60, dtype=torch.bool))
    assert prepare_data(points_recipe(data__validation=0.25), everything).validation is None
