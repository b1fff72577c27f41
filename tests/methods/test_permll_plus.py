"""PermLL+: its steps against a straight line, and PermLL as a special case."""

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

HOME = "permll_plus"
ROWS = [[0, 3, 5, 7], [3, 1, 0, 3], [7, 6, 7, 2]]  # some samples twice in a batch


def test_steps_are_those_of_the_straight_line() -> None:
    data, epochs = points(12), 10
    settings = {"init": 0.6, "correct_after": 0.3, "warm_up": 0, "close": 0.5, "beta": 0.6, "prior": "even"}
    method = prepare(HOME, data, settings, epochs=epochs)
    by_hand = weights(method)
    own, memory = torch.zeros(12, 3), torch.zeros(12, 3)
    method.right.copy_(torch.tensor([0.7, 0.5, 0.95]))
    method.label_bias.fill_(0.8)
    method.closes.fill_(0)  # the head start closes from the first step on
    shares, right = [1 / 3] * 3, method.right.tolist()
    for step, rows in enumerate(ROWS):
        gaps = [initial_label_logit(3, 0.6) * (0.5 - step / epochs) / 0.5 for _ in range(3)]
        losses, said, told = [], [], []
        for row in rows:
            x = data.inputs.batch(torch.tensor([row]))[0]
            p = (by_hand["weight"] @ x + by_hand["bias"]).softmax(0)
            memory[row] = 0.6 * memory[row] + 0.4 * p.detach()
            said.append(p)
            told.append(memory[row].clone())
        for k in range(3):
            shares[k] += len(rows) / 12 * (sum(p[k].item() for p in said) / len(said) - shares[k])
        moves = torch.zeros(12, 3)
        for row, p, t in zip(rows, said, told, strict=True):
            y = int(data.labels[row])
            alpha = own[row].clone()
            earned = min(max(math.log(right[y] / (1 - right[y])), 0.0), 3.0)
            alpha[y] += max(max(gaps[y], earned) - 0.8, 0.0)
            score = [math.exp(float(alpha[k])) * float(t[k]) / 3 / shares[k] for k in range(3)]
            r = torch.tensor([one / sum(score) for one in score])
            moves[row] += method.lr * (r - alpha.softmax(0))
            losses.append(-(r * p.log()).sum())
        own += moves
        expected = torch.stack(losses).mean()
        move(by_hand, expected)
        assert take_step(method, batch_of(data, rows)) == pytest.approx(expected.item(), rel=1e-4)
    assert_close(method.memory.values, memory)
    assert_close(method.own.values, own)
    for name, value in method.networks["net"].named_parameters():
        assert_close(value.detach(), by_hand[name].detach())


def test_without_memory_shares_and_closing_it_is_permll() -> None:
    data = points(12)
    plain = {"beta": 0.0, "prior": "free", "earned": False, "warm_up": 0, "close": 1.0, "init": 0.6}
    plus = prepare(HOME, data, plain, epochs=10**7)  # in which three steps close nothing
    plus.lr = 0.3
    permll = prepare("permll", data, {"init": 0.6, "lr": 0.3})
    permll.networks["net"].load_state_dict(plus.networks["net"].state_dict())
    for rows in ([0, 3, 5, 7], [3, 1, 0, 6], [7, 6, 5, 2]):
        for method in (plus, permll):
            take_step(method, batch_of(data, rows))
    ours = plus.own.map_rows(plus._alpha).softmax(-1)
    assert_close(ours, permll.corrected_labels(torch.zeros), rtol=1e-4, atol=1e-6)
    for own, theirs in zip(plus.networks["net"].parameters(), permll.networks["net"].parameters(), strict=True):
        assert_close(own, theirs, rtol=1e-4, atol=1e-6)


def test_a_warm_up_remembers_and_moves_no_row() -> None:
    data = points(12)
    method = prepare(HOME, data)
    batch = batch_of(data, [0, 3, 5, 7])
    logits = method.networks["net"](batch.x)
    expected = torch.nn.functional.cross_entropy(logits, batch.labels).item()
    assert take_step(method, batch, loss="plain_loss") == pytest.approx(expected)
    assert (method.own.values == 0).all()
    assert_close(method.memory.values[[0, 3, 5, 7]], 0.5 * logits.softmax(-1).detach())


