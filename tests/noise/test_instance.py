"""Instance-dependent noise: rates, dependence on the sample, and the published formulas."""

import numpy as np
import pytest

from permll.noise.instance import part_dependent, poly_margin


@pytest.fixture
def blobs() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 500)
    return random.normal(size=(2000, 6)) + 3 * np.eye(4, 6)[labels], labels


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.4])
@pytest.mark.parametrize("shared", [True, False])
def test_part_dependent_rate_and_seed(blobs, rate: float, shared: bool) -> None:
    x, labels = blobs
    record = part_dependent(x, labels, 4, rate, seed=1, shared=shared)
    if rate:
        assert record.rate == pytest.approx(rate, abs=0.03)
    else:
        assert record.rate < 0.1  # the mean of a normal distribution around 0 truncated at 0 is positive
    assert (part_dependent(x, labels, 4, rate, seed=1, shared=shared).noisy == record.noisy).all()
    assert (part_dependent(x, labels, 4, rate, seed=2, shared=shared).noisy != record.noisy).any()


def test_part_dependent_large_features_give_one_wrong_class(blobs) -> None:
    """With a nearly one-hot softmax, as for raw pixels, the wrong class depends on the sample only."""
    x, labels = blobs
    x = np.repeat(x[:50], 40, axis=0)
    labels = np.repeat(labels[:50], 40)
    record = part_dependent(1000 * x, labels, 4, 0.5, seed=3)
    wrong = [set(record.noisy[k * 40 : k * 40 + 40]) - {labels[k * 40]} for k in range(50)]
    assert all(len(classes) == 1 for classes in wrong)
    assert len(set.union(*wrong)) > 1


@pytest.mark.parametrize("kind", ["I", "II", "III"])
def test_poly_margin_matches_formula(kind: str) -> None:
    """The fraction of samples that get the most probable class is (1 - tau) / factor."""
    margins = np.array([0.05, 0.3, 0.7, 1.0])
    p = np.stack([(1 + margins) / 2, (1 - margins) / 2], 1)
    record = poly_margin(np.repeat(p, 20_000, axis=0), np.zeros(80_000, dtype=int), kind, 1.25, seed=0)
    fractions = (record.noisy.reshape(4, -1) == 0).mean(1)
    for fraction, m in zip(fractions, margins, strict=True):
        tau = {"I": 0.5 - 0.5 * m * m, "II": 1 - m**3, "III": 1 - (m**3 + m**2 + m) / 3}[kind]
        keep = max(1 - tau, 0.5) if kind == "I" else 1 - tau
        assert fraction == pytest.approx(keep / 1.25, abs=0.015)
    assert set(record.noisy) == {0, 1}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: part_dependent([[np.nan], [0.0]], [0, 1], 2, 0.2, 0), "features of sample 0 are NaN or infinite"),
        (lambda: part_dependent([[1.0], [0.0]], [0, 1], 2, 1.2, 0), "rate must lie in"),
        (lambda: poly_margin([[0.5, 0.5]], [0], "IV", 1.0, 0), "kind must be one of I, II, III; got 'IV'"),
    ],
)
def test_instance_noise_refuses_invalid_input(build, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()
