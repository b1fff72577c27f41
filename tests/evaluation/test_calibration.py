"""Calibration metrics against loops over samples and bins, and against scikit-learn."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn import metrics

from permll.evaluation import calibration
from tests.helpers.evaluation_strategies import PredictionCase, prediction_cases

NUM_BINS = st.integers(1, 20)


@given(prediction_cases(), NUM_BINS)
def test_ece_matches_loop(sample: PredictionCase, num_bins: int) -> None:
    bins: dict[int, list[float]] = {}
    for row, y in zip(sample.p.tolist(), sample.y.tolist(), strict=True):
        confidence = max(row)
        index = next(m for m in range(num_bins) if m == num_bins - 1 or confidence <= (m + 1) / num_bins)
        bins.setdefault(index, []).append((row.index(confidence) == y) - confidence)
    expected = sum(abs(sum(gaps)) for gaps in bins.values()) / len(sample.y)
    ece = calibration.expected_calibration_error(sample.p, sample.y, num_bins=num_bins)
    assert ece == pytest.approx(expected, abs=1e-12)
    assert 0 <= ece <= 1 + 1e-12


@given(prediction_cases(), NUM_BINS)
def test_ece_is_invariant_to_sample_order(sample: PredictionCase, num_bins: int) -> None:
    forward, backward = (
        calibration.expected_calibration_error(p, y, num_bins=num_bins)
        for p, y in ((sample.p, sample.y), (sample.p.flip(0), sample.y.flip(0)))
    )
    assert forward == pytest.approx(backward, abs=1e-12)


def test_ece_bin_includes_its_upper_edge() -> None:
    """0.5 and 0.75 fall into different bins of four, so their errors of opposite sign do not cancel."""
    p = torch.tensor([[0.5, 0.5], [0.75, 0.25]], dtype=torch.float64)
    assert calibration.expected_calibration_error(p, torch.tensor([0, 1]), num_bins=4) == 0.5 * 0.5 + 0.5 * 0.75
    assert calibration.expected_calibration_error(p, torch.tensor([0, 1]), num_bins=1) == 0.125


def test_ece_of_calibrated_model_vanishes() -> None:
    n = 200_000
    p = (2 * torch.randn(n, 5, dtype=torch.float64)).softmax(1)
    y = torch.multinomial(p, 1).squeeze(1)
    sharper = p.square() / p.square().sum(1, keepdim=True)
    assert calibration.expected_calibration_error(p, y) < 0.01
    assert calibration.expected_calibration_error(sharper, y) > 0.05


@given(prediction_cases())
def test_brier_score_matches_loop_and_sklearn(sample: PredictionCase) -> None:
    expected = sum(
        sum((p - (label == y)) ** 2 for label, p in enumerate(row))
        for row, y in zip(sample.p.tolist(), sample.y.tolist(), strict=True)
    ) / len(sample.y)
    got = calibration.brier_score(sample.p, sample.y)
    assert got == pytest.approx(expected, abs=1e-12)
    assert 0 <= got <= 2
    reference = metrics.brier_score_loss(
        sample.y.numpy(), sample.p.numpy(), labels=list(range(sample.p.shape[1])), scale_by_half=False
    )
    assert got == pytest.approx(reference, abs=1e-12)


@given(prediction_cases())
def test_nll_matches_sklearn(sample: PredictionCase) -> None:
    assume(sample.p.min() > 1e-15)
    expected = metrics.log_loss(sample.y.numpy(), sample.p.numpy(), labels=list(range(sample.p.shape[1])))
    assert calibration.negative_log_likelihood(sample.p, sample.y) == pytest.approx(expected, abs=1e-9)


def test_nll_of_zero_probability_is_finite() -> None:
    for dtype, largest in ((torch.float32, 87.34), (torch.float64, 708.4)):
        p = torch.tensor([[1.0, 0.0]], dtype=dtype)
        assert calibration.negative_log_likelihood(p, torch.tensor([1])) == pytest.approx(largest, abs=0.01)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_calibration_accepts_every_float_dtype(dtype: torch.dtype) -> None:
    exact, y = torch.randn(500, 100, dtype=torch.float64).softmax(1), torch.randint(100, (500,))
    p = exact.to(dtype).requires_grad_()
    before = p.detach().clone()
    measures: list[Callable[..., float]] = [
        calibration.brier_score,
        calibration.negative_log_likelihood,
        calibration.expected_calibration_error,
    ]
    for measure in measures:
        assert measure(p, y) == pytest.approx(measure(exact, y), abs=3 * torch.finfo(dtype).eps)
    assert torch.equal(p, before)


def test_brier_score_avoids_cancellation() -> None:
    p = torch.tensor([[1 - 1e-4, 1e-4]])
    assert calibration.brier_score(p, torch.tensor([0])) == pytest.approx(2e-8, rel=1e-2)


def test_ece_refuses_no_bins() -> None:
    with pytest.raises(ValueError, match="num_bins must be at least 1, got 0"):
        calibration.expected_calibration_error(torch.tensor([[0.5, 0.5]]), torch.tensor([0]), num_bins=0)
