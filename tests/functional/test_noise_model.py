"""The posterior of the true class against its definition, row by row, and against the truth where that is known."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from permll.functional.label_posterior import (
    CAUTION,
    MOST_LEAN,
    believed,
    confusion,
)
from torch import Tensor

from permll.functional.noise_model import (
    CONSERVATIVE_FACTOR,
    HeldOut,
    NoiseModel,
    conservative_noise_model,
    excess_label_bias,
    fit_label_bias,
    fit_noise_model,
    label_posterior,
    match_confidence,
    train_label_posterior,
)
from permll.functional.noise_rate import fit_joint_from_probs, initial_transition, smoothed_transition


def some(rows: int, classes: int, seed: int) -> tuple[Tensor, Tensor, NoiseModel]:
    draw = torch.Generator().manual_seed(seed)
    log_p = torch.randn(rows, classes, generator=draw).mul(3).log_softmax(-1)
    transition = (torch.rand(classes, classes, generator=draw) + 3 * torch.eye(classes)).double()
    noise_model = NoiseModel(
        transition / transition.sum(1, keepdim=True), 0.5 + seed % 5 / 2, 0.2, 0.01, error_floor=seed % 3 / 50
    )
    return log_p, torch.randint(classes, (rows,), generator=draw), noise_model


def through_a_channel(seed: int, rows: int = 20_000, classes: int = 4) -> tuple[Tensor, Tensor, Tensor, NoiseModel]:
    """Draw classes from what the network predicts, labels from a channel: then all is known."""
    draw = torch.Generator().manual_seed(seed)
    log_p = torch.randn(rows, classes, generator=draw).mul(2).log_softmax(-1)
    clean = torch.multinomial(log_p.exp(), 1, generator=draw)[:, 0]
    transition = torch.full((classes, classes), 0.05).fill_diagonal_(0.85)
    labels = torch.multinomial(transition[clean], 1, generator=draw)[:, 0]
    return log_p, clean, labels, NoiseModel(transition.double(), 1.0, 0.15, 0.0)


@given(st.integers(1, 30), st.integers(2, 8), st.integers(0, 1000), st.floats(0, 8))
def test_is_its_definition(rows: int, classes: int, seed: int, label_bias: float) -> None:
    log_p, labels, noise_model = some(rows, classes, seed)
    found = label_posterior(log_p, labels, noise_model, label_bias)
    for n in range(rows):
        y = int(labels[n])
        p = [math.exp(float(log_p[n, k].double()) / noise_model.temperature) for k in range(classes)]
        parts = [
            ((1 - noise_model.error_floor) * p[k] / sum(p) + noise_model.error_floor / classes)
            * float(noise_model.transition[k, y])
            * (math.exp(-label_bias) if k == y else 1.0)
            for k in range(classes)
        ]
        for k in range(classes):
            assert float(found[n, k]) == pytest.approx(parts[k] / sum(parts), rel=1e-9)


@given(st.integers(5, 60), st.integers(2, 8), st.integers(0, 1000), st.floats(0.01, 0.9))
def test_the_lean_makes_as_many_wrong_as_there_are(rows: int, classes: int, seed: int, rate: float) -> None:
    log_p, labels, noise_model = some(rows, classes, seed)
    before = 1 - label_posterior(log_p, labels, noise_model).gather(1, labels[:, None]).mean().item()
    label_bias = fit_label_bias(log_p, labels, noise_model, rate)
    after = 1 - label_posterior(log_p, labels, noise_model, label_bias).gather(1, labels[:, None]).mean().item()
    assert 0 <= label_bias <= MOST_LEAN
    if rate > before and label_bias < MOST_LEAN - 1e-6:
        assert after == pytest.approx(rate, abs=1e-6)
    elif rate <= before:
        assert label_bias == pytest.approx(0, abs=1e-6)


def test_what_a_known_channel_did_is_found_again_and_the_posterior_is_calibrated() -> None:
    log_p, clean, labels, _ = through_a_channel(seed=0)
    noise_model = fit_noise_model(log_p, labels)
    assert noise_model.rate == pytest.approx((labels != clean).double().mean().item(), abs=0.02)
    r = label_posterior(log_p, labels, noise_model)
    quality = r.gather(1, labels[:, None])[:, 0]
    for low in (0.0, 0.2, 0.4, 0.6, 0.8):
        inside = (quality >= low) & (quality < low + 0.2)
        right = (labels == clean)[inside].double().mean().item()
        assert right == pytest.approx(quality[inside].mean().item(), abs=0.04)
    assert fit_label_bias(log_p, labels, noise_model) < 0.1  # nothing was learned by heart here


def test_takes_back_what_a_network_learned_by_heart() -> None:
    """Let the network lean to the given labels by three nats: as many are found."""
    fair, _, labels, noise_model = through_a_channel(seed=1)
    leaning = (fair + 3 * torch.nn.functional.one_hot(labels, fair.shape[1])).log_softmax(-1)
    assert fit_label_bias(leaning, labels, noise_model) == pytest.approx(3, abs=0.15)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.1))
def test_a_rate_that_stands_out_stays_and_one_that_does_not_goes(rate: float, error: float, error_floor: float) -> None:
    left = NoiseModel(torch.eye(2), 1.0, rate, error, error_floor).shrunk_rate
    assert error_floor / 10 <= left <= max(rate, error_floor / 10)
    if error <= rate / 10 and rate > error_floor:
        assert left >= 0.989 * rate
    if error >= rate:
        assert left == pytest.approx(error_floor / 10, abs=1e-12)


@pytest.mark.parametrize("sure", [3.0, 30.0])
def test_one_sure_mistake_of_the_network_is_no_wrong_label_where_all_labels_are_right(sure: float) -> None:
    labels = torch.arange(4).repeat(50)
    log_p = (sure * torch.eye(4)).repeat(50, 1).log_softmax(-1)
    noise_model = fit_noise_model(log_p, labels)
    assert noise_model.rate < 0.02
    mistaken = label_posterior(log_p[:1], torch.tensor([1]), noise_model)
    assert mistaken.argmax() == 1
    assert label_posterior(log_p[:1], torch.tensor([0]), noise_model)[0, 0] > mistaken[0, 1]  # an order there is


def test_the_transition_has_the_cautious_rate_and_rows_that_sum_to_one() -> None:
    log_p, clean, labels, _ = through_a_channel(seed=2, rows=300)
    noise_model = fit_noise_model(log_p, labels)
    assert 0 < noise_model.shrunk_rate < noise_model.rate
    assert torch.allclose(noise_model.transition.sum(1), torch.ones(4).double())
    weights = torch.bincount(clean, minlength=4) / len(clean)
    wrong = 1 - float((weights * noise_model.transition.diagonal()).sum())
    assert wrong == pytest.approx(noise_model.shrunk_rate, rel=0.2)


@given(st.integers(1, 20), st.integers(2, 6), st.integers(0, 1000))
def test_mistakes_are_their_definition(rows: int, classes: int, seed: int) -> None:
    log_p, _, noise_model = some(rows, classes, seed)
    p = (log_p.double() / noise_model.temperature).softmax(-1)
    found, expected = confusion(log_p, noise_model.temperature), CONSERVATIVE_FACTOR * (1 - p.max(1).values).mean()
    for k in range(classes):
        mine = [row for row in p if row.argmax() == k]
        others = torch.ones(classes, dtype=torch.float64) if not mine else torch.stack(mine).sum(0)
        others[k] = 0
        assert torch.allclose(found[k], expected * others / others.sum(), atol=1e-12)


@given(st.integers(1, 20), st.integers(2, 6), st.integers(0, 1000))
def test_a_sceptic_is_one_who_mixes_the_mistakes_in(rows: int, classes: int, seed: int) -> None:
    log_p, labels, noise_model = some(rows, classes, seed)
    noise_model = noise_model._replace(confusion=confusion(log_p, noise_model.temperature), temperature=1.0)
    p = log_p.double().softmax(-1)
    mixed = torch.stack(
        [(1 - noise_model.confusion[row.argmax()].sum()) * row + noise_model.confusion[row.argmax()] for row in p]
    )
    plain = noise_model._replace(confusion=None)
    assert torch.allclose(
        label_posterior(log_p, labels, noise_model), label_posterior(mixed.log(), labels, plain), atol=1e-9
    )


def test_a_sceptic_counts_with_the_least_noise_there_can_be_beside_mistakes() -> None:
    log_p = (0.98 * torch.eye(3) + 0.01).log().repeat(100, 1)
    labels = torch.arange(3).repeat(100)
    labels[:30:3] = 1  # of class 0, so that it is known which form the noise has
    noise_model = fit_noise_model(log_p, labels)
    sceptic = conservative_noise_model(noise_model, log_p, labels)
    assert 0 < sceptic.rate == sceptic.shrunk_rate < noise_model.interval[0] < noise_model.shrunk_rate
    assert torch.allclose(sceptic.transition.sum(1), torch.ones(3, dtype=torch.float64))
    assert sceptic.transition[0, 1] > 3 * sceptic.transition[0, 2]
    assert fit_label_bias(log_p, labels, sceptic) <= fit_label_bias(log_p, labels, noise_model)
    right = torch.arange(3).repeat(100)
    nothing_wrong = conservative_noise_model(fit_noise_model(log_p, right), log_p, right)
    assert (
        label_posterior(log_p, right, nothing_wrong, fit_label_bias(log_p, right, nothing_wrong)).argmax(1).equal(right)
    )


def test_a_sceptic_takes_for_noise_what_mistakes_do_not_explain() -> None:
    log_p, _, labels, _ = through_a_channel(seed=3, rows=400)
    noise_model = fit_noise_model(log_p, labels)
    sceptic = conservative_noise_model(noise_model, log_p, labels)
    q = believed(log_p, sceptic).numpy()
    T, joint = noise_model.transition.double().numpy(), np.zeros((4, 4))
    for _ in range(500):  # EM, a row at a time
        joint = np.zeros((4, 4))
        for row, y in zip(q, labels.tolist(), strict=True):
            r = row * T[:, y]
            joint[:, y] += r / r.sum() / len(q)
        T = smoothed_transition(torch.from_numpy(joint), len(q), CAUTION).numpy()
    rate = 1 - np.trace(joint)
    assert 0 < rate < noise_model.rate
    assert sceptic.rate == pytest.approx(rate - 1.96 * noise_model.error, abs=1e-3)
    off = ~np.eye(4, dtype=bool)
    assert np.allclose(sceptic.transition.numpy()[off], T[off] * sceptic.rate / rate, atol=2e-3)


def test_a_sceptic_does_not_believe_a_network_that_mixes_two_classes_up() -> None:
    """Classes 0 and 1 look alike, but a few of the mistakes between them are sure ones; 2 stands apart."""
    draw = torch.Generator().manual_seed(0)
    share = torch.rand(3000, generator=draw).double()
    p = torch.stack([share, 1 - share, torch.zeros(3000)], 1)
    p[::3] = torch.tensor([0.0, 0.0, 1.0])
    labels = torch.multinomial(p, 1, generator=draw)[:, 0]
    logits = (0.999 * p + 0.001 / 3).log()
    sure = (labels < 2) & (torch.rand(3000, generator=draw) < 0.05)
    logits[sure] = 8 * torch.nn.functional.one_hot(1 - labels[sure], 3).double()
    noise_model = fit_noise_model(logits.log_softmax(-1), labels)
    mistaken = logits[sure].log_softmax(-1)
    believes = label_posterior(mistaken, labels[sure], noise_model).amax(1)
    doubts = label_posterior(mistaken, labels[sure], conservative_noise_model(noise_model, logits.log_softmax(-1), labels))
    doubts = doubts.gather(1, 1 - labels[sure][:, None])
    assert believes.mean() > 0.95  # no label is wrong: it cannot know
    assert doubts.max() < 0.9


def test_of_seen_rows_without_others_is_one_step_from_the_predictions() -> None:
    log_p, labels, _ = some(40, 3, 7)
    p = log_p.exp().double()
    joint = [[sum(float(p[n, k]) for n in range(40) if labels[n] == y) / 40 for y in range(3)] for k in range(3)]
    T = smoothed_transition(torch.tensor(joint, dtype=torch.float64), 40)
    found = train_label_posterior(log_p, labels)
    for n in range(40):
        parts = [float(p[n, k] * T[k, labels[n]]) for k in range(3)]
        assert found[n].tolist() == pytest.approx([part / sum(parts) for part in parts], rel=1e-5)


@given(st.floats(0.3, 4.0), st.integers(0, 100))
def test_a_network_that_is_too_sure_is_made_as_sure_as_of_others(times: float, seed: int) -> None:
    log_p = some(50, 4, seed)[0]
    assert match_confidence(times * log_p, log_p) == pytest.approx(times, rel=1e-4)


@pytest.mark.parametrize(("others", "surer"), [(16, True), (15, False)])
def test_predictions_are_made_surer_only_where_each_pair_of_classes_has_a_row(others: int, surer: bool) -> None:
    """Four classes, always right and never sure: of 16 rows, one for each pair, that is heard, and of 15 it is not."""
    labels = torch.arange(200) % 4
    logits = 0.5 * torch.nn.functional.one_hot(labels, 4).float()
    found = train_label_posterior(logits, labels, HeldOut(logits[:others], labels[:others]))
    joint = fit_joint_from_probs((logits.double() / 1.1).softmax(-1), labels, initial_transition(4))
    unheard = label_posterior(logits, labels, NoiseModel(smoothed_transition(joint, 200), 1.1, 0.0, 0.0))
    assert torch.allclose(found.double(), unheard, rtol=1e-3) != surer


def test_others_tell_how_far_predictions_for_seen_rows_may_be_trusted() -> None:
    """A network three times too sure of rows it was trained on: the posterior is as right as with its true logits."""
    log_p, clean, labels, noise_model = through_a_channel(seed=3, rows=8000)
    seen, rest = slice(0, 4000), slice(4000, None)
    found = train_label_posterior(3 * log_p[seen], labels[seen], HeldOut(log_p[rest], labels[rest]))
    ideal = label_posterior(log_p[seen], labels[seen], noise_model)
    right, best, alone = (
        (one.argmax(1) == clean[seen]).double().mean().item()
        for one in (found, ideal, train_label_posterior(3 * log_p[seen], labels[seen]))
    )
    assert right > best - 0.01
    assert right > alone + 0.02
    # Of the classes that it holds for probable in a share s of cases, about a share s is right.
    assert found.amax(1).mean().item() == pytest.approx(right, abs=0.03)


def test_nobody_set_aside_is_nobody_asked() -> None:
    log_p, labels, _ = some(20, 3, 1)
    nobody = HeldOut(log_p[:0], labels[:0])
    assert torch.equal(train_label_posterior(log_p, labels, nobody), train_label_posterior(log_p, labels))


@given(st.lists(st.floats(0.02, 0.98), min_size=1, max_size=30), st.floats(0.05, 0.95), st.floats(1.0, 3.0))
def test_once_the_lean_is_taken_seen_labels_have_the_odds_they_may_have(
    seen: list[float], other: float, times: float
) -> None:
    b = excess_label_bias(torch.tensor(seen).double(), torch.tensor([other]).double(), times)
    left = sum(p * math.exp(-b) / (p * math.exp(-b) + 1 - p) for p in seen) / len(seen)
    allowed = times * other / (1 - other)
    if b == 0:
        assert left / (1 - left) <= allowed * (1 + 1e-5)
    else:
        assert left / (1 - left) == pytest.approx(allowed, rel=1e-5)


def test_labels_that_were_learned_by_heart_are_found_all_the_same() -> None:
    """Logits of given labels four nats too high: what others tell takes most of it back."""
    draw = torch.Generator().manual_seed(1)
    log_p = torch.randn(8000, 4, generator=draw).mul(4).log_softmax(-1)
    clean = torch.multinomial(log_p.exp(), 1, generator=draw)[:, 0]
    transition = torch.full((4, 4), 0.2).fill_diagonal_(0.4)
    labels = torch.multinomial(transition[clean], 1, generator=draw)[:, 0]
    seen, rest = slice(0, 4000), slice(4000, None)
    learned = log_p[seen] + 4 * torch.nn.functional.one_hot(labels[seen], 4)
    found = train_label_posterior(learned, labels[seen], HeldOut(log_p[rest], labels[rest]))
    ideal = label_posterior(log_p[seen], labels[seen], NoiseModel(transition.double(), 1.0, 0.6, 0.0))
    right, best, before = (
        (one == clean[seen]).double().mean().item() for one in (found.argmax(1), ideal.argmax(1), labels[seen])
    )
    assert right > (best + before) / 2
