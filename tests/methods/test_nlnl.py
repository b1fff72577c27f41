"""NLNL and JNPL: stages, mean predictions, selection and training steps."""

import copy
from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor

from permll.data import Batch, LabeledData
from permll.data.transforms.counter_rng import fold_in, uniform
from permll.methods import FitInfo, Method, find_method
from permll.training.trainer import Trainer
from tests.helpers.method_training import assert_weights_close, record_batches, train_manually
from tests.helpers.toy_training import build_trainer, do_nothing, points, run_steps

BOTH = pytest.mark.parametrize("name", ["nlnl", "jnpl"])
SHORT: dict[str, dict[str, Any]] = {  # of ten epochs
    "nlnl": {"nl": 2, "sel_nl": 2, "sel_pl": 2, "pseudo1": 2, "average": 2},
    "jnpl": {"joint": 4, "pseudo1": 3, "average": 2},
}


def noisy(classes: int = 3) -> LabeledData:
    """Return points with every fifth label wrong."""
    data = points(classes=classes)
    wrong = torch.arange(len(data)) % 5 == 0
    return data.relabel(torch.where(wrong, (data.labels + 1) % classes, data.labels))


def prepared_nlnl(name: str = "nlnl", **settings: Any) -> Any:
    """Return a method after ``on_fit_start`` on four samples of three classes, for ten epochs."""
    method = find_method(name).build(**{**SHORT[name], **settings})
    method.on_fit_start(FitInfo(torch.tensor([0, 1, 2, 0]), ("a", "b", "c", "d"), 3, 10, 4))
    return method


def set_predictions(method: Any, *epochs: list[list[float]]) -> None:
    """Set the recorded predictions of all samples, by epoch."""
    for slot, rows in enumerate(epochs):
        method.predictions.values[:, slot] = torch.tensor(rows)
    method.num_recorded.fill_(len(epochs))


def no_predictions(*_: Any, **__: Any) -> Tensor:
    raise AssertionError("no predictions are needed here")


def selected_rows(method: Method, epoch: int) -> list[int]:
    train_pass = method.train_pass(epoch, 0, no_predictions)
    assert train_pass is not None
    assert method.train_pass(epoch, 1, no_predictions) is None
    rows = train_pass.streams["batch"].rows
    assert rows is not None
    return rows.tolist()


def training_passes(trainer: Trainer) -> list[Tensor]:
    """Return a list of each epoch's softmax (N, c) in training, filled during training; NaN for samples not visited."""
    passes = [torch.full((len(trainer.data), trainer.data.num_classes), torch.nan) for _ in range(trainer.epochs)]
    outputs: list[Tensor] = []
    trainer.method.networks["net"].module.register_forward_hook(lambda *call: outputs.append(call[-1].detach()))
    train_step = trainer._train_step

    def recording(train_pass: Any, batches: Any) -> None:
        train_step(train_pass, batches)
        passes[trainer.epoch][batches["batch"].index] = outputs[-1].softmax(1)

    trainer._train_step = recording  # type: ignore[method-assign]
    return passes


def test_nlnl_stages_match_papers() -> None:
    stages = find_method("nlnl").build(lr=0.02).stages(3120)
    assert [(stage.name, stage.epochs, stage.weights) for stage in stages] == [
        ("NL", 720, "last"),
        ("SelNL", 720, "last"),
        ("SelPL", 720, "last"),
        ("pseudo1", 480, "fresh"),
        ("pseudo2", 480, "fresh"),
    ]
    assert [dict(stage.optimizer) for stage in stages] == [{"lr": 0.02}] * 3 + [{}] * 2
    assert [dict(stage.schedule) for stage in stages] == [{"kind": "constant"}] * 3 + [{}] * 2
    stages = find_method("jnpl").build(lr=0.01).stages(1960)
    assert [(stage.name, stage.epochs, stage.weights) for stage in stages] == [
        ("joint", 1000, "last"),
        ("pseudo1", 480, "fresh"),
        ("pseudo2", 480, "fresh"),
    ]
    assert dict(stages[0].optimizer) == {"lr": 0.01}
    assert stages[0].schedule["milestones"] == (0.8,)


