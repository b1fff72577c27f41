"""The head start of labels: its bound, what closes it, and predictions that keep the classes' shares."""

import math

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch.testing import assert_close

from permll.functional.label_prior import (
    align_prior,
    decayed_label_logit,
    earned_label_logit,
    label_accuracy,
    max_label_logit,
    prior_of_correct_labels,
    pull_of_alike,
    shrunk_prior,
)
from permll.layer.equations import posterior

SHARES = st.floats(0.02, 0.98)


@given(SHARES, st.floats(0.05, 0.49))
def test_below_the_bound_look_alikes_pull_towards_certainty(p: float, flipped: float) -> None:
    assert pull_of_alike(p, 0.9 * max_label_logit(flipped), flipped) > 0


@given(st.floats(0.05, 0.49), st.floats(1.05, 3.0))
def test_above_it_they_stop_at_the_closed_form(flipped: float, times: float) -> None:
    gap = times * max_label_logit(flipped)
    assume(gap > 0.01)
    high, low = math.exp(gap), 1.0  # a_A : a_B of labels A, up to a factor
    p = ((1 - flipped) * high - flipped * low) / (high - low)
    assert 0 < p < 1
    assert pull_of_alike(p, gap, flipped) == pytest.approx(0, abs=1e-9)
    assert pull_of_alike(min(p + 0.01, (1 + p) / 2), gap, flipped) < 0 < pull_of_alike(p / 2, gap, flipped)


@given(SHARES, st.floats(0, 4), SHARES)
def test_the_pull_is_that_of_the_posteriors(p: float, gap: float, flipped: float) -> None:
    logits = torch.tensor([[p, 1 - p]], dtype=torch.float64).log()
    targets = [posterior(gap * torch.eye(2, dtype=torch.float64)[[label]], logits)[0, 0].item() for label in (0, 1)]
    expected = (1 - flipped) * targets[0] + flipped * targets[1] - p
    assert pull_of_alike(p, gap, flipped) == pytest.approx(expected, abs=1e-12)


@given(SHARES, SHARES)
def test_without_a_head_start_nothing_is_learned_from_labels(p: float, flipped: float) -> None:
    assert pull_of_alike(p, 0.0, flipped) == pytest.approx(0, abs=1e-12)


@given(st.floats(0.01, 0.45), st.floats(0.1, 4), st.floats(0.1, 2))
def test_where_nothing_is_known_more_head_start_is_faster(flipped: float, gap: float, more: float) -> None:
    speed = (1 - 2 * flipped) * (math.exp(gap) - 1) / (2 * (math.exp(gap) + 1))
    assert pull_of_alike(0.5, gap, flipped) == pytest.approx(speed, abs=1e-12)
    assert pull_of_alike(0.5, gap + more, flipped) > speed


@given(st.floats(0.51, 0.95))
def test_labels_earn_the_bound_of_the_worst_case(right: float) -> None:
    assert earned_label_logit(torch.tensor([right]), 9.0).item() == pytest.approx(max_label_logit(1 - right), rel=1e-4)


def test_labels_that_are_mostly_wrong_earn_nothing_and_others_not_too_much() -> None:
    assert earned_label_logit(torch.tensor([0.0, 0.3, 1.0]), 3.0).tolist() == [0.0, 0.0, 3.0]
    assert (max_label_logit(0.0), max_label_logit(1.0)) == (math.inf, 0.0)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.5), st.floats(0.01, 0.5))
def test_a_gap_only_closes(one: float, other: float, begins: float, lasts: float) -> None:
    def gap_at(progress: float) -> float:
        now, start = torch.tensor([progress, begins], dtype=torch.float64)
        return decayed_label_logit(2.0, now, start, lasts).item()

    early, late = sorted((one, other))
    assert 2.0 >= gap_at(early) >= gap_at(late) >= 0
    assert gap_at(begins) == 2.0
    assert gap_at(begins + lasts / 2) == pytest.approx(1.0)
    assert gap_at(begins + lasts) == pytest.approx(0.0, abs=1e-9)


def test_a_gap_that_closes_at_once_is_there_before_and_not_after() -> None:
    before, after = (
        decayed_label_logit(2.0, torch.tensor(now), torch.tensor(0.25), 0.0).item() for now in (0.25, 0.26)
    )
    assert (before, after) == (2.0, 0.0)


