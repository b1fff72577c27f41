"""DivideMix: who divides for whom and when, what a step costs by loops, and the holes it must not fall into."""

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from permll.data import Batch, LabeledData
from permll.data.transforms import mixup
from permll.data.transforms.counter_rng import fold_in
from permll.functional.mixture import unit_scaled
from permll.functional.semi import right_posterior
from permll.methods import METHODS, TrainPass, _held_out
from permll.methods.dividemix import DivideMix
from permll.training.checkpoint import load_state, save_state
from permll.training.trainer import Trainer
from tests.helpers.toy_training import build_trainer, points
from tests.methods.test_contract import idle, run_steps, same
from tests.methods.test_selc import noisy_points

VIEWS = ("weak", "weak:2")


def divided(settings: dict[str, Any] | None = None, epochs: int = 10) -> tuple[Trainer, DivideMix]:
    """Return a training after its warm-up of one epoch, with linear networks that say the same in all modes."""
    trainer = build_trainer("dividemix", points(), {"warm_up": 1, **(settings or {})}, epochs=epochs, held_out=False)
    method = trainer.method
    assert isinstance(method, DivideMix)
    for name in method.network_names:
        method.networks[name] = nn.Linear(4, 3)
    return trainer, method


def batch_of(data: LabeledData, rows: list[int], seed: int) -> Batch:
    index = torch.tensor(rows)
    views = {name: torch.randn(len(rows), 4) for name in VIEWS}
    return Batch(index, data.labels[index], views, index + 1000 * seed)


def scans(*logits: Tensor) -> Any:
    """Return a scan of networks that say this of all rows, and what they were asked."""
    asked: list[tuple[str, int]] = []

    def predict_logits(
        network: str = "net", *, best: bool = False, view: str = "plain", rows: Tensor | None = None
    ) -> Tensor:
        assert not best
        assert view == "plain"
        found = logits[int(network[-1])]
        asked.append((network, len(found) if rows is None else len(rows)))
        return found if rows is None else found[rows]

    return predict_logits, asked


def softmax(row: list[float]) -> list[float]:
    powers = [math.exp(value - max(row)) for value in row]
    return [power / sum(powers) for power in powers]


def confident(labels: Tensor, right: Tensor, gap: float = 4.0) -> Tensor:
    """Return logits that speak for the labels of some rows, and against those of the others."""
    logits = torch.zeros(len(labels), 3).scatter_(1, labels[:, None], gap) + 0.3 * torch.randn(len(labels), 3)
    return torch.where(right[:, None], logits, logits.roll(1, 1))


# --- When ----------------------------------------------------------------------------------------------------------


def test_the_networks_take_turns() -> None:
    trainer = build_trainer("dividemix", noisy_points(60)[0], {"warm_up": 2}, epochs=6)
    seen: list[tuple[int, str, tuple[str, ...]]] = []

    def after_step(trainer: Trainer) -> None:
        assert trainer._sweep is not None
        assert trainer._sweep.networks is not None
        entry = (trainer.epoch, trainer._sweep.loss, trainer._sweep.networks)
        if not seen or seen[-1] != entry:
            seen.append(entry)

    trainer.run(after_step, idle)
    turns = [("net0",), ("net1",)]
    assert seen == [(epoch, "loss" if epoch < 2 else "learn", turn) for epoch in range(6) for turn in turns]
    assert len(trainer.stages.every) == 1, "momentum and schedule go on"


def test_in_its_turn_one_network_moves_and_the_other_only_speaks() -> None:
    trainer = build_trainer("dividemix", noisy_points(60)[0], {"warm_up": 1}, epochs=4)
    before: dict[str, Any] = {}

    def after_step(trainer: Trainer) -> None:
        assert trainer._sweep is not None
        assert trainer._sweep.networks is not None
        (own,) = trainer._sweep.networks
        now = {name: copy.deepcopy(network.state_dict()) for name, network in trainer.method.networks.items()}
        for name in now:
            if name in before:
                assert same(now[name], before[name]) is (name != own)
        before.update(now)

    trainer.run(after_step, idle)