@pytest.mark.parametrize(
    ("grows", "ended"), [([1.0, 1.3, 1.5, 1.55], 4), ([1.0, 1.01], 2), ([1.0, 2.0, 3.0, 4.0, 5.0], 5)]
)
def test_a_warm_up_ends_when_the_labels_are_known_hardly_better(grows: list[float], ended: int) -> None:
    method = prepare(HOME, points(12), epochs=10)
    for epoch, mean in enumerate(grows):
        assert method.train_pass(epoch, 0, torch.zeros).loss == "plain_loss"
        method.agreed[:2] = torch.tensor([10 * mean, 10.0])
        method.on_epoch_end(epoch, torch.zeros)
    assert int(method.warm) == ended == len(grows)
    assert method.train_pass(ended, 0, torch.zeros).loss == "loss"
    assert method.train_pass(ended, 1, torch.zeros) is None


def known_by(odds: float) -> torch.Tensor:
    """Return logits that give the labels of ``OTHERS`` these odds."""
    return math.log(2 * odds) * torch.nn.functional.one_hot(OTHERS, 3)


@pytest.mark.parametrize(
    ("known", "begun"),
    [
        ([0.3, 0.4], 1),  # no better than by guessing
        ([0.34, 0.35, 0.4, 0.41], 4),  # hardly better, but ever more so
        ([0.5, 0.6, 0.65, 0.9], 3),  # 0.65 - 1/3 is less than 1.25 (0.6 - 1/3)
        ([0.42, 0.5, 0.6, 0.75], 4),  # by more in each epoch, but half of training is over
    ],
)
@pytest.mark.parametrize("told_by", ["others", "all"])
def test_a_head_start_waits_while_labels_that_are_not_seen_get_known(
    known: list[float], begun: int, told_by: str
) -> None:
    method = prepare(HOME, points(12), {"warm_up": 1}, held_out=OTHERS if told_by == "others" else None, epochs=8)
    at_first = method._alpha(torch.zeros(12, 3), points(12).labels)
    for epoch, p in enumerate(known):
        method.agreed.copy_(torch.tensor([10 * p if told_by == "all" else 1.0, 10.0]))
        method.on_epoch_end(epoch, says(torch.zeros(12, 3), known_by(p / (1 - p))))
        assert int(method.closes) == (begun if epoch + 1 >= begun else -1)
        method.right.fill_(0.5)  # of which nothing is earned
        method.steps.fill_(method._total)  # however many are over
        closed = (method._alpha(torch.zeros(12, 3), points(12).labels) < at_first).any()
        assert closed == (epoch + 1 >= begun)


def test_shares_are_those_of_the_given_labels_made_cautious() -> None:
    data = points(12).relabel(torch.tensor([0] * 10 + [1, 2]))
    given = torch.tensor([10.0, 1.0, 1.0]) / 12
    assert_close(prepare(HOME, data).wanted, shrunk_prior(given))
    assert_close(prepare(HOME, data, {"prior": "given"}).wanted, given)
    assert_close(prepare(HOME, data, {"prior": "even"}).wanted, torch.full((3,), 1 / 3))


def test_shares_that_are_known_stay_as_they_are() -> None:
    data = points(12).relabel(torch.tensor([0] * 10 + [1, 2]))
    method = prepare(HOME, data, {"prior": [2.0, 1.0, 1.0], "warm_up": 1, "close": 0.0}, held_out=OTHERS, epochs=10)
    for epoch in range(7):
        assert_close(method.wanted, torch.tensor([0.5, 0.25, 0.25]))
        method.on_epoch_end(epoch, says(torch.zeros(12, 3), SAID))
    alike, even = (prepare(HOME, data, {"prior": prior, "warm_up": 0}) for prior in ([4.0, 4.0, 4.0], "even"))
    alike.networks["net"].load_state_dict(even.networks["net"].state_dict())
    assert take_step(alike, batch_of(data, [0, 3])) == pytest.approx(take_step(even, batch_of(data, [0, 3])))


def says(seen: torch.Tensor, others: torch.Tensor) -> PredictLogits:
    """Return a scan with these logits for training rows and for rows that are not trained on."""

    def predict_logits(
        *_: object, rows: torch.Tensor | None = None, held_out: bool = False, **__: object
    ) -> torch.Tensor:
        return others if held_out else seen if rows is None else seen[rows]

    return cast("PredictLogits", predict_logits)


OTHERS = torch.tensor([0, 0, 1, 2])
SAID = torch.tensor([[3.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0]])


def test_labels_earn_by_rows_that_are_not_trained_on() -> None:
    """What the network says of training rows, which it may know by heart, does not count."""
    predict_logits = says(torch.full((12, 3), math.nan), SAID)
    method = prepare(HOME, points(12), {"warm_up": 1, "by_heart": False}, held_out=OTHERS)
    method.on_epoch_end(0, predict_logits)
    assert_close(method.right, label_accuracy(SAID.softmax(-1), OTHERS))
    untold = prepare(HOME, points(12), {"warm_up": 1})
    untold.on_epoch_end(0, predict_logits)
    assert (untold.right == 0.5).all()  # with which nothing is earned