def test_with_their_own_shares_nothing_changes_and_with_others_odds_do() -> None:
    p = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]], dtype=torch.float64)
    shares, prior = p.mean(0), torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    assert_close(align_prior(p.log(), shares, shares).softmax(-1), p)
    found = align_prior(p.log(), prior, shares).softmax(-1)
    for row in range(2):
        for k in range(3):
            expected = p[row, k] / p[row, 0] * (prior[k] / prior[0]) / (shares[k] / shares[0])
            assert_close(found[row, k] / found[row, 0], expected)


def test_without_the_shares_classes_merge_and_with_them_they_do_not() -> None:
    """Two classes that look alike by a third, labels that say little: the larger one swallows the other, or not."""
    p_first = torch.tensor([0.9, 0.7, 0.6, 0.55, 0.45, 0.3], dtype=torch.float64)
    start = torch.stack([p_first, 1 - p_first], 1)
    for prior, swallowed in ((None, True), (torch.full((2,), 0.5, dtype=torch.float64), False)):
        p = start
        for _ in range(400):  # the network follows its targets, a little sharper each time
            said = p.log() if prior is None else align_prior(p.log(), prior, p.mean(0))
            p = 0.8 * p + 0.2 * (1.2 * said).softmax(-1)
            p = 0.95 * p + 0.05 * p.mean(0)  # and cannot tell them apart wholly
        assert ((p.argmax(-1) == 0).all().item(), p.mean(0)[0].item() > 0.9) == (swallowed, swallowed)


@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=20), st.floats(1.0, 4.0))
def test_cautious_shares_keep_the_order_and_lie_between(sizes: list[float], factor: float) -> None:
    shares = torch.tensor(sizes, dtype=torch.float64)
    shares /= shares.sum()
    found = shrunk_prior(shares, factor)
    assert found.sum().item() == pytest.approx(1)
    order = shares.argsort()
    assert (found[order].diff() >= -1e-12).all()
    assert (found.max() / found.min()).item() <= (shares.max() / shares.min()).item() * (1 + 1e-9)
    assert_close(shrunk_prior(shares, 1.0), shares)


@given(st.lists(st.floats(0.02, 0.5), min_size=2, max_size=12))
def test_noise_below_a_half_never_makes_even_classes_look_rare(flipped: list[float]) -> None:
    """Every class loses less than half of its labels, to the next one: its share of the labels stays above a half."""
    lost = torch.tensor(flipped, dtype=torch.float64) * 0.99
    labels = (1 - lost + lost.roll(1)) / len(lost)
    assert_close(shrunk_prior(labels), torch.full_like(labels, 1 / len(labels)))


@given(st.lists(st.integers(1, 40), min_size=2, max_size=8), st.integers(1, 4))
def test_noise_that_hits_all_classes_alike_hides_no_shares(sizes: list[int], kept: int) -> None:
    """Of every five labels of a class one to four stay, the others are spread: right labels still tell the shares."""
    classes, size = len(sizes), torch.tensor(sizes) * 5 * (len(sizes) - 1)
    moved = size * (5 - kept) // 5 // (classes - 1)  # to each of the others
    given_labels = size * kept // 5 + moved.sum() - moved
    right = (size * kept / 5 / given_labels).double()
    labels = torch.arange(classes).repeat_interleave(given_labels)
    assert_close(prior_of_correct_labels(labels, right, factor=1.0), (size / size.sum()).double())


def test_a_class_without_right_labels_keeps_a_share_that_can_be_divided_by() -> None:
    shares = prior_of_correct_labels(torch.tensor([0, 0, 1]), torch.tensor([0.9, 0.5, 0.0]))
    assert 1e-7 < shares[2] < 1e-5


def test_a_class_that_is_known_less_well_is_not_taken_for_a_rare_one() -> None:
    right = torch.tensor([0.9, 0.9, 0.6])
    assert_close(prior_of_correct_labels(torch.arange(3).repeat(20), right), torch.full((3,), 1 / 3))


@given(st.integers(1, 40), st.integers(2, 6), st.integers(0, 100), st.floats(0.5, 20))
def test_how_right_is_a_mean_drawn_to_that_of_all(rows: int, classes: int, seed: int, more: float) -> None:
    draw = torch.Generator().manual_seed(seed)
    p = torch.randn(rows, classes, generator=draw, dtype=torch.float64).softmax(-1)
    labels = torch.randint(classes, (rows,), generator=draw)
    said = [float(p[n, labels[n]]) for n in range(rows)]
    for k, found in enumerate(label_accuracy(p, labels, more).tolist()):
        own = [one for one, label in zip(said, labels.tolist(), strict=True) if label == k]
        assert found == pytest.approx((sum(own) + more * sum(said) / rows) / (len(own) + more))