@BOTH
def test_nlnl_mean_prediction_covers_last_epochs(name: str) -> None:
    trainer = build_trainer(name, noisy(), SHORT[name], epochs=10)
    passes, means, every_prediction = training_passes(trainer), [], []
    for _ in trainer.each_epoch():
        means.append(trainer.method.mean_prediction())
        recorded = passes[len(means) - 1]
        every_prediction.append(torch.where(recorded.isnan(), trainer.predict_logits().softmax(1), recorded))
    stages = [stage.name for stage in trainer.method.stages(10) for _ in range(stage.epochs)]
    restart, end = stages.index("pseudo1"), stages.index("pseudo2")
    for epoch in range(end):
        first = max(epoch - 1, restart if epoch >= restart else 0)  # pseudo1 restarts
        torch.testing.assert_close(means[epoch], torch.stack(every_prediction[first : epoch + 1]).mean(0))
    assert all(torch.equal(actual, means[end - 1]) for actual in means[end:]), "unchanged in pseudo2"
    assert passes[restart].isnan().any(), "some samples are not selected"
    assert not passes[end].isnan().any()
    assert torch.equal(trainer.method.corrected_labels(trainer.predict_logits), means[-1])
    given = means[-1].gather(1, trainer.data.labels[:, None])[:, 0]
    assert torch.equal(trainer.method.label_quality(trainer.predict_logits), given)


def test_nlnl_selects_by_mean_prediction() -> None:
    method = prepared_nlnl()
    assert selected_rows(method, 0) == [0, 1, 2, 3]
    one = [[0.2, 0.8, 0.0], [0.0, 1.0, 0.0], [0.4, 0.4, 0.2], [0.3, 0.4, 0.3]]
    two = [[0.5, 0.5, 0.0], [0.3, 0.7, 0.0], [0.3, 0.3, 0.4], [0.3, 0.4, 0.3]]
    set_predictions(method, one, two)
    assert selected_rows(method, 2) == [0, 1], "means 0.35, 0.85, 0.3 and 0.3, threshold 1/3"
    assert method.metrics() == {"selected": 0.5, "refusals": 0.0}
    assert selected_rows(method, 4) == [0, 1, 2, 3], "only one mean reaches 1/2, so all are selected"
    assert method.metrics() == {"selected": 1.0, "refusals": 1.0}
    set_predictions(method, two, two)
    assert selected_rows(method, 2) == [0, 1, 2]
    assert selected_rows(method, 4) == [0, 1]


@BOTH
def test_nlnl_pseudo1_selects_trusted_samples(name: str) -> None:
    method = prepared_nlnl(name, threshold=0.6)
    confident = [[0.6, 0.4, 0.0], [0.0, 1.0, 0.0], [0.4, 0.4, 0.2], [0.9, 0.1, 0.0]]
    set_predictions(method, confident, confident)
    *_, pseudo1, pseudo2 = method.stages(10)
    method.on_stage_start(pseudo1, no_predictions)
    assert selected_rows(method, 6) == [0, 1, 3]
    assert int(method.num_recorded) == 0
    assert method.class_weights.tolist() == [1.0, 2.0, 0.0], "two of class 0, one of class 1, none of class 2"
    updated = [[0.1, 0.9, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.9, 0.1, 0.0]]
    set_predictions(method, updated)
    if name == "nlnl":
        assert selected_rows(method, 7) == [0, 1, 3], "selected once"
    method.on_stage_start(pseudo2, no_predictions)
    assert selected_rows(method, 9) == [0, 1, 2, 3]
    assert method.class_weights.tolist() == [3.0, 1.0, 0.0]


@BOTH
def test_nlnl_skips_empty_selection(name: str) -> None:
    trainer = build_trainer(name, noisy(), {**SHORT[name], "threshold": 0.999999}, epochs=10)
    passes = training_passes(trainer)
    trainer.run(do_nothing, do_nothing)
    assert trainer.method.metrics() == {"selected": 1.0, "refusals": 3.0 if name == "nlnl" else 1.0}
    assert not any(recorded.isnan().any() for recorded in passes[6:])