def test_both_divide_before_either_moves_and_each_for_the_other() -> None:
    trainer, method = divided()
    labels = trainer.data.labels
    halves = torch.arange(60) < 24, torch.arange(60) >= 40  # whose labels net0, and net1, holds for right
    said = [confident(labels, half) for half in halves]
    predict_logits, asked = scans(*said)
    first = method.train_pass(1, 0, predict_logits)
    assert asked == [("net0", 60), ("net1", 60)]
    second = method.train_pass(1, 1, predict_logits)
    assert len(asked) == 2, "no look in between"
    assert method.train_pass(1, 2, predict_logits) is None
    for train_pass, half, number in ((first, halves[1], 1), (second, halves[0], 0)):
        assert isinstance(train_pass, TrainPass)
        assert list(train_pass.streams) == ["labeled", "unlabeled"], "the labelled rows set the pace"
        labeled, unlabeled = train_pass.streams.values()
        assert torch.equal(labeled.rows, half.nonzero()[:, 0])  # type: ignore[arg-type]
        assert torch.equal(unlabeled.rows, (~half).nonzero()[:, 0])  # type: ignore[arg-type]
        assert labeled.views == unlabeled.views == VIEWS
        assert labeled.batch_factor == unlabeled.batch_factor == 0.5
        losses = nn.functional.cross_entropy(said[number], labels, reduction="none")
        expected = right_posterior((losses - losses.min()) / (losses.max() - losses.min()))
        torch.testing.assert_close(method.clean.values[:, number], expected)
    assert method.networks.keys() == {"net0", "net1"}
    assert method.metrics()["kept"] == pytest.approx((24 + 20) / 120)


def test_the_warm_up_is_cross_entropy_with_a_penalty_for_confidence() -> None:
    trainer, method = divided({"penalty": 0.5})
    batch = Batch(torch.arange(4), trainer.data.labels[:4], {"weak": torch.randn(4, 4)}, torch.arange(4))
    for number in range(2):
        method.train_pass(0, number, trainer.predict_logits)
        logits = method.networks[f"net{number}"](batch.x).tolist()
        for found, row, y in zip(method.loss(batch).tolist(), logits, batch.labels.tolist(), strict=True):
            p = softmax(row)
            assert found == pytest.approx(-math.log(p[y]) + 0.5 * sum(q * math.log(q) for q in p), rel=1e-5)


def test_losses_of_several_epochs_are_averaged() -> None:
    trainer, method = divided({"history": 2})
    labels = trainer.data.labels
    scaled = []
    for epoch in range(1, 5):
        logits = confident(labels, torch.rand(60) < 0.6)
        predict_logits, _ = scans(logits, logits)
        method.train_pass(epoch, 0, predict_logits)
        scaled.append(unit_scaled(nn.functional.cross_entropy(logits, labels, reduction="none")))
        expected = right_posterior(torch.stack(scaled[-2:]).mean(0))
        torch.testing.assert_close(method.clean.values[:, 0], expected)


# --- A step by loops -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blends", ["all", "labeled"])
@pytest.mark.parametrize("number", [0, 1])
def test_a_step_costs_what_loops_make(number: int, blends: str) -> None:
    trainer, method = divided({"lambda_u": 7.0, "ramp": 4, "blends": blends})
    labels = trainer.data.labels
    predict_logits, _ = scans(*(confident(labels, torch.rand(60) < 0.5, gap=1.0) for _ in range(2)))
    method.train_pass(2, 0, predict_logits)
    method.train_pass(2, number, predict_logits)
    own, peer = method.networks[f"net{number}"], method.networks[f"net{1 - number}"]
    labeled, unlabeled = batch_of(trainer.data, [3, 8, 20], 1), batch_of(trainer.data, [40, 1], 2)
    inputs, targets = [], []
    for view in VIEWS:
        for i, row in enumerate(labeled.index.tolist()):
            w, y = method.clean.values[row, 1 - number].item(), int(labels[row])
            said = [softmax(own(labeled.views[v][i]).tolist()) for v in VIEWS]
            mixed = [w * (k == y) + (1 - w) * (said[0][k] + said[1][k]) / 2 for k in range(3)]
            targets.append([t**2 / sum(u**2 for u in mixed) for t in mixed])
            inputs.append(labeled.views[view][i])
    for view in VIEWS:
        for i in range(2):
            said = [softmax(network(unlabeled.views[v][i]).tolist()) for network in (own, peer) for v in VIEWS]
            mean = [sum(p[k] for p in said) / 4 for k in range(3)]
            targets.append([t**2 / sum(u**2 for u in mean) for t in mean])
            inputs.append(unlabeled.views[view][i])
    keys = [fold_in(batch.keys, n) for batch in (labeled, unlabeled) for n in (0, 1)]
    mix = mixup(torch.cat(keys), 4.0, keep_first=True)
    share = mix.lam[0].item()
    assert share >= 0.5
    certain = uncertain = 0.0
    predictions = []
    for i, j in enumerate(mix.partner.tolist()):
        p = softmax(own(share * inputs[i] + (1 - share) * inputs[j]).tolist())
        t = [share * targets[i][k] + (1 - share) * targets[j][k] for k in range(3)]
        if i < 6:
            certain -= sum(t[k] * math.log(p[k]) for k in range(3)) / 6
        elif blends == "all":
            uncertain += sum((p[k] - t[k]) ** 2 for k in range(3)) / 3 / 4
        if i < 6 or blends == "all":
            predictions.append(p)
    mean = [sum(p[k] for p in predictions) / len(predictions) for k in range(3)]
    penalty = sum(math.log(1 / 3 / m) / 3 for m in mean)
    expected = certain + 7.0 * (1 / 4) * uncertain + penalty  # an epoch of four after the warm-up
    assert method.learn(labeled, unlabeled).item() == pytest.approx(expected, rel=1e-4)


