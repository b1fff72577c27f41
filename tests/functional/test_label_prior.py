"""Prior log-odds of labels, their bound (docs/theory.md), and alignment to a class prior."""

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
    prior_of_correct_labels,
    shrunk_prior,
)
from permll.layer.equations import posterior

FRACTIONS = st.floats(0.02, 0.98)


def max_label_logit(flipped: float) -> float:
    """Return the bound log((1 - ρ) / ρ), at least 0, for a fraction ρ of flipped labels."""
    return max(math.log((1 - flipped) / flipped), 0.0) if 0 < flipped < 1 else (0.0 if flipped >= 1 else math.inf)


def mean_target_shift(p: float, label_logit: float, flipped: float) -> float:
    """Return (1 - ρ) r + ρ r' - p, the mean target minus the prediction p of equal samples."""
    target = p * math.exp(label_logit) / (p * math.exp(label_logit) + 1 - p)
    flipped_target = p / (p + (1 - p) * math.exp(label_logit))
    return (1 - flipped) * target + flipped * flipped_target - p


@given(FRACTIONS, st.floats(0.05, 0.49))
def test_predictions_become_certain_below_the_bound(p: float, flipped: float) -> None:
    assert mean_target_shift(p, 0.9 * max_label_logit(flipped), flipped) > 0


@given(st.floats(0.05, 0.49), st.floats(1.05, 3.0))
def test_predictions_stop_at_closed_form_above_the_bound(flipped: float, factor: float) -> None:
    label_logit = factor * max_label_logit(flipped)
    assume(label_logit > 0.01)
    high, low = math.exp(label_logit), 1.0  # a_A and a_B for label A, up to a factor
    p = ((1 - flipped) * high - flipped * low) / (high - low)
    assert 0 < p < 1
    assert mean_target_shift(p, label_logit, flipped) == pytest.approx(0, abs=1e-9)
    assert (
        mean_target_shift(min(p + 0.01, (1 + p) / 2), label_logit, flipped)
        < 0
        < mean_target_shift(p / 2, label_logit, flipped)
    )


@given(FRACTIONS, st.floats(0, 4), FRACTIONS)
def test_mean_target_shift_matches_posteriors(p: float, label_logit: float, flipped: float) -> None:
    logits = torch.tensor([[p, 1 - p]], dtype=torch.float64).log()
    targets = [
        posterior(label_logit * torch.eye(2, dtype=torch.float64)[[label]], logits)[0, 0].item() for label in (0, 1)
    ]
    expected = (1 - flipped) * targets[0] + flipped * targets[1] - p
    assert mean_target_shift(p, label_logit, flipped) == pytest.approx(expected, abs=1e-12)


@given(FRACTIONS, FRACTIONS)
def test_zero_label_logit_gives_no_shift(p: float, flipped: float) -> None:
    assert mean_target_shift(p, 0.0, flipped) == pytest.approx(0, abs=1e-12)


@given(st.floats(0.01, 0.45), st.floats(0.1, 4), st.floats(0.1, 2))
def test_larger_label_logit_is_faster_at_uniform_prediction(
    flipped: float, label_logit: float, increase: float
) -> None:
    speed = (1 - 2 * flipped) * (math.exp(label_logit) - 1) / (2 * (math.exp(label_logit) + 1))
    assert mean_target_shift(0.5, label_logit, flipped) == pytest.approx(speed, abs=1e-12)
    assert mean_target_shift(0.5, label_logit + increase, flipped) > speed


@given(st.floats(0.51, 0.95))
def test_earned_label_logit_is_worst_case_bound(right: float) -> None:
    assert earned_label_logit(torch.tensor([right]), 9.0).item() == pytest.approx(max_label_logit(1 - right), rel=1e-4)


def test_earned_label_logit_is_clipped() -> None:
    assert earned_label_logit(torch.tensor([0.0, 0.3, 1.0]), 3.0).tolist() == [0.0, 0.0, 3.0]
    assert (max_label_logit(0.0), max_label_logit(1.0)) == (math.inf, 0.0)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.5), st.floats(0.01, 0.5))
def test_decayed_label_logit_is_monotone(one: float, other: float, start: float, duration: float) -> None:
    def logit_at(progress: float) -> float:
        now, begin = torch.tensor([progress, start], dtype=torch.float64)
        return decayed_label_logit(2.0, now, begin, duration).item()

    early, late = sorted((one, other))
    assert 2.0 >= logit_at(early) >= logit_at(late) >= 0
    assert logit_at(start) == 2.0
    assert logit_at(start + duration / 2) == pytest.approx(1.0)
    assert logit_at(start + duration) == pytest.approx(0.0, abs=1e-9)


def test_decayed_label_logit_with_zero_duration() -> None:
    before, after = (
        decayed_label_logit(2.0, torch.tensor(now), torch.tensor(0.25), 0.0).item() for now in (0.25, 0.26)
    )
    assert (before, after) == (2.0, 0.0)


