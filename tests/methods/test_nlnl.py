"""NLNL and JNPL: the stages, what is remembered of every sample, who is selected by it, and the losses step by step."""

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
from tests.helpers.toy_training import build_trainer, points
from tests.methods.test_bootstrap import assert_same_weights, train_by_hand, watch
from tests.methods.test_contract import idle, run_steps

BOTH = pytest.mark.parametrize("name", ["nlnl", "jnpl"])
SHORT: dict[str, dict[str, Any]] = {  # of ten epochs
    "nlnl": {"nl": 2, "sel_nl": 2, "sel_pl": 2, "pseudo1": 2, "average": 2},
    "jnpl": {"joint": 4, "pseudo1": 3, "average": 2},
}


def noisy(classes: int = 3) -> LabeledData:
    """Return points of which every fifth has a wrong label."""
    data = points(classes=classes)
    wrong = torch.arange(len(data)) % 5 == 0
    return data.relabel(torch.where(wrong, (data.labels + 1) % classes, data.labels))


def prepared(name: str = "nlnl", **settings: Any) -> Any:
    """Return a method that knows four samples of three classes, and is to train for ten epochs."""
    method = find_method(name).build(**{**SHORT[name], **settings})
    method.on_fit_start(FitInfo(torch.tensor([0, 1, 2, 0]), ("a", "b", "c", "d"), 3, 10, 4))
    return method


def remember(method: Any, *epochs: list[list[float]]) -> None:
    """Fill the memory with predictions for all rows, epoch by epoch."""
    for slot, rows in enumerate(epochs):
        method.memory.values[:, slot] = torch.tensor(rows)
    method.remembered.fill_(len(epochs))


def no_scan(*_: Any, **__: Any) -> Tensor:
    raise AssertionError("nothing is to be scanned here")


def rows_of(method: Method, epoch: int) -> list[int]:
    train_pass = method.train_pass(epoch, 0, no_scan)
    assert train_pass is not None
    assert method.train_pass(epoch, 1, no_scan) is None
    rows = train_pass.streams["batch"].rows
    assert rows is not None
    return rows.tolist()


def training_passes(trainer: Trainer) -> list[Tensor]:
    """Return each epoch's softmax (N, c) in training, filled as it comes; NaN where a row has no pass."""
    passes = [torch.full((len(trainer.data), trainer.data.num_classes), torch.nan) for _ in range(trainer.epochs)]
    heard: list[Tensor] = []
    trainer.method.networks["net"].module.register_forward_hook(lambda *call: heard.append(call[-1].detach()))
    train_on = trainer._train_on

    def watched(train_pass: Any, batches: Any) -> None:
        train_on(train_pass, batches)
        passes[trainer.epoch][batches["batch"].index] = heard[-1].softmax(1)

    trainer._train_on = watched  # type: ignore[method-assign]
    return passes


def test_the_stages_are_the_authors() -> None:
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
def test_the_memory_is_the_mean_over_the_last_epochs_of_what_training_saw(name: str) -> None:
    trainer = build_trainer(name, noisy(), SHORT[name], epochs=10)
    passes, memory, whole = training_passes(trainer), [], []
    for _ in trainer.each_epoch():
        memory.append(trainer.method.mean_prediction())
        seen = passes[len(memory) - 1]
        whole.append(torch.where(seen.isnan(), trainer.predict_logits().softmax(1), seen))
    stages = [stage.name for stage in trainer.method.stages(10) for _ in range(stage.epochs)]
    again, end = stages.index("pseudo1"), stages.index("pseudo2")
    for epoch in range(end):
        first = max(epoch - 1, again if epoch >= again else 0)  # pseudo1 fills the memory anew
        torch.testing.assert_close(memory[epoch], torch.stack(whole[first : epoch + 1]).mean(0))
    assert all(torch.equal(found, memory[end - 1]) for found in memory[end:]), "pseudo2 leaves it as it is"
    assert passes[again].isnan().any(), "some rows are left out"
    assert not passes[end].isnan().any()
    assert torch.equal(trainer.method.corrected_labels(trainer.predict_logits), memory[-1])
    given = memory[-1].gather(1, trainer.data.labels[:, None])[:, 0]
    assert torch.equal(trainer.method.label_quality(trainer.predict_logits), given)