def test_lambda_u_rises_with_every_labelled_row() -> None:
    trainer, method = divided({"lambda_u": 8.0, "ramp": 2})
    predict_logits, _ = scans(*(confident(trainer.data.labels, torch.arange(60) < 12) for _ in range(2)))
    found = []
    for epoch in (1, 2, 3):
        method.train_pass(epoch, 0, predict_logits)
        assert int(method.turn[2]) == 12
        for rows in ([0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]):
            found.append(method.ramped_weight())
            method.learn(batch_of(trainer.data, rows, 1), batch_of(trainer.data, [40, 41], 2))
    assert found == pytest.approx([0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8])


def test_targets_pass_on_no_gradient_and_leave_no_trace() -> None:
    trainer = build_trainer("dividemix", points(), {"warm_up": 1}, epochs=6, held_out=False)
    method = trainer.method
    predict_logits, _ = scans(*(confident(trainer.data.labels, torch.arange(60) < 30) for _ in range(2)))
    method.train_pass(1, 0, predict_logits)
    method.train()
    nets = copy.deepcopy(method.networks.state_dict())
    labeled, unlabeled = batch_of(trainer.data, [3, 8, 20], 1), batch_of(trainer.data, [40, 1], 2)
    random = torch.get_rng_state()
    targets = method._targets(*method.in_turn(), labeled, unlabeled)
    assert not targets.requires_grad
    assert torch.equal(torch.get_rng_state(), random), "no dropout"
    assert same(method.networks.state_dict(), nets)
    assert all(module.training for module in method.networks.modules())
    method.learn(labeled, unlabeled).backward()
    assert all(value.grad is None for value in method.networks["net1"].parameters())
    method.guess = "training"
    before = copy.deepcopy(method.networks.state_dict())
    method._targets(*method.in_turn(), labeled, unlabeled)
    after = method.networks.state_dict()
    moved = {key.split(".")[0] for key in after if not torch.equal(after[key], before[key])}
    assert moved == {"net0"}, "as the authors have it, and never the peer"


# --- λ_u without an oracle -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("right", "expected"), [(0.8, 0.0), (0.4, 25 * 6 ** math.log10(0.3))])
def test_lambda_u_follows_from_the_mixtures(right: float, expected: float) -> None:
    trainer, method = divided()
    halves = torch.arange(60) < round(60 * right)
    predict_logits, _ = scans(*(confident(trainer.data.labels, halves, gap=6.0) for _ in range(2)))
    method.train_pass(1, 0, predict_logits)
    assert method.metrics()["noise_rate"] == pytest.approx(1 - right, abs=0.02)
    assert method.resolved_params() == {"lambda_u": pytest.approx(expected), "noise_rate": method.rate.item()}


