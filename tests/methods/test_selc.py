"""SELC: when correction begins, how labels follow the network, and what the fresh network of SELC+ learns."""

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from permll.data import Batch, LabeledData
from permll.data.transforms import mixup
from permll.methods import METHODS
from permll.methods.selc import SELC, SELCPlus
from permll.training.trainer import Trainer
from tests.helpers.toy_training import build_trainer, points
from tests.methods.test_contract import idle

ALPHA = 0.9


class Fixed(nn.Module):
    """A network that says what it was told, whatever it sees."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits)

    def forward(self, x: Tensor) -> Tensor:
        return self.logits.expand(len(x), -1)


def losses_of(trainer: Trainer, epochs: int) -> list[str]:
    found = []
    for epoch in range(epochs):
        train_pass = trainer.method.train_pass(epoch, 0, trainer.predict_logits)
        assert train_pass is not None
        assert trainer.method.train_pass(epoch, 1, trainer.predict_logits) is None
        found.append(train_pass.loss)
    return found


def given_labels(trainer: Trainer) -> Tensor:
    return nn.functional.one_hot(trainer.data.labels, trainer.data.num_classes).float()


def noisy_points(rows: int = 240) -> tuple[LabeledData, Tensor]:
    """Return points of which a third have a wrong label, and which ones."""
    data = points(rows)
    wrong = torch.rand(rows, generator=torch.Generator().manual_seed(1)) < 1 / 3
    labels = torch.where(wrong, (data.labels + 1) % 3, data.labels)
    return LabeledData(data.inputs, labels, data.classes, data.ids), wrong


# --- When ----------------------------------------------------------------------------------------------------------


def test_a_fixed_turning_point_needs_no_rehearsal() -> None:
    trainer = build_trainer("selc", points(), {"turning_point": 3}, epochs=6)
    assert [stage.name for stage in trainer.stages.every] == ["correct"]
    assert losses_of(trainer, 6) == ["loss"] * 3 + ["correct"] * 3
    assert trainer.method.resolved_params() == {"start": 3}
    share = build_trainer("selc", points(), {"turning_point": 0.5}, epochs=6)
    assert losses_of(share, 6) == ["loss"] * 3 + ["correct"] * 3
    late = build_trainer("selc", points(), {"turning_point": 40}, epochs=6)
    assert losses_of(late, 6) == ["loss"] * 5 + ["correct"], "a run that is shorter corrects in its last epoch"


def test_the_rehearsal_finds_where_the_humps_are_farthest_apart() -> None:
    """Losses are made up: the gap between right and wrong labels grows until epoch 4, then it closes."""
    trainer = build_trainer("selc", points(), {"rehearsal": 6, "earlier": 2}, epochs=20)
    method = trainer.method
    assert isinstance(method, SELC)
    right = torch.rand(60) < 0.6
    gaps = [0.5, 1.0, 2.0, 4.0, 2.5, 1.0]
    for epoch, gap in enumerate(gaps):
        assert losses_of(trainer, epoch + 1)[-1] == "loss"
        method.losses.write(torch.arange(60), 0.5 * torch.rand(60) + torch.where(right, 0.0, gap))
        method.on_epoch_end(epoch, trainer.predict_logits)
    assert method.distances.argsort().tolist()[-3:] == [2, 4, 3]
    method.on_stage_start(trainer.stages.every[1], trainer.predict_logits)
    assert method.resolved_params() == {"turning_point": 4, "start": 2}
    assert losses_of(trainer, 20) == ["loss"] * (6 + 2) + ["correct"] * 12
    method.losses.write(torch.arange(60), torch.full((60,), 9.0))
    method.on_epoch_end(6, trainer.predict_logits)
    assert len(method.distances) == 6, "after the rehearsal nothing is measured"


def test_losses_that_are_all_alike_are_no_turning_point() -> None:
    trainer = build_trainer("selc", points(), {"rehearsal": 2}, epochs=6)
    trainer.method.on_epoch_end(0, trainer.predict_logits)
    assert torch.equal(trainer.method.distances, torch.zeros(2))
    trainer.method.on_stage_start(trainer.stages.every[1], trainer.predict_logits)
    assert trainer.method.resolved_params() == {"turning_point": 1, "start": 1}


def test_training_begins_anew_after_the_rehearsal_at_the_rates_of_the_recipe() -> None:
    trainer = build_trainer("selc", points(), {"rehearsal": 2}, epochs=6)
    initial = copy.deepcopy(trainer.method.networks["net"].state_dict())
    rates, begun = [], {}
    real = trainer._train_on

    def watched(train_pass: Any, batches: Any) -> None:
        if trainer.stages.number not in begun:
            begun[trainer.stages.number] = copy.deepcopy(trainer.method.networks["net"].state_dict())
        real(train_pass, batches)
        rates.append(trainer.optimizers["net"].param_groups[0]["lr"])

    trainer._train_on = watched  # type: ignore[method-assign]
    trainer.run(idle, idle)
    for key, value in initial.items():
        assert torch.equal(begun[1][key], value)
    assert rates[:: trainer.steps_per_epoch] == pytest.approx([0.05, 0.05, 0.05, 0.05, 0.005, 0.005])


@pytest.mark.parametrize("epochs", [2, 3, 5])
def test_short_runs_come_to_an_end(epochs: int) -> None:
    trainer = build_trainer("selc", points(), epochs=epochs)
    trainer.run(idle, idle)
    assert trainer.epoch == epochs


# --- How -----------------------------------------------------------------------------------------------------------


def test_labels_rest_before_correction_begins() -> None:
    trainer = build_trainer("selc", points(), {"turning_point": 2}, epochs=4)
    for _ in trainer.each_epoch():
        if trainer.epoch <= 2:
            assert torch.equal(trainer.method.corrected_labels(trainer.predict_logits), given_labels(trainer))
    assert not torch.equal(trainer.method.corrected_labels(trainer.predict_logits), given_labels(trainer))


def test_training_is_what_a_plain_loop_does() -> None:
    """Two epochs of cross-entropy and two of correction, again with nothing but torch."""
    trainer = build_trainer("selc", points(), {"turning_point": 2, "alpha": ALPHA}, epochs=4)
    net, random = copy.deepcopy(trainer.method.networks["net"]), torch.get_rng_state()
    visits: list[tuple[str, Batch, float]] = []
    real = trainer._train_on

    def watched(train_pass: Any, batches: Any) -> None:
        real(train_pass, batches)
        visits.append((train_pass.loss, batches["batch"], trainer.optimizers["net"].param_groups[0]["lr"]))

    trainer._train_on = watched  # type: ignore[method-assign]
    trainer.run(idle, idle)

    torch.set_rng_state(random)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    net.train()
    t = given_labels(trainer)
    for step, (_, batch, lr) in enumerate(visits):
        optimizer.param_groups[0]["lr"] = lr
        log_p = net(batch.x).log_softmax(1)
        if step < 2 * trainer.steps_per_epoch:
            loss = -log_p[torch.arange(len(batch.index)), batch.labels].mean()
        else:
            for place, sample in enumerate(batch.index.tolist()):
                t[sample] = ALPHA * t[sample] + (1 - ALPHA) * log_p[place].detach().exp()
            loss = -(t[batch.index] * log_p).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert [name for name, _, _ in visits] == ["loss"] * 2 * trainer.steps_per_epoch + [
        "correct"
    ] * 2 * trainer.steps_per_epoch
    torch.testing.assert_close(trainer.method.corrected_labels(trainer.predict_logits), t)
    for ours, plain in zip(trainer.method.networks["net"].parameters(), net.parameters(), strict=True):
        torch.testing.assert_close(ours, plain)


def test_a_sample_that_comes_twice_moves_twice() -> None:
    trainer = build_trainer("selc", points(), {"turning_point": 1, "alpha": 0.5}, epochs=4)
    method = trainer.method
    method.networks["net"] = nn.Linear(4, 3)
    index, x = torch.tensor([7, 3, 7, 7]), torch.randn(4, 4)
    t = given_labels(trainer)
    p = method.networks["net"](x).detach().softmax(1)
    expected = []
    for place, sample in enumerate(index.tolist()):
        t[sample] = (t[sample] + p[place]) / 2
        expected.append(-(t[sample] * p[place].log()).sum().item())
    found = method.correct(Batch(index, trainer.data.labels[index], {"weak": x}, index))
    torch.testing.assert_close(found, torch.tensor(expected))
    torch.testing.assert_close(method.corrected_labels(trainer.predict_logits), t)


def test_after_n_visits_a_label_that_is_denied_has_alpha_to_the_n_left() -> None:
    trainer = build_trainer("selc", points(), {"turning_point": 1, "alpha": ALPHA}, epochs=4)
    trainer.method.networks["net"] = Fixed(torch.tensor([0.0, 0.0, 99.0]))
    index = torch.tensor([0, 1])  # of classes 0 and 1
    for visits in range(1, 9):
        trainer.method.correct(Batch(index, trainer.data.labels[index], {"weak": torch.zeros(2, 4)}, index))
        quality = trainer.method.label_quality(trainer.predict_logits)
        assert quality[:2].tolist() == pytest.approx([ALPHA**visits] * 2)
    assert quality[2:].tolist() == [1.0] * 58
    assert trainer.method.metrics() == {"turned": pytest.approx(2 / 60)}, "0.9^7 < 1/2"


@pytest.mark.parametrize("name", ["selc", "selc_plus"])
def test_wrong_labels_are_corrected(name: str) -> None:
    data, wrong = noisy_points()
    trainer = build_trainer(name, data, {"alpha": 0.7}, epochs=24)
    trainer.run(idle, idle)
    right = trainer.method.corrected_labels(trainer.predict_logits).argmax(1) == points(240).labels
    assert right.float().mean() > 0.9
    quality = trainer.method.label_quality(trainer.predict_logits)
    assert quality[~wrong].mean() > quality[wrong].mean() + 0.15
    assert (trainer.predict(data).argmax(1) == points(240).labels).float().mean() > 0.9


# --- SELC+ ---------------------------------------------------------------------------------------------------------


def test_selc_plus_ends_with_fresh_weights_and_corrected_labels() -> None:
    settings = {"rehearsal": 2, "correction": 4, "earlier": 0}
    trainer = build_trainer("selc_plus", points(), settings, epochs=10)
    assert [(s.name, s.epochs, s.weights) for s in trainer.stages.every] == [
        ("rehearse", 2, "last"),
        ("correct", 4, "initial"),
        ("retrain", 4, "fresh"),
    ]
    memory = Tensor()
    for _ in trainer.each_epoch():
        if trainer.epoch == 6:
            memory = trainer.method.corrected_labels(trainer.predict_logits).clone()
    assert not torch.equal(memory, given_labels(trainer))
    assert torch.equal(trainer.method.corrected_labels(trainer.predict_logits), memory), (
        "the fresh network has no say in the labels"
    )
    start = 2 + trainer.method.resolved_params()["start"]
    assert losses_of(trainer, 10) == ["loss"] * start + ["correct"] * (6 - start) + ["retrain"] * 4
    fixed = build_trainer("selc_plus", points(), {**settings, "turning_point": 1}, epochs=10)
    assert losses_of(fixed, 10) == ["loss"] + ["correct"] * 3 + ["retrain"] * 6


def test_retraining_blends_samples_and_the_classes_they_turned_to() -> None:
    trainer = build_trainer("selc_plus", points(), {"turning_point": 1, "mixup": 2.0}, epochs=6)
    method = trainer.method
    assert isinstance(method, SELCPlus)
    method.networks["net"] = nn.Linear(4, 3)
    method.memory.values.copy_(torch.rand(60, 3))
    index, x, keys = torch.tensor([5, 9, 30, 2]), torch.randn(4, 4), torch.arange(4)
    turned = method.memory.values.argmax(1)
    assert bool((turned[index] != trainer.data.labels[index]).any())
    mix = mixup(keys, 2.0)
    share = mix.lam[0].item()
    found = method.retrain(Batch(index, trainer.data.labels[index], {"weak": x}, keys))
    for i, j in enumerate(mix.partner.tolist()):
        p = method.networks["net"](share * x[i] + (1 - share) * x[j]).softmax(0).tolist()
        loss = -share * math.log(p[turned[index[i]]]) - (1 - share) * math.log(p[turned[index[j]]])
        assert found[i].item() == pytest.approx(loss, rel=1e-5)


def test_no_selc_plus_without_an_epoch_for_each_stage() -> None:
    with pytest.raises(ValueError, match="3 stages need as many epochs"):
        build_trainer("selc_plus", points(), epochs=2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 1.0}, "alpha must lie in"),
        ({"earlier": -1}, "cannot be negative"),
        ({"turning_point": -1}, "cannot be negative"),
        ({"mixup": 0}, "mixup must be positive"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        METHODS["selc_plus"].build(**settings)