def test_rows_are_selected_by_the_mean_and_may_come_back() -> None:
    method = prepared()
    assert rows_of(method, 0) == [0, 1, 2, 3]
    one = [[0.2, 0.8, 0.0], [0.0, 1.0, 0.0], [0.4, 0.4, 0.2], [0.3, 0.4, 0.3]]
    two = [[0.5, 0.5, 0.0], [0.3, 0.7, 0.0], [0.3, 0.3, 0.4], [0.3, 0.4, 0.3]]
    remember(method, one, two)
    assert rows_of(method, 2) == [0, 1], "means 0.35, 0.85, 0.3 and 0.3 against a third"
    assert method.metrics() == {"selected": 0.5, "refusals": 0.0}
    assert rows_of(method, 4) == [0, 1, 2, 3], "one row alone reaches a half: all are taken"
    assert method.metrics() == {"selected": 1.0, "refusals": 1.0}
    remember(method, two, two)
    assert rows_of(method, 2) == [0, 1, 2]
    assert rows_of(method, 4) == [0, 1]


@BOTH
def test_pseudo_labels_begin_with_the_believed_rows_and_an_empty_memory(name: str) -> None:
    method = prepared(name, cut=0.6)
    sure = [[0.6, 0.4, 0.0], [0.0, 1.0, 0.0], [0.4, 0.4, 0.2], [0.9, 0.1, 0.0]]
    remember(method, sure, sure)
    *_, pseudo1, pseudo2 = method.stages(10)
    method.on_stage_start(pseudo1, no_scan)
    assert rows_of(method, 6) == [0, 1, 3]
    assert int(method.remembered) == 0
    assert method.class_weights.tolist() == [1.0, 2.0, 0.0], "two of class 0, one of class 1, none of class 2"
    turned = [[0.1, 0.9, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.9, 0.1, 0.0]]
    remember(method, turned)
    if name == "nlnl":
        assert rows_of(method, 7) == [0, 1, 3], "chosen once"
    method.on_stage_start(pseudo2, no_scan)
    assert rows_of(method, 9) == [0, 1, 2, 3]
    assert method.class_weights.tolist() == [3.0, 1.0, 0.0]


@BOTH
def test_where_no_label_is_believed_training_takes_all_rows_and_says_so(name: str) -> None:
    trainer = build_trainer(name, noisy(), {**SHORT[name], "cut": 0.999999}, epochs=10)
    passes = training_passes(trainer)
    trainer.run(idle, idle)
    assert trainer.method.metrics() == {"selected": 1.0, "refusals": 3.0 if name == "nlnl" else 1.0}
    assert not any(seen.isnan().any() for seen in passes[6:])


