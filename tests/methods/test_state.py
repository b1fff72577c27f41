"""Rows of samples in the methods: kept by their largest entries, in half the room or on disk, found by id."""

from typing import Any

import pytest
import torch
from torch.testing import assert_close

from permll.data import LabeledData, Vectors
from permll.methods import SampleBuffer, find_method
from tests.helpers.manual_steps import batch_of, prepare, take_step
from tests.helpers.toy_training import build_trainer, points
from tests.methods.test_contract import idle

MEMORIES = {"permll": "layer", "elr": "target", "sop": "v", "selc": "memory"}
FORMS = [{"top_k": 2}, {"state": "bfloat16"}, {"state": "disk"}, {"top_k": 2, "state": "bfloat16"}]


def rows_of(method: Any, name: str) -> Any:
    return getattr(method, MEMORIES[name]).table.values


@pytest.mark.parametrize("name", MEMORIES)
@pytest.mark.parametrize("state", ["float32", "disk"])
def test_keeping_every_class_or_on_disk_is_the_same(name: str, state: str) -> None:
    data, loss = points(12), "correct" if name == "selc" else "loss"
    plain, kept = prepare(name, data), prepare(name, data, {"top_k": 3, "state": state})
    kept.networks["net"].load_state_dict(plain.networks["net"].state_dict())
    for rows in ([0, 3, 3, 7], [3, 1, 0, 3], [7, 7, 7, 2]):
        losses = [take_step(method, batch_of(data, rows), loss=loss) for method in (plain, kept)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert_close(rows_of(kept, name), rows_of(plain, name))
    assert_close(kept.corrected_labels(torch.zeros), plain.corrected_labels(torch.zeros))
    assert kept.metrics() == pytest.approx(plain.metrics())


def test_what_grows_below_zero_is_kept_too() -> None:
    """A large step of SOP's v goes through zero; only its square has a say."""
    data = points(30, 10)
    plain, kept = (prepare("sop", data, {"lr_v": 4.0, "init": 1e-3} | more) for more in ({}, {"top_k": 4}))
    for method in (plain, kept):
        for sure_of in (2, 2, 2, 2, 7, 7, 5):
            with torch.no_grad():
                method.networks["net"].weight.zero_()
                method.networks["net"].bias.copy_(9.0 * torch.eye(10)[sure_of])
            take_step(method, batch_of(data, range(30)), lr=0.0)
    assert (plain.v.values < 0).any()
    assert_close(kept.v.values, plain.v.values)


@pytest.mark.parametrize("name", MEMORIES)
def test_few_entries_are_enough_where_few_classes_are_meant(name: str) -> None:
    """Thirty classes, and a network that has one or two of them in mind for every sample."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.zeros(60, 30)
    for _ in range(2):
        logits.scatter_(1, torch.randint(30, (60, 1), generator=generator), 4.0)
    labels = torch.randint(30, (60,), generator=generator)
    data = LabeledData(Vectors(logits), labels, [str(k) for k in range(30)], [str(n) for n in range(60)])
    loss, found = "correct" if name == "selc" else "loss", []
    for settings in ({}, {"top_k": 4}):
        method = prepare(name, data, settings)
        with torch.no_grad():
            method.networks["net"].weight.copy_(torch.eye(30))
            method.networks["net"].bias.zero_()
        for _ in range(40):
            take_step(method, batch_of(data, range(60)), lr=0.0, loss=loss)
        found.append((rows_of(method, name), method.corrected_labels(torch.zeros), method.metrics()))
    assert_close(found[1][0], found[0][0], rtol=1e-3, atol=1e-5)
    assert_close(found[1][1], found[0][1], rtol=1e-3, atol=1e-5)
    assert found[1][2] == found[0][2]


@pytest.mark.parametrize("name", [*MEMORIES, "elr_plus", "selc_plus"])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_training_works_and_finds_its_rows_again(name: str, form: dict[str, Any]) -> None:
    """By id: the data set has been turned round since, and has lost a sample."""
    data = points()
    trainer = build_trainer(name, data, form, epochs=6)
    trainer.run(idle, idle)
    assert (trainer.predict(data).argmax(1) == data.labels).float().mean() > 0.7
    corrected = trainer.method.corrected_labels(trainer.predict_logits)
    assert_close(corrected.sum(1), torch.ones(60), rtol=0, atol=0.02)
    turned = data.take(range(58, -1, -1))
    for settings in (form, {}):
        other = build_trainer(name, turned, settings, epochs=6)
        other.method.load_extra_state(trainer.method.extra_state())
        assert_close(
            other.method.corrected_labels(other.predict_logits)[:10], corrected[49:59].flip(0), rtol=0.02, atol=0.02
        )


def test_a_state_of_other_rows_is_refused() -> None:
    labels = torch.tensor([0, 1])
    here = SampleBuffer(labels, ("a", "b"), (3,), top_k=2)
    with pytest.raises(RuntimeError, match=r"the state has rows of shape \(4,\), expected \(3,\)"):
        here.load_state_dict(SampleBuffer(labels, ("a", "b"), (4,), top_k=2).state_dict())
    with pytest.raises(RuntimeError, match="other labels"):
        here.load_state_dict(SampleBuffer(labels.flip(0), ("a", "b"), (3,)).state_dict())


@pytest.mark.parametrize("name", [*MEMORIES, "elr_plus", "selc_plus"])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"top_k": 0}, "top_k must be a whole number, at least 1, got 0"),
        ({"state": "tape"}, "'tape', but input should be 'float32', 'bfloat16' or 'disk'"),
    ],
)
def test_settings_that_cannot_be_are_refused(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_method(name).build(**settings)
