"""PermLL+: training steps against a manual version, warm-up, decay, class prior, and PermLL as a special case."""

import math
from typing import cast

import pytest
import torch
from torch.testing import assert_close

from permll.functional.label_prior import label_accuracy, prior_of_correct_labels, shrunk_prior
from permll.layer.equations import initial_label_logit
from permll.layer.step_size import resolve_init
from permll.methods._base import PredictLogits
from tests.helpers.manual_steps import batch_of, move, prepare, take_step, weights
from tests.helpers.toy_training import points

NAME = "permll_plus"
ROWS = [[0, 3, 5, 7], [3, 1, 0, 3], [7, 6, 7, 2]]  # some samples twice in a batch
LABELS = torch.tensor([0, 0, 1, 2])  # of held-out samples
LOGITS = torch.tensor([[3.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0]])  # likewise


def predictor(train_logits: torch.Tensor, held_out_logits: torch.Tensor) -> PredictLogits:
    """Return a ``predict_logits`` with these logits for training and for held-out samples."""

    def predict_logits(
        *_: object, rows: torch.Tensor | None = None, held_out: bool = False, **__: object
    ) -> torch.Tensor:
        return held_out_logits if held_out else train_logits if rows is None else train_logits[rows]

    return cast("PredictLogits", predict_logits)


def logits_with_odds(odds: float) -> torch.Tensor:
    """Return logits that give the held-out labels these odds."""
    return math.log(2 * odds) * torch.nn.functional.one_hot(LABELS, 3)


# Training steps


def test_permll_plus_training_matches_manual_steps() -> None:
    data, epochs = points(12), 10
    settings = {"init": 0.6, "correct_after": 0.3, "warm_up": 0, "beta": 0.6, "prior": "uniform"}
    method = prepare(NAME, data, {**settings, "label_logit_decay": 0.5}, epochs=epochs)
    manual = weights(method)
    delta, mean_predictions = torch.zeros(12, 3), torch.zeros(12, 3)
    method.label_accuracy.copy_(torch.tensor([0.7, 0.5, 0.95]))
    method.label_bias.fill_(0.8)
    method.decay_start.fill_(0)  # the label logit decays from the first step on
    predicted_prior, accuracy = [1 / 3] * 3, method.label_accuracy.tolist()
    for step, rows in enumerate(ROWS):
        decayed = initial_label_logit(3, 0.6) * (0.5 - step / epochs) / 0.5
        losses, predictions, means = [], [], []
        for row in rows:
            x = data.inputs.batch(torch.tensor([row]))[0]
            p = (manual["weight"] @ x + manual["bias"]).softmax(0)
            mean_predictions[row] = 0.6 * mean_predictions[row] + 0.4 * p.detach()
            predictions.append(p)
            means.append(mean_predictions[row].clone())
        for k in range(3):
            mean = sum(p[k].item() for p in predictions) / len(predictions)
            predicted_prior[k] += len(rows) / 12 * (mean - predicted_prior[k])
        steps = torch.zeros(12, 3)
        for row, p, t in zip(rows, predictions, means, strict=True):
            y = int(data.labels[row])
            alpha = delta[row].clone()
            earned = min(max(math.log(accuracy[y] / (1 - accuracy[y])), 0.0), 3.0)
            alpha[y] += max(max(decayed, earned) - 0.8, 0.0)
            score = [math.exp(float(alpha[k])) * float(t[k]) / 3 / predicted_prior[k] for k in range(3)]
            r = torch.tensor([one / sum(score) for one in score])
            steps[row] += method.lr * (r - alpha.softmax(0))
            losses.append(-(r * p.log()).sum())
        delta += steps
        expected = torch.stack(losses).mean()
        move(manual, expected)
        assert take_step(method, batch_of(data, rows)) == pytest.approx(expected.item(), rel=1e-4)
    assert_close(method.predictions.values, mean_predictions)
    assert_close(method.delta.values, delta)
    for name, value in method.networks["net"].named_parameters():
        assert_close(value.detach(), manual[name].detach())


def test_permll_plus_reduces_to_permll() -> None:
    data = points(12)
    settings = {"beta": 0.0, "prior": "none", "earned_label_logit": False, "warm_up": 0, "init": 0.6}
    # With this many epochs, three steps do not decay the label logit.
    plus = prepare(NAME, data, {**settings, "label_logit_decay": 1.0}, epochs=10**7)
    plus.lr = 0.3
    permll = prepare("permll", data, {"init": 0.6, "lr": 0.3})
    permll.networks["net"].load_state_dict(plus.networks["net"].state_dict())
    for rows in ([0, 3, 5, 7], [3, 1, 0, 6], [7, 6, 5, 2]):
        for method in (plus, permll):
            take_step(method, batch_of(data, rows))
    label_weights = plus.delta.map_rows(plus._alpha).softmax(-1)
    assert_close(label_weights, permll.corrected_labels(torch.zeros), rtol=1e-4, atol=1e-6)
    for one, other in zip(plus.networks["net"].parameters(), permll.networks["net"].parameters(), strict=True):
        assert_close(one, other, rtol=1e-4, atol=1e-6)


