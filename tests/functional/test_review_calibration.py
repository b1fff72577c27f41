"""Calibration of label quality by reviewed labels: against numerical integration, and in simulated reviews."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from permll.functional.review_calibration import SHIFT_DEVIATION, SLOPE_DEVIATION, Remaining, calibrate, log_odds


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


TOTAL = Remaining(3.0, 2.0, 4.0)
ALL_QUALITY = torch.tensor([0.2, 0.4, 0.1, 0.9, 0.99, 0.6, 0.8])


def weight(s: float, t: float, odds: list[float], wrong: list[bool], with_total: bool) -> float:
    """Return the posterior density of log a = s / 2 and b = 2 t, up to a constant."""
    a, b = math.exp(SLOPE_DEVIATION * s), SHIFT_DEVIATION * t
    density = math.exp(-(s * s + t * t) / 2)
    if with_total:
        expected = sum(sigmoid(b - a * math.log(q / (1 - q))) for q in ALL_QUALITY.tolist())
        density *= math.exp(-((expected - 3) ** 2) / (2 * (0.5**2 + 0.75**2)))  # a quarter of the interval and of 3
    for value, is_wrong in zip(odds, wrong, strict=True):
        probability = sigmoid(b - a * value)
        density *= probability if is_wrong else 1 - probability
    return density


@pytest.mark.parametrize("with_total", [False, True])
@pytest.mark.parametrize("wrong", [[], [True], [False, False, True], [True, True, True, False]])
def test_parameters_match_integration(wrong: list[bool], with_total: bool) -> None:
    quality = ALL_QUALITY[: len(wrong)]
    total = (ALL_QUALITY, TOTAL) if with_total else ()
    calibration = calibrate(quality, torch.tensor(wrong, dtype=torch.bool), *total)
    odds, steps = log_odds(quality).tolist(), [0.1 * i for i in range(-50, 51)]
    weights = {(s, t): weight(s, t, odds, wrong, with_total) for s in steps for t in steps}
    total = sum(weights.values())
    log_slope = sum(SLOPE_DEVIATION * s * value for (s, _), value in weights.items()) / total
    shift = sum(SHIFT_DEVIATION * t * value for (_, t), value in weights.items()) / total
    assert float(calibration.weights @ calibration.slopes.log()) == pytest.approx(log_slope, abs=0.01)
    assert float(calibration.weights @ calibration.shifts) == pytest.approx(shift, abs=0.02)
    for value in (0.05, 0.5, 0.99):
        expected = sigmoid(shift - math.exp(log_slope) * math.log(value / (1 - value)))
        assert float(calibration.wrong_probs(torch.tensor([value]))) == pytest.approx(expected, abs=0.01)


def review(seed: int, slope: float, shift: float, count: int, *, at_random: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return quality, wrong labels, and a mask of reviewed ones: the most suspect, or some at random."""
    generator = torch.Generator().manual_seed(seed)
    odds = 3 + 3 * torch.randn(4000, generator=generator, dtype=torch.float64)
    wrong = torch.rand(4000, generator=generator) < torch.sigmoid(shift - slope * odds)
    first = torch.randperm(4000, generator=generator)[:count] if at_random else odds.argsort()[:count]
    return torch.sigmoid(odds), wrong, torch.zeros(4000, dtype=torch.bool).index_fill_(0, first, True)


@pytest.mark.parametrize("at_random", [True, False])
def test_interval_covers_the_truth(at_random: bool) -> None:
    covered, widths = 0, []
    for seed in range(60):
        generator = np.random.default_rng(seed)
        slope, shift = math.exp(0.4 * generator.normal()), 1.5 * generator.normal()
        quality, wrong, reviewed = review(seed, slope, shift, 300, at_random=at_random)
        remaining = calibrate(quality[reviewed], wrong[reviewed]).remaining(quality[~reviewed])
        covered += remaining.low <= int(wrong[~reviewed].sum()) <= remaining.high
        widths.append(remaining.high - remaining.low)
        assert remaining.low <= remaining.estimate <= remaining.high
    assert covered >= 53  # 95 % of 60, less two standard errors
    if at_random:
        assert float(np.median(widths)) < 400, "a tenth of the labels"


def test_clean_labels_show_after_a_review() -> None:
    """If no suspect is wrong, few of the others are, whatever their quality said."""
    quality, _, reviewed = review(0, 1.0, 0.0, 300, at_random=False)
    none_wrong = torch.zeros(300, dtype=torch.bool)
    before = calibrate(quality[:0], none_wrong[:0]).remaining(quality[~reviewed])
    after = calibrate(quality[reviewed], none_wrong).remaining(quality[~reviewed])
    assert after.high < 0.1 * before.estimate


def test_reviews_that_find_only_errors_do_not_extrapolate() -> None:
    """The sixty most suspect of 400 labels were wrong, and 80 were estimated to be: about 20 are left, not hundreds."""
    quality = torch.sigmoid(torch.linspace(-1.5, 7, 400))  # the sum of 1 - q is 80
    reviewed, all_wrong = quality[:60], torch.ones(60, dtype=torch.bool)
    unlimited = calibrate(reviewed, all_wrong).remaining(quality[60:])
    limited = calibrate(reviewed, all_wrong, quality, Remaining(80, 50, 110)).remaining(quality[60:])
    assert unlimited.high > 300
    assert limited.low < 20 < limited.estimate < 50 < limited.high < 90
    found_clean = calibrate(reviewed, ~all_wrong, quality, Remaining(80, 50, 110)).remaining(quality[60:])
    assert found_clean.high < limited.estimate, "the reviewer has the last word"


@given(st.integers(0, 2**31), st.integers(0, 40))
def test_estimate_is_a_number_of_labels(seed: int, count: int) -> None:
    quality, wrong, reviewed = review(seed, 1.0, 0.0, count, at_random=True)
    calibration = calibrate(quality[reviewed], wrong[reviewed])
    remaining = calibration.remaining(quality[~reviewed])
    assert 0 <= remaining.low <= remaining.high <= 4000 - count
    assert float(calibration.weights.sum()) == pytest.approx(1)
    probs = calibration.wrong_probs(torch.linspace(0, 1, 50))
    assert bool((probs.diff() <= 0).all()), "a higher quality is less often wrong"
    assert remaining.estimate == pytest.approx(float(calibration.wrong_probs(quality[~reviewed]).sum()), rel=1e-6)
