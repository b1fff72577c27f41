"""Per-sample state of the methods: updates, top-k entries, bfloat16, disk, and matching by id."""

from typing import Any

import pytest
import torch
from torch.testing import assert_close

from permll.data import LabeledData, Vectors
from permll.methods import SampleBuffer, find_method
from tests.helpers.manual_steps import batch_of, prepare, take_step
from tests.helpers.toy_training import build_trainer, do_nothing, points

BUFFERS = {"permll": "layer", "elr": "target", "sop": "v", "selc": "target"}
STORAGES = [{"top_k": 2}, {"state": "bfloat16"}, {"state": "disk"}, {"top_k": 2, "state": "bfloat16"}]


def rows_of(method: Any, name: str) -> Any:
    return getattr(method, BUFFERS[name]).table.values


@pytest.mark.parametrize("name", BUFFERS)
@pytest.mark.parametrize("state", ["float32", "disk"])
def test_state_full_top_k_and_disk_match_dense(name: str, state: str) -> None:
    data, loss = points(12), "corrected_loss" if name == "selc" else "loss"
    plain, stored = prepare(name, data), prepare(name, data, {"top_k": 3, "state": state})
    stored.networks["net"].load_state_dict(plain.networks["net"].state_dict())
    for rows in ([0, 3, 3, 7], [3, 1, 0, 3], [7, 7, 7, 2]):
        losses = [take_step(method, batch_of(data, rows), loss=loss) for method in (plain, stored)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert_close(rows_of(stored, name), rows_of(plain, name))
    assert_close(stored.corrected_labels(torch.zeros), plain.corrected_labels(torch.zeros))
    assert stored.metrics() == pytest.approx(plain.metrics())


def test_state_top_k_keeps_negative_values() -> None:
    """A large step of SOP's v crosses zero; only its square is used."""
    data = points(30, 10)
    plain, stored = (prepare("sop", data, {"lr_v": 4.0, "init": 1e-3} | more) for more in ({}, {"top_k": 4}))
    for method in (plain, stored):
        for k in (2, 2, 2, 2, 7, 7, 5):
            with torch.no_grad():
                method.networks["net"].weight.zero_()
                method.networks["net"].bias.copy_(9.0 * torch.eye(10)[k])
            take_step(method, batch_of(data, range(30)), lr=0.0)
    assert (plain.v.values < 0).any()
    assert_close(stored.v.values, plain.v.values)


@pytest.mark.parametrize("name", BUFFERS)
def test_state_top_k_suffices_for_few_candidate_classes(name: str) -> None:
    """Thirty classes, and a network that predicts one or two of them for every sample."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.zeros(60, 30)
    for _ in range(2):
        logits.scatter_(1, torch.randint(30, (60, 1), generator=generator), 4.0)
    labels = torch.randint(30, (60,), generator=generator)
    data = LabeledData(Vectors(logits), labels, [str(k) for k in range(30)], [str(n) for n in range(60)])
    loss, results = "corrected_loss" if name == "selc" else "loss", []
    for settings in ({}, {"top_k": 4}):
        method = prepare(name, data, settings)
        with torch.no_grad():
            method.networks["net"].weight.copy_(torch.eye(30))
            method.networks["net"].bias.zero_()
        for _ in range(40):
            take_step(method, batch_of(data, range(60)), lr=0.0, loss=loss)
        results.append((rows_of(method, name), method.corrected_labels(torch.zeros), method.metrics()))
    assert_close(results[1][0], results[0][0], rtol=1e-3, atol=1e-5)
    assert_close(results[1][1], results[0][1], rtol=1e-3, atol=1e-5)
    assert results[1][2] == results[0][2]


@pytest.mark.parametrize("name", [*BUFFERS, "elr_plus", "selc_plus"])
@pytest.mark.parametrize("storage", STORAGES, ids=str)
def test_state_is_restored_by_id(name: str, storage: dict[str, Any]) -> None:
    """The second data set is reversed and lacks a sample."""
    data = points()
    trainer = build_trainer(name, data, storage, epochs=6)
    trainer.run(do_nothing, do_nothing)
    assert (trainer.predict(data).argmax(1) == data.labels).float().mean() > 0.7
    corrected = trainer.method.corrected_labels(trainer.predict_logits)
    assert_close(corrected.sum(1), torch.ones(60), rtol=0, atol=0.02)
    reversed_data = data.take(range(58, -1, -1))
    for settings in (storage, {}):
        other = build_trainer(name, reversed_data, settings, epochs=6)
        other.method.load_extra_state(trainer.method.extra_state())
        assert_close(
            other.method.corrected_labels(other.predict_logits)[:10], corrected[49:59].flip(0), rtol=0.02, atol=0.02
        )


def test_state_rejects_other_shapes_and_labels() -> None:
    labels = torch.tensor([0, 1])
    here = SampleBuffer(labels, ("a", "b"), (3,), top_k=2)
    with pytest.raises(RuntimeError, match=r"the state has rows of shape \(4,\), expected \(3,\)"):
        here.load_state_dict(SampleBuffer(labels, ("a", "b"), (4,), top_k=2).state_dict())
    with pytest.raises(RuntimeError, match="other labels"):
        here.load_state_dict(SampleBuffer(labels.flip(0), ("a", "b"), (3,)).state_dict())


@pytest.mark.parametrize("name", [*BUFFERS, "elr_plus", "selc_plus"])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"top_k": 0}, "top_k must be an integer >= 1, got 0"),
        ({"state": "other"}, "'other', but input should be 'float32', 'bfloat16' or 'disk'"),
    ],
)
def test_state_rejects_invalid_settings(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_method(name).build(**settings)


def test_sample_buffer_updates_repeated_samples_in_order() -> None:
    buffer = SampleBuffer(torch.tensor([0, 1, 1]), ("a", "b", "c"))
    index, added = torch.tensor([2, 0, 2]), torch.tensor([1.0, 10.0, 100.0])
    updated = buffer.update(index, lambda rows, positions: 2 * rows + added[positions])
    assert updated.tolist() == [1.0, 10.0, 102.0]
    assert buffer.values.tolist() == [10.0, 0.0, 102.0]
    empty = buffer.update(index[:0], lambda rows, positions: rows + added[:0][positions])
    assert empty.shape == (0,)
    assert buffer.values.tolist() == [10.0, 0.0, 102.0]