def test_complementary_labels_are_even_and_new_at_every_visit() -> None:
    trainer = build_trainer("nlnl", points(classes=4), {**SHORT["nlnl"], "complementary": 3}, epochs=10)
    seen = watch(trainer)
    run_steps(trainer, 8)  # two epochs of NL
    offsets = torch.full((2, 60, 3), -1)
    for step, (batch, _) in enumerate(seen):
        drawn = trainer.method._complementary_labels(batch)
        offsets[step // 4, batch.index] = (drawn - batch.labels[:, None]) % 4
    counts = Counter(offsets.flatten().tolist())
    assert sorted(counts) == [1, 2, 3]
    assert all(90 < count < 150 for count in counts.values()), "360 draws"
    assert (offsets[0] != offsets[1]).any(1).double().mean() > 0.8


RARITY = torch.tensor([1.0, 1.5, 3.0])  # of 30, 20 and 10 rows


def unbalanced(name: str, **settings: Any) -> Trainer:
    labels = torch.tensor([0, 0, 0, 1, 1, 2]).repeat(10)
    return build_trainer(name, points().relabel(labels), {**SHORT[name], **settings}, epochs=10)


def test_negative_learning_is_a_few_plain_steps() -> None:
    trainer = unbalanced("nlnl", complementary=4)
    initial = copy.deepcopy(trainer.method.networks["net"].module)
    seen = watch(trainer)
    run_steps(trainer, 6)

    def by_hand(p: Tensor, batch: Batch) -> Tensor:
        total = torch.zeros(())
        for row, not_these in enumerate(trainer.method._complementary_labels(batch).tolist()):
            y = int(batch.labels[row])
            assert y not in not_these
            total = total - RARITY[y] * sum((1 - p[row, k]).log() for k in not_these)
        return total / len(batch.labels)

    assert_same_weights(trainer.method.networks["net"].module, train_by_hand(initial, seen, by_hand))


def test_joint_learning_is_a_few_plain_steps() -> None:
    trainer = unbalanced("jnpl", complementary=2, weight=0.5)
    initial = copy.deepcopy(trainer.method.networks["net"].module)
    seen = watch(trainer)
    run_steps(trainer, 6)
    taught = []

    def by_hand(p: Tensor, batch: Batch) -> Tensor:
        chance = uniform(fold_in(batch.keys, 1), 1)[:, 0].tolist()
        total = torch.zeros(())
        for row, not_these in enumerate(trainer.method._complementary_labels(batch).tolist()):
            for k in not_these:
                total = total - RARITY[batch.labels[row]] * (1 - p[row, k]).detach() * (1 - p[row, k]).log()
            top, second = p[row].sort(descending=True).values[:2]
            taught.append(bool(second < 1 / 3) and chance[row] < float(top.detach()))
            if taught[-1]:
                sure = top.detach()
                total = total - 0.5 * (1 + sure) * (1 + sure**2) * (1 + sure**4) * (1 + sure**8) * top.log()
        return total / len(batch.labels)

    assert_same_weights(trainer.method.networks["net"].module, train_by_hand(initial, seen, by_hand))
    assert 0 < sum(taught) < len(taught)


def test_the_stages_of_pseudo_labels_are_plain_steps_with_new_networks() -> None:
    trainer = unbalanced("jnpl", cut=0.35)
    initial = copy.deepcopy(trainer.method.networks["net"].module)
    positive, soft = watch(trainer, "positive_loss"), watch(trainer, "soft_loss")

    def by_label(p: Tensor, batch: Batch) -> Tensor:
        counts = torch.bincount(trainer.data.labels[trainer.method.selected.values], minlength=3)
        weight = (counts.max() / counts)[batch.labels]
        return -(weight * p[range(len(p)), batch.labels].log()).sum() / weight.sum()

    def by_memory(p: Tensor, batch: Batch) -> Tensor:
        believed = trainer.method.memory.values.mean(1)
        counts = torch.bincount(believed.argmax(1), minlength=3)
        targets = believed[batch.index]
        return -((counts.max() / counts)[targets.argmax(1)] * (targets * p.log()).sum(1)).mean()

    compared = 0
    for _ in trainer.each_epoch():
        if trainer.epoch in (5, 8):  # one epoch of pseudo1, one of pseudo2
            seen, by_hand = (positive, by_label) if trainer.epoch == 5 else (soft, by_memory)
            random = torch.get_rng_state()
            assert_same_weights(trainer.method.networks["net"].module, train_by_hand(initial, seen, by_hand))
            torch.set_rng_state(random)
            compared += len(seen)
    assert trainer.method.class_weights.unique().numel() > 1
    assert compared >= 6


@BOTH
def test_two_classes_are_enough(name: str) -> None:
    trainer = build_trainer(name, points(classes=2), SHORT[name], epochs=10)
    trainer.run(idle, idle)
    assert (trainer.predict(trainer.data).argmax(1) == trainer.data.labels).double().mean() > 0.9


@BOTH
@pytest.mark.parametrize(
    ("settings", "message"),
    [({"cut": 1.0}, "cut must lie"), ({"average": 0}, "one or more"), ({"complementary": 0}, "one or more")],
)
def test_settings_that_select_or_remember_nothing_are_refused(
    name: str, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        find_method(name).build(**settings)