@pytest.mark.parametrize(("surer", "ended", "leans"), [(1.0, False, False), (1.5, True, False), (4.0, True, True)])
def test_labels_known_by_heart_end_a_warm_up_and_take_from_the_head_start(
    surer: float, ended: bool, leans: bool
) -> None:
    """Training rows know their labels by ``surer`` times the odds that other rows know theirs by."""
    data = points(12)
    other = SAID.softmax(-1).gather(1, OTHERS[:, None]).mean()
    odds = surer * 0.999 * other / (1 - other)
    seen = torch.log(2 * odds) * torch.nn.functional.one_hot(data.labels, 3)
    method = prepare(HOME, data, held_out=OTHERS, epochs=20)
    method.on_epoch_end(0, says(seen, SAID))
    assert (int(method.warm) == 1, method.label_bias.item() > 0) == (ended, leans)
    if leans:
        assert method.label_bias.item() == pytest.approx(math.log(surer * 0.999 / 1.5), rel=1e-4)
        before = initial_label_logit(3, method.init or resolve_init(None, 3))
        at_label = method._alpha(torch.zeros(12, 3), data.labels).amax(1)
        assert_close(at_label, torch.full((12,), max(before - method.label_bias.item(), 0.0)))


def test_a_head_start_of_nothing_leaves_labels_as_they_are() -> None:
    """More is taken than there is: no row has turned, and where a = softmax(α) is told, the label is its largest."""
    data = points(12)
    for settings in ({}, {"top_k": 2}):
        method = prepare(HOME, data, settings, epochs=20)
        method.label_bias.fill_(9.0)
        assert (method._alpha(torch.zeros(12, 3), data.labels) == 0).all()
        assert method.metrics()["turned"] == 0
    assert torch.equal(method.corrected_labels(torch.zeros).argmax(1), data.labels)


def test_unless_it_is_heeded_nothing_is_taken_for_what_is_known_by_heart() -> None:
    data = points(12)
    seen = 9.0 * torch.nn.functional.one_hot(data.labels, 3)
    for correct_memorization in (True, False):
        method = prepare(HOME, data, {"by_heart": correct_memorization}, held_out=OTHERS, epochs=20)
        method.on_epoch_end(0, says(seen, SAID))
        assert (method.label_bias.item() > 0, int(method.warm) == 1) == (correct_memorization, correct_memorization)


def test_rows_by_which_it_is_told_are_of_all_classes_though_these_come_in_turn() -> None:
    data = points(6000).relabel(torch.arange(6000) % 3)
    counts = data.labels[prepare(HOME, data)._some].bincount(minlength=3)
    assert (counts.sum().item(), counts.min().item() > 250) == (1000, True)


def test_nobody_held_out_is_as_none() -> None:
    method = prepare(HOME, points(12), held_out=torch.zeros(0, dtype=torch.int64))
    for epoch in range(3):
        method.on_epoch_end(epoch, says(torch.zeros(12, 3), torch.zeros(0, 3)))
    assert (method.right == 0.5).all()
    assert method.corrected_labels(says(torch.zeros(12, 3), torch.zeros(0, 3))).shape == (12, 3)


def test_once_the_head_start_has_closed_right_labels_tell_the_shares() -> None:
    data = points(12).relabel(torch.tensor([0] * 9 + [1] * 2 + [2]))
    method = prepare(HOME, data, {"warm_up": 1, "close": 0.3}, held_out=OTHERS, epochs=10)
    seen = torch.zeros(12, 3)
    by_given = method.wanted.clone()
    for epoch in range(5):  # it waits for one, as after the first the labels are better known than by guessing
        method.on_epoch_end(epoch, says(seen, SAID))
        told = prior_of_correct_labels(data.labels, label_accuracy(SAID.softmax(-1), OTHERS))
        assert_close(method.wanted, told if epoch == 4 else by_given)
    assert not torch.equal(by_given, method.wanted)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"prior": [0.5, 0.5]}, "one positive value for each of the 3 classes"),
        ({"prior": [0.5, 0.5, 0.0]}, "one positive value for each of the 3 classes"),
        ({"beta": 1.0}, "beta must lie"),
        ({"close": 2.0}, "close is a share"),
        ({"warm_up": -1}, "warm_up must be"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        prepare(HOME, points(12), settings)