# Warm-up and decay


def test_permll_plus_warm_up_keeps_delta() -> None:
    data = points(12)
    method = prepare(NAME, data)
    batch = batch_of(data, [0, 3, 5, 7])
    logits = method.networks["net"](batch.x)
    expected = torch.nn.functional.cross_entropy(logits, batch.labels).item()
    assert take_step(method, batch, loss="warm_up_loss") == pytest.approx(expected)
    assert (method.delta.values == 0).all()
    assert_close(method.predictions.values[[0, 3, 5, 7]], 0.5 * logits.softmax(-1).detach())


@pytest.mark.parametrize(
    ("means", "end"), [([1.0, 1.3, 1.5, 1.55], 4), ([1.0, 1.01], 2), ([1.0, 2.0, 3.0, 4.0, 5.0], 5)]
)
def test_permll_plus_warm_up_ends_on_plateau(means: list[float], end: int) -> None:
    method = prepare(NAME, points(12), epochs=10)
    for epoch, mean in enumerate(means):
        assert method.train_pass(epoch, 0, torch.zeros).loss == "warm_up_loss"
        method.epoch_label_probs[:2] = torch.tensor([10 * mean, 10.0])
        method.on_epoch_end(epoch, torch.zeros)
    assert int(method.warm_up_end) == end == len(means)
    assert method.train_pass(end, 0, torch.zeros).loss == "loss"
    assert method.train_pass(end, 1, torch.zeros) is None


@pytest.mark.parametrize(
    ("means", "start"),
    [
        ([0.3, 0.4], 1),  # not above chance
        ([0.34, 0.35, 0.4, 0.41], 4),  # slightly above chance, and growing
        ([0.5, 0.6, 0.65, 0.9], 3),  # 0.65 - 1/3 is less than 1.25 (0.6 - 1/3)
        ([0.42, 0.5, 0.6, 0.75], 4),  # still growing at half of training
    ],
)
@pytest.mark.parametrize("source", ["held_out", "all"])
def test_permll_plus_decay_waits_for_learning(means: list[float], start: int, source: str) -> None:
    held_out = LABELS if source == "held_out" else None
    method = prepare(NAME, points(12), {"warm_up": 1}, held_out=held_out, epochs=8)
    initial = method._alpha(torch.zeros(12, 3), points(12).labels)
    for epoch, p in enumerate(means):
        method.epoch_label_probs.copy_(torch.tensor([10 * p if source == "all" else 1.0, 10.0]))
        method.on_epoch_end(epoch, predictor(torch.zeros(12, 3), logits_with_odds(p / (1 - p))))
        assert int(method.decay_start) == (start if epoch + 1 >= start else -1)
        method.label_accuracy.fill_(0.5)  # an earned label logit of 0
        method.steps.fill_(method._total_steps)
        has_decayed = (method._alpha(torch.zeros(12, 3), points(12).labels) < initial).any()
        assert has_decayed == (epoch + 1 >= start)


# Class prior


def test_permll_plus_initial_class_prior() -> None:
    data = points(12).relabel(torch.tensor([0] * 10 + [1, 2]))
    given = torch.tensor([10.0, 1.0, 1.0]) / 12
    assert_close(prepare(NAME, data).class_prior, shrunk_prior(given))
    assert_close(prepare(NAME, data, {"prior": "given"}).class_prior, given)
    assert_close(prepare(NAME, data, {"prior": "uniform"}).class_prior, torch.full((3,), 1 / 3))


def test_permll_plus_known_class_prior_is_fixed() -> None:
    data = points(12).relabel(torch.tensor([0] * 10 + [1, 2]))
    settings = {"prior": [2.0, 1.0, 1.0], "warm_up": 1, "label_logit_decay": 0.0}
    method = prepare(NAME, data, settings, held_out=LABELS, epochs=10)
    for epoch in range(7):
        assert_close(method.class_prior, torch.tensor([0.5, 0.25, 0.25]))
        method.on_epoch_end(epoch, predictor(torch.zeros(12, 3), LOGITS))
    listed, uniform = (prepare(NAME, data, {"prior": prior, "warm_up": 0}) for prior in ([4.0, 4.0, 4.0], "uniform"))
    listed.networks["net"].load_state_dict(uniform.networks["net"].state_dict())
    assert take_step(listed, batch_of(data, [0, 3])) == pytest.approx(take_step(uniform, batch_of(data, [0, 3])))