def test_align_prior_rescales_odds() -> None:
    p = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]], dtype=torch.float64)
    mean, prior = p.mean(0), torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    assert_close(align_prior(p.log(), mean, mean).softmax(-1), p)
    result = align_prior(p.log(), prior, mean).softmax(-1)
    for row in range(2):
        for k in range(3):
            expected = p[row, k] / p[row, 0] * (prior[k] / prior[0]) / (mean[k] / mean[0])
            assert_close(result[row, k] / result[row, 0], expected)


def test_align_prior_prevents_merging_of_classes() -> None:
    """Two similar classes with uninformative labels: one class absorbs the other unless predictions are aligned."""
    p_first = torch.tensor([0.9, 0.7, 0.6, 0.55, 0.45, 0.3], dtype=torch.float64)
    start = torch.stack([p_first, 1 - p_first], 1)
    for prior, merged in ((None, True), (torch.full((2,), 0.5, dtype=torch.float64), False)):
        p = start
        for _ in range(400):  # the network follows slightly sharpened targets
            aligned = p.log() if prior is None else align_prior(p.log(), prior, p.mean(0))
            p = 0.8 * p + 0.2 * (1.2 * aligned).softmax(-1)
            p = 0.95 * p + 0.05 * p.mean(0)  # and cannot fully separate the samples
        assert ((p.argmax(-1) == 0).all().item(), p.mean(0)[0].item() > 0.9) == (merged, merged)


@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=20), st.floats(1.0, 4.0))
def test_shrunk_prior_keeps_order_and_shrinks(sizes: list[float], factor: float) -> None:
    prior = torch.tensor(sizes, dtype=torch.float64)
    prior /= prior.sum()
    result = shrunk_prior(prior, factor)
    assert result.sum().item() == pytest.approx(1)
    order = prior.argsort()
    assert (result[order].diff() >= -1e-12).all()
    assert (result.max() / result.min()).item() <= (prior.max() / prior.min()).item() * (1 + 1e-9)
    assert_close(shrunk_prior(prior, 1.0), prior)


@given(st.lists(st.floats(0.02, 0.5), min_size=2, max_size=12))
def test_shrunk_prior_ignores_noise_below_one_half(flipped: list[float]) -> None:
    """Every class loses less than half of its labels to the next class, so its frequency is at most halved."""
    lost = torch.tensor(flipped, dtype=torch.float64) * 0.99
    labels = (1 - lost + lost.roll(1)) / len(lost)
    assert_close(shrunk_prior(labels), torch.full_like(labels, 1 / len(labels)))


@given(st.lists(st.integers(1, 40), min_size=2, max_size=8), st.integers(1, 4))
def test_prior_of_correct_labels_is_exact_for_equal_noise(sizes: list[int], kept: int) -> None:
    """One to four of five labels of each class are kept, the others are spread evenly."""
    classes, size = len(sizes), torch.tensor(sizes) * 5 * (len(sizes) - 1)
    moved = size * (5 - kept) // 5 // (classes - 1)  # to each other class
    given_labels = size * kept // 5 + moved.sum() - moved
    right = (size * kept / 5 / given_labels).double()
    labels = torch.arange(classes).repeat_interleave(given_labels)
    assert_close(prior_of_correct_labels(labels, right, factor=1.0), (size / size.sum()).double())


def test_prior_of_correct_labels_is_positive() -> None:
    prior = prior_of_correct_labels(torch.tensor([0, 0, 1]), torch.tensor([0.9, 0.5, 0.0]))
    assert 1e-7 < prior[2] < 1e-5


def test_prior_of_correct_labels_tolerates_unequal_accuracy() -> None:
    right = torch.tensor([0.9, 0.9, 0.6])
    assert_close(prior_of_correct_labels(torch.arange(3).repeat(20), right), torch.full((3,), 1 / 3))


@given(st.integers(1, 40), st.integers(2, 6), st.integers(0, 100), st.floats(0.5, 20))
def test_label_accuracy_shrinks_to_overall_mean(rows: int, classes: int, seed: int, pseudo_count: float) -> None:
    draw = torch.Generator().manual_seed(seed)
    p = torch.randn(rows, classes, generator=draw, dtype=torch.float64).softmax(-1)
    labels = torch.randint(classes, (rows,), generator=draw)
    p_y = [float(p[n, labels[n]]) for n in range(rows)]
    for k, accuracy in enumerate(label_accuracy(p, labels, pseudo_count).tolist()):
        of_class = [one for one, label in zip(p_y, labels.tolist(), strict=True) if label == k]
        assert accuracy == pytest.approx(
            (sum(of_class) + pseudo_count * sum(p_y) / rows) / (len(of_class) + pseudo_count)
        )