def test_with_held_out_rows_they_tell_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = build_trainer("dividemix", points(), {"warm_up": 1}, epochs=4)
    estimates = iter([0.2, 0.5, 0.8])

    def estimate(logits: Tensor, labels: Tensor) -> float:
        assert trainer.validation is not None
        assert torch.equal(labels, trainer.validation.labels)
        p = torch.stack([trainer.predict_logits(name, held_out=True).softmax(1) for name in ("net0", "net1")]).mean(0)
        torch.testing.assert_close(logits.exp(), p)
        return next(estimates)

    monkeypatch.setattr(_held_out, "least_noise_rate", estimate)
    rates: list[float] = []
    trainer.run(idle, lambda trainer: rates.append(trainer.method.metrics()["noise_rate"]))
    assert rates == pytest.approx([0.0, 0.2, 0.3, 0.3 + 0.5 / 3])
    given = build_trainer("dividemix", points(), {"warm_up": 1, "lambda_u": 2.0}, epochs=2)
    given.run(idle, idle)
    assert next(estimates, None) is None, "λ_u is given: nobody asks"


def test_an_oracle_is_an_option() -> None:
    trainer, method = divided({"noise_rate": 0.6})
    predict_logits, _ = scans(*(confident(trainer.data.labels, torch.arange(60) < 50, gap=6.0) for _ in range(2)))
    method.train_pass(1, 0, predict_logits)
    assert method.metrics()["noise_rate"] == pytest.approx(0.6)
    assert method.weight() > 0
    given = divided({"lambda_u": 3.0})[1]
    assert given.resolved_params() == {"lambda_u": 3.0}


# --- Holes ---------------------------------------------------------------------------------------------------------


def test_where_no_label_is_believed_the_best_are_taken() -> None:
    trainer, method = divided({"threshold": 0.999999})
    predict_logits, _ = scans(*(torch.randn(60, 3) for _ in range(2)))
    train_pass = method.train_pass(1, 0, predict_logits)
    assert train_pass is not None
    rows = train_pass.streams["labeled"].rows
    assert rows is not None
    w = method.clean.values[:, 1]
    assert torch.equal(w[rows].sort().values, w.sort().values[-2:])
    assert method.clean.values.max() < 0.999999
    build_trainer("dividemix", trainer.data, {"warm_up": 1, "threshold": 0.999999}, epochs=3).run(idle, idle)


@pytest.mark.parametrize("bad", [0.0, math.nan])
def test_a_fit_that_fails_leaves_the_division_before(bad: float) -> None:
    trainer, method = divided()
    predict_logits, _ = scans(*(confident(trainer.data.labels, torch.arange(60) < 30) for _ in range(2)))
    method.train_pass(1, 0, predict_logits)
    before = method.clean.values.clone()
    flat, _ = scans(*(torch.full((60, 3), bad) for _ in range(2)))
    method.train_pass(2, 0, flat)
    assert torch.equal(method.clean.values, before)
    fresh = divided()[1]
    train_pass = fresh.train_pass(1, 0, flat)
    assert train_pass is not None
    assert list(train_pass.streams) == ["labeled"], "without any mixture all labels are believed"
    assert fresh.metrics() == {"kept": 1.0, "noise_rate": 0.0}


def test_without_unlabelled_rows_it_learns_from_labelled_ones() -> None:
    trainer, method = divided({"threshold": 0.0})
    predict_logits, _ = scans(*(torch.randn(60, 3) for _ in range(2)))
    train_pass = method.train_pass(1, 0, predict_logits)
    assert train_pass is not None
    assert list(train_pass.streams) == ["labeled"]
    loss = method.learn(batch_of(trainer.data, [1, 2, 3], 1))
    assert bool(loss.isfinite())
    build_trainer("dividemix", trainer.data, {"warm_up": 1, "threshold": 0.0}, epochs=3).run(idle, idle)


# --- A draw of the rows --------------------------------------------------------------------------------------------


def test_each_network_divides_a_balanced_draw_of_its_own() -> None:
    data = points(120)
    few = LabeledData(data.inputs, torch.where(torch.arange(120) < 90, 0, data.labels), data.classes, data.ids)
    trainer = build_trainer("dividemix", few, {"warm_up": 1, "draws": 24}, epochs=4, held_out=False)
    method = trainer.method
    warm = method.train_pass(0, 0, trainer.predict_logits)
    assert (warm.streams["batch"].order, warm.streams["batch"].draws) == ("balanced", 48)
    predict_logits, asked = scans(*(torch.randn(120, 3) for _ in range(2)))
    rows = []
    for epoch in (1, 2):
        for number in (0, 1):
            train_pass = method.train_pass(epoch, number, predict_logits)
            parts = [draw.rows for draw in train_pass.streams.values()]
            rows.append(torch.cat(parts).sort().values)
            assert torch.bincount(few.labels[rows[-1]]).tolist() == [8, 8, 8]
            assert torch.equal(rows[-1], method.drawn.values[:, 1 - number].nonzero()[:, 0])
    assert asked == [("net0", 24), ("net1", 24)] * 2
    assert len({tuple(drawn.tolist()) for drawn in rows}) == 4, "each draws its own, and anew"
    trainer.run(idle, idle)