def test_permll_plus_prior_of_correct_labels_after_decay() -> None:
    data = points(12).relabel(torch.tensor([0] * 9 + [1] * 2 + [2]))
    method = prepare(NAME, data, {"warm_up": 1, "label_logit_decay": 0.3}, held_out=LABELS, epochs=10)
    by_given = method.class_prior.clone()
    by_correct = prior_of_correct_labels(data.labels, label_accuracy(LOGITS.softmax(-1), LABELS))
    for epoch in range(5):  # the decay starts after two epochs, since the first raises p_y above chance
        method.on_epoch_end(epoch, predictor(torch.zeros(12, 3), LOGITS))
        assert_close(method.class_prior, by_correct if epoch == 4 else by_given)
    assert not torch.equal(by_given, method.class_prior)


# Held-out samples and memorization


def test_permll_plus_label_accuracy_uses_held_out_samples() -> None:
    """Predictions for training samples, which may be memorized, are not used."""
    predict_logits = predictor(torch.full((12, 3), math.nan), LOGITS)
    method = prepare(NAME, points(12), {"warm_up": 1, "correct_memorization": False}, held_out=LABELS)
    method.on_epoch_end(0, predict_logits)
    assert_close(method.label_accuracy, label_accuracy(LOGITS.softmax(-1), LABELS))
    without = prepare(NAME, points(12), {"warm_up": 1})
    without.on_epoch_end(0, predict_logits)
    assert (without.label_accuracy == 0.5).all()  # an earned label logit of 0


@pytest.mark.parametrize(("ratio", "ends", "has_bias"), [(1.0, False, False), (1.5, True, False), (4.0, True, True)])
def test_permll_plus_memorization_reduces_label_logit(ratio: float, ends: bool, has_bias: bool) -> None:
    """The odds of p_y of training samples are ``ratio`` times those of held-out samples."""
    data = points(12)
    held_out_prob = LOGITS.softmax(-1).gather(1, LABELS[:, None]).mean()
    odds = ratio * 0.999 * held_out_prob / (1 - held_out_prob)
    train_logits = torch.log(2 * odds) * torch.nn.functional.one_hot(data.labels, 3)
    method = prepare(NAME, data, held_out=LABELS, epochs=20)
    method.on_epoch_end(0, predictor(train_logits, LOGITS))
    assert (int(method.warm_up_end) == 1, method.label_bias.item() > 0) == (ends, has_bias)
    if has_bias:
        assert method.label_bias.item() == pytest.approx(math.log(ratio * 0.999 / 1.5), rel=1e-4)
        initial = initial_label_logit(3, method.init or resolve_init(None, 3))
        label_logits = method._alpha(torch.zeros(12, 3), data.labels).amax(1)
        assert_close(label_logits, torch.full((12,), max(initial - method.label_bias.item(), 0.0)))


def test_permll_plus_zero_label_logit_keeps_labels() -> None:
    """The bias exceeds the label logit: no label is corrected, and the given label wins ties in softmax(α)."""
    data = points(12)
    for settings in ({}, {"top_k": 2}):
        method = prepare(NAME, data, settings, epochs=20)
        method.label_bias.fill_(9.0)
        assert (method._alpha(torch.zeros(12, 3), data.labels) == 0).all()
        assert method.metrics()["corrected"] == 0
    assert torch.equal(method.corrected_labels(torch.zeros).argmax(1), data.labels)


@pytest.mark.parametrize("correct", [True, False])
def test_permll_plus_correct_memorization_is_optional(correct: bool) -> None:
    data = points(12)
    train_logits = 9.0 * torch.nn.functional.one_hot(data.labels, 3)
    method = prepare(NAME, data, {"correct_memorization": correct}, held_out=LABELS, epochs=20)
    method.on_epoch_end(0, predictor(train_logits, LOGITS))
    assert (method.label_bias.item() > 0, int(method.warm_up_end) == 1) == (correct, correct)


def test_permll_plus_monitored_samples_cover_classes() -> None:
    data = points(6000).relabel(torch.arange(6000) % 3)
    counts = data.labels[prepare(NAME, data)._monitored].bincount(minlength=3)
    assert (counts.sum().item(), counts.min().item() > 250) == (1000, True)


def test_permll_plus_empty_held_out_set_is_none() -> None:
    method = prepare(NAME, points(12), held_out=torch.zeros(0, dtype=torch.int64))
    predict_logits = predictor(torch.zeros(12, 3), torch.zeros(0, 3))
    for epoch in range(3):
        method.on_epoch_end(epoch, predict_logits)
    assert (method.label_accuracy == 0.5).all()
    assert method.corrected_labels(predict_logits).shape == (12, 3)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"prior": [0.5, 0.5]}, "for each of the 3 classes"),
        ({"prior": [0.5, 0.5, 0.0]}, "for each of the 3 classes"),
        ({"beta": 1.0}, "beta must lie"),
        ({"label_logit_decay": 2.0}, "label_logit_decay must lie"),
        ({"warm_up": -1}, "warm_up must lie"),
    ],
)
def test_permll_plus_rejects_invalid_settings(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        prepare(NAME, points(12), settings)
