"""Calibration against loops over samples and bins, and against scikit-learn."""

import math
from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn import metrics

from permll.evaluation import calibration
from tests.helpers.evaluation_strategies import Predicted, predicted

BINNINGS = st.tuples(st.integers(1, 20), st.sampled_from(["width", "mass"]))


def bins_by_loops(sample: Predicted, bins: int, equal: str) -> dict[int, list[tuple[float, bool]]]:
    """Return (confidence, right) of the samples of each bin, placed one by one."""
    rows = [(max(row), row.index(max(row)) == y) for row, y in zip(sample.p.tolist(), sample.y.tolist(), strict=True)]
    found: dict[int, list[tuple[float, bool]]] = {}
    for confidence, right in rows:
        if equal == "width":
            place = next(m for m in range(bins) if m == bins - 1 or confidence <= (m + 1) / bins)
        else:
            below = sum(other < confidence for other, _ in rows)
            same = sum(other == confidence for other, _ in rows)
            place = math.floor((below + Fraction(same, 2)) * bins / len(rows))
        found.setdefault(place, []).append((confidence, right))
    return dict(sorted(found.items()))


@given(predicted(), BINNINGS)
def test_curve_is_the_loops(sample: Predicted, binning: tuple[int, str]) -> None:
    bins, equal = binning
    expected = bins_by_loops(sample, bins, equal)
    got = calibration.reliability_curve(sample.p, sample.y, bins=bins, equal=equal)
    assert len(got) == len(expected)
    for found, (place, rows) in zip(got, expected.items(), strict=True):
        confidences = [confidence for confidence, _ in rows]
        assert found.samples == len(rows)
        assert found.confidence == pytest.approx(sum(confidences) / len(rows), abs=1e-12)
        assert found.accuracy == pytest.approx(sum(right for _, right in rows) / len(rows), abs=1e-12)
        edges = (place / bins, (place + 1) / bins) if equal == "width" else (min(confidences), max(confidences))
        assert (found.lower, found.upper) == edges


@given(predicted(), BINNINGS)
def test_errors_are_the_loops(sample: Predicted, binning: tuple[int, str]) -> None:
    bins, equal = binning
    expected, largest = 0.0, 0.0
    for rows in bins_by_loops(sample, bins, equal).values():
        gap = abs(sum(right - confidence for confidence, right in rows))
        expected += gap / len(sample.y)
        largest = max(largest, gap / len(rows))
    ece = calibration.expected_calibration_error(sample.p, sample.y, bins=bins, equal=equal)
    mce = calibration.maximum_calibration_error(sample.p, sample.y, bins=bins, equal=equal)
    assert ece == pytest.approx(expected, abs=1e-12)
    assert mce == pytest.approx(largest, abs=1e-12)
    assert 0 <= ece <= mce + 1e-12 <= 1 + 2e-12


@given(predicted(), BINNINGS)
def test_order_of_samples_does_not_matter(sample: Predicted, binning: tuple[int, str]) -> None:
    bins, equal = binning
    there, back = (
        calibration.reliability_curve(p, y, bins=bins, equal=equal)
        for p, y in ((sample.p, sample.y), (sample.p.flip(0), sample.y.flip(0)))
    )
    assert [found.samples for found in there] == [found.samples for found in back]
    assert [found.accuracy for found in there] == pytest.approx([found.accuracy for found in back], abs=1e-12)


@pytest.mark.parametrize(("n", "bins"), [(100, 15), (7, 3), (4, 9)])
def test_bins_of_equal_mass_differ_by_one_sample_at_most(n: int, bins: int) -> None:
    largest = torch.linspace(0.5, 1, n, dtype=torch.float64)
    p = torch.stack([largest, 1 - largest], 1)
    sizes = [
        found.samples for found in calibration.reliability_curve(p, torch.zeros(n).long(), bins=bins, equal="mass")
    ]
    assert sum(sizes) == n
    assert len(sizes) == min(n, bins)
    assert max(sizes) - min(sizes) <= 1


def test_a_bin_of_equal_width_owns_its_upper_edge() -> None:
    p = torch.tensor([[0.5, 0.5], [0.75, 0.25]], dtype=torch.float64)
    lowers = [found.lower for found in calibration.reliability_curve(p, torch.tensor([0, 0]), bins=4)]
    assert lowers == [0.25, 0.5]


def test_a_calibrated_model_has_no_calibration_error_in_the_long_run() -> None:
    n = 200_000
    p = (2 * torch.randn(n, 5, dtype=torch.float64)).softmax(1)
    y = torch.multinomial(p, 1).squeeze(1)
    sharper = p.square() / p.square().sum(1, keepdim=True)
    for equal in ("width", "mass"):
        assert calibration.expected_calibration_error(p, y, equal=equal) < 0.01
        assert calibration.expected_calibration_error(sharper, y, equal=equal) > 0.05


@given(predicted())
def test_brier_score_is_the_loops_and_scikit_learns(sample: Predicted) -> None:
    expected = sum(
        sum((p - (label == y)) ** 2 for label, p in enumerate(row))
        for row, y in zip(sample.p.tolist(), sample.y.tolist(), strict=True)
    ) / len(sample.y)
    got = calibration.brier_score(sample.p, sample.y)
    assert got == pytest.approx(expected, abs=1e-12)
    assert 0 <= got <= 2
    theirs = metrics.brier_score_loss(
        sample.y.numpy(), sample.p.numpy(), labels=list(range(sample.p.shape[1])), scale_by_half=False
    )
    assert got == pytest.approx(theirs, abs=1e-12)


@given(predicted())
def test_likelihood_is_scikit_learns(sample: Predicted) -> None:
    assume(sample.p.min() > 1e-15)
    expected = metrics.log_loss(sample.y.numpy(), sample.p.numpy(), labels=list(range(sample.p.shape[1])))
    assert calibration.negative_log_likelihood(sample.p, sample.y) == pytest.approx(expected, abs=1e-9)


def test_likelihood_of_a_probability_of_zero_is_finite() -> None:
    for dtype, largest in ((torch.float32, 87.34), (torch.float64, 708.4)):
        p = torch.tensor([[1.0, 0.0]], dtype=dtype)
        assert calibration.negative_log_likelihood(p, torch.tensor([1])) == pytest.approx(largest, abs=0.01)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_probabilities_of_every_precision_are_read_and_left_alone(dtype: torch.dtype) -> None:
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


def test_brier_score_keeps_its_digits_where_the_model_is_sure_and_right() -> None:
    p = torch.tensor([[1 - 1e-4, 1e-4]])
    assert calibration.brier_score(p, torch.tensor([0])) == pytest.approx(2e-8, rel=1e-2)


def test_binnings_that_make_no_sense_are_refused() -> None:
    p, y = torch.tensor([[0.5, 0.5]]), torch.tensor([0])
    with pytest.raises(ValueError, match="there are 0 bins: take one at least"):
        calibration.reliability_curve(p, y, bins=0)
    with pytest.raises(ValueError, match="bins of equal 'size' are unknown: take 'width' or 'mass'"):
        calibration.reliability_curve(p, y, equal="size")  # type: ignore[arg-type]