def test_nlnl_complementary_labels_are_uniform() -> None:
    trainer = build_trainer("nlnl", points(classes=4), {**SHORT["nlnl"], "complementary": 3}, epochs=10)
    recorded = record_batches(trainer)
    run_steps(trainer, 8)  # two epochs of NL
    offsets = torch.full((2, 60, 3), -1)
    for step, (batch, *_) in enumerate(recorded):
        drawn = trainer.method._complementary_labels(batch)
        offsets[step // 4, batch.index] = (drawn - batch.labels[:, None]) % 4
    counts = Counter(offsets.flatten().tolist())
    assert sorted(counts) == [1, 2, 3]
    assert all(90 < count < 150 for count in counts.values()), "360 draws"
    assert (offsets[0] != offsets[1]).any(1).double().mean() > 0.8


INVERSE_FREQUENCY = torch.tensor([1.0, 1.5, 3.0])  # of 30, 20 and 10 samples


def unbalanced(name: str, **settings: Any) -> Trainer:
    labels = torch.tensor([0, 0, 0, 1, 1, 2]).repeat(10)
    return build_trainer(name, points().relabel(labels), {**SHORT[name], **settings}, epochs=10)


def test_nlnl_training_matches_manual_steps() -> None:
    trainer = unbalanced("nlnl", complementary=4)
    initial = copy.deepcopy(trainer.method.networks["net"].module)
    recorded = record_batches(trainer)
    run_steps(trainer, 6)

    def manual_loss(p: Tensor, batch: Batch) -> Tensor:
        total = torch.zeros(())
        for row, complementary in enumerate(trainer.method._complementary_labels(batch).tolist()):
            y = int(batch.labels[row])
            assert y not in complementary
            total = total - INVERSE_FREQUENCY[y] * sum((1 - p[row, k]).log() for k in complementary)
        return total / len(batch.labels)

    assert_weights_close(trainer.method.networks["net"].module, train_manually(initial, recorded, manual_loss))


def test_jnpl_training_matches_manual_steps() -> None:
    trainer = unbalanced("jnpl", complementary=2, weight=0.5)
    initial = copy.deepcopy(trainer.method.networks["net"].module)
    recorded = record_batches(trainer)
    run_steps(trainer, 6)
    is_positive = []

    def manual_loss(p: Tensor, batch: Batch) -> Tensor:
        random = uniform(fold_in(batch.keys, 1), 1)[:, 0].tolist()
        total = torch.zeros(())
        for row, complementary in enumerate(trainer.method._complementary_labels(batch).tolist()):
            for k in complementary:
                total = total - INVERSE_FREQUENCY[batch.labels[row]] * (1 - p[row, k]).detach() * (1 - p[row, k]).log()
            top, second = p[row].sort(descending=True).values[:2]
            is_positive.append(bool(second < 1 / 3) and random[row] < float(top.detach()))
            if is_positive[-1]:
                q = top.detach()
                total = total - 0.5 * (1 + q) * (1 + q**2) * (1 + q**4) * (1 + q**8) * top.log()
        return total / len(batch.labels)

    assert_weights_close(trainer.method.networks["net"].module, train_manually(initial, recorded, manual_loss))
    assert 0 < sum(is_positive) < len(is_positive)


def test_nlnl_pseudo_label_stages_match_manual_steps() -> None:
    trainer = unbalanced("jnpl", threshold=0.35)
    initial = copy.deepcopy(trainer.method.networks["net"].module)
    positive, soft = record_batches(trainer, "positive_loss"), record_batches(trainer, "soft_loss")

    def by_label(p: Tensor, batch: Batch) -> Tensor:
        counts = torch.bincount(trainer.data.labels[trainer.method.selected.values], minlength=3)
        weight = (counts.max() / counts)[batch.labels]
        return -(weight * p[range(len(p)), batch.labels].log()).sum() / weight.sum()

    def by_mean_prediction(p: Tensor, batch: Batch) -> Tensor:
        mean_prediction = trainer.method.predictions.values.mean(1)
        counts = torch.bincount(mean_prediction.argmax(1), minlength=3)
        targets = mean_prediction[batch.index]
        return -((counts.max() / counts)[targets.argmax(1)] * (targets * p.log()).sum(1)).mean()

    compared = 0
    for _ in trainer.each_epoch():
        if trainer.epoch in (5, 8):  # one epoch of pseudo1, one of pseudo2
            recorded, manual_loss = (positive, by_label) if trainer.epoch == 5 else (soft, by_mean_prediction)
            random = torch.get_rng_state()
            assert_weights_close(trainer.method.networks["net"].module, train_manually(initial, recorded, manual_loss))
            torch.set_rng_state(random)
            compared += len(recorded)
    assert trainer.method.class_weights.unique().numel() > 1
    assert compared >= 6


@BOTH
def test_nlnl_handles_two_classes(name: str) -> None:
    trainer = build_trainer(name, points(classes=2), SHORT[name], epochs=10)
    trainer.run(do_nothing, do_nothing)
    assert (trainer.predict(trainer.data).argmax(1) == trainer.data.labels).double().mean() > 0.9


@BOTH
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"threshold": 1.0}, "threshold must lie"),
        ({"average": 0}, "average must lie"),
        ({"complementary": 0}, "complementary must lie"),
    ],
)
def test_nlnl_rejects_invalid_settings(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_method(name).build(**settings)
