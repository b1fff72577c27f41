"""``poly_margin_factor`` against the expected rate summed sample by sample."""

import numpy as np
import pytest

from permll.noise.instance import poly_margin, poly_margin_factor

KINDS = ("I", "II", "III")


def model_predictions(seed: int, sharpness: float = 3.0) -> tuple[np.ndarray, np.ndarray]:
    """Mostly correct predictions; some labels are the second most probable class or another one."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 5, 400)
    scores = random.normal(size=(400, 5)) + sharpness * np.eye(5)[labels]
    p = np.exp(scores)
    return p / p.sum(1, keepdims=True), labels


def expected_rate(p: np.ndarray, labels: np.ndarray, kind: str, factor: float) -> float:
    wrong = 0.0
    for row, label in zip(p, labels, strict=True):
        second, first = np.argsort(row)[-2:]
        m = row[first] - row[second]
        tau = {"I": 0.5 - 0.5 * m * m, "II": 1 - m**3, "III": 1 - (m**3 + m**2 + m) / 3}[kind]
        keep = min((1 - tau) / factor, 1.0)
        wrong += keep * (first != label) + (1 - keep) * (second != label)
    return wrong / len(labels)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rate", [0.2, 0.35, 0.7, 0.9])
@pytest.mark.parametrize("seed", range(3))
def test_poly_margin_factor_gives_rate(kind: str, rate: float, seed: int) -> None:
    p, labels = model_predictions(seed)
    factor = poly_margin_factor(p, labels, kind, rate)
    assert expected_rate(p, labels, kind, factor) == pytest.approx(rate, abs=1e-9)
    record = poly_margin(np.tile(p, (50, 1)), np.tile(labels, 50), kind, factor, seed=1)
    assert record.rate == pytest.approx(rate, abs=0.015)


def test_poly_margin_factor_of_one_sample() -> None:
    """m = 1/2, so type II keeps the label with probability 1/8 / factor: the rate is 15/16 at factor 2."""
    assert poly_margin_factor([[0.75, 0.25]], [0], "II", 15 / 16) == pytest.approx(2)


@pytest.mark.parametrize("kind", KINDS)
def test_poly_margin_factor_refuses_unreachable_rate(kind: str) -> None:
    p, _ = model_predictions(0)
    order = p.argsort(1)
    # The most probable class, or the third for a tenth: never the second, which noise would make correct.
    labels = np.where(np.arange(400) % 10 == 0, order[:, -3], order[:, -1])
    low, high = 0.1, 1.0
    message = "covers 10.00 % to just below 100.00 %"
    for rate in (low - 0.001, high, 1.1, -0.1, float("nan")):
        with pytest.raises(ValueError, match=message):
            poly_margin_factor(p, labels, kind, rate)
    # The lowest rate is attained; the highest is only approached.
    assert expected_rate(p, labels, kind, poly_margin_factor(p, labels, kind, low)) == pytest.approx(low, abs=1e-9)
    assert poly_margin_factor(p, labels, kind, high - 1e-6) > 1000


def test_poly_margin_factor_for_mostly_wrong_model() -> None:
    """The rate decreases with the factor if the second most probable class is correct more often."""
    p, _ = model_predictions(1, sharpness=0.3)
    truth = np.where(np.arange(400) % 3 == 0, p.argmax(1), p.argsort(1)[:, -2])
    for rate in (0.4, 0.5, 0.6):
        factor = poly_margin_factor(p, truth, "III", rate)
        assert expected_rate(p, truth, "III", factor) == pytest.approx(rate, abs=1e-9)


@pytest.mark.parametrize(
    ("p", "labels", "factor", "message"),
    [
        ([0.5, 0.5], [0], 1.0, r"probabilities must be finite numbers of shape \(N, c\)"),
        ([[np.nan, 0.5]], [0], 1.0, "probabilities must be finite"),
        ([[0.4, 0.6]], [0, 1], 1.0, "2 labels, 1 rows"),
        ([[0.4, 0.6]], [0], 0.0, "the factor must be positive, got 0"),
        ([[0.4, 0.6]], [0], float("nan"), "the factor must be positive"),
    ],
)
def test_poly_margin_refuses_invalid_input(p: list, labels: list[int], factor: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        poly_margin(p, labels, "I", factor, seed=0)