# --- All together --------------------------------------------------------------------------------------------------


def test_wrong_labels_are_found_and_corrected() -> None:
    every, noisy = noisy_points(360)
    data, wrong = every.take(range(240)), noisy[:240]
    trainer = build_trainer("dividemix", data, epochs=24, held_out=every.take(range(240, 360)))
    trainer.run(idle, idle)
    truth = points(240).labels
    corrected = (trainer.method.corrected_labels(trainer.predict_logits).argmax(1) == truth).float().mean()
    quality = trainer.method.label_quality(trainer.predict_logits)
    assert corrected > (~wrong).float().mean() + 0.2
    assert quality[~wrong].mean() > quality[wrong].mean() + 0.5
    assert (trainer.predict(data).argmax(1) == truth).float().mean() > 0.9
    assert trainer.method.metrics()["kept"] == pytest.approx((~wrong).float().mean().item(), abs=0.1)


def test_labels_are_given_as_far_as_they_are_believed() -> None:
    trainer, method = divided()
    p = torch.stack([trainer.predict_logits(name).softmax(1) for name in method.network_names]).mean(0)
    assert torch.equal(method.corrected_labels(trainer.predict_logits), p), "in warm-up predictions speak"
    method.clean.values.copy_(torch.rand(60, 2))
    found = method.corrected_labels(trainer.predict_logits)
    for i, y in enumerate(trainer.data.labels.tolist()):
        w = sum(v for v in method.clean.values[i].tolist() if v > 0.5) / 2
        for k in range(3):
            assert found[i, k].item() == pytest.approx(w * (k == y) + (1 - w) * p[i, k].item(), abs=1e-5)


def test_interrupted_in_the_second_networks_turn_it_ends_in_the_same_bits(tmp_path: Path) -> None:
    data, settings = noisy_points(60)[0], {"warm_up": 1, "guess": "training"}
    whole = build_trainer("dividemix", data, settings, epochs=5)
    whole.run(idle, idle)
    steps, first = 0, build_trainer("dividemix", data, settings, epochs=5)
    while not (first.epoch == 3 and first.number == 1 and int(first.method.turn[3]) > 8):
        run_steps(first, 1)
        steps += 1
    assert first._sweep is not None
    assert first._sweep.networks == ("net1",)
    path = save_state(tmp_path / "state.safetensors", first.state_dict())
    second = build_trainer("dividemix", data, settings, epochs=5)
    second.load_state_dict(load_state(path))
    seen: list[tuple[str, int]] = []
    predict_logits = second.predict_logits

    def watched(*a: Any, **k: Any) -> Tensor:
        if not k.get("held_out"):
            seen.append((a[0], second.epoch))
        return predict_logits(*a, **k)

    second.predict_logits = watched  # type: ignore[method-assign]
    second.run(idle, idle)
    assert seen == [("net0", 4), ("net1", 4)], "what was divided stays so until the next epoch"
    assert same(
        *(load_state(save_state(tmp_path / "end.safetensors", trainer.state_dict())) for trainer in (whole, second))
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lambda_u": -1.0}, "lambda_u must be 0"),
        ({"noise_rate": 1.0}, "noise_rate must lie"),
        ({"threshold": 1.0}, "threshold must lie"),
        ({"history": 0}, "history must be one"),
        ({"history": 2, "draws": 100}, "history must be one"),
        ({"temperature": 0.0}, "temperature and mixup must be positive"),
        ({"mixup": 0.0}, "temperature and mixup must be positive"),
        ({"penalty": -1.0}, "penalty and ramp must be 0"),
        ({"ramp": -1.0}, "penalty and ramp must be 0"),
        ({"draws": 1}, "draws must be two"),
        ({"guess": "sleeping"}, "the setting guess of dividemix"),
        ({"blends": "none"}, "the setting blends of dividemix"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        METHODS["dividemix"].build(**settings)
