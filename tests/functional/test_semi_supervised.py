"""Targets and losses against loops, DivideMix's mixture against scikit-learn, λ_u against the authors' table."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.mixture import GaussianMixture
from torch import Tensor

from permll.functional.mixture import min_max_scale
from permll.functional.semi_supervised import (
    co_guess_labels,
    co_refine_labels,
    dividemix_unlabeled_weight,
    gmm_clean_probability,
    sharpen,
    softmax_mse_loss,
    trusted_label_mask,
)
from tests.helpers.pure_python import softmax


def slow_sharpen(row: list[float], temperature: float) -> list[float]:
    powers = [p ** (1 / temperature) for p in row]
    return [power / sum(powers) for power in powers]


# --- Targets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.5, 0.3, 1.0, 2.0])
def test_sharpen_matches_loops(temperature: float) -> None:
    p = torch.randn(6, 4, dtype=torch.float64).softmax(-1)
    for result, row in zip(sharpen(p, temperature).tolist(), p.tolist(), strict=True):
        assert result == pytest.approx(slow_sharpen(row, temperature))


@given(st.lists(st.floats(0, 1), min_size=2, max_size=6).filter(lambda row: sum(row) > 0), st.floats(1e-3, 1))
def test_sharpen_keeps_order_and_sums_to_one(row: list[float], temperature: float) -> None:
    p = torch.tensor([row], dtype=torch.float64)
    sharp = sharpen(p / p.sum(), temperature)
    assert sharp.sum().item() == pytest.approx(1)
    assert sharp.max() >= (p / p.sum()).max() - 1e-12
    assert sharp[0, p[0].argmax()] == sharp.max()


def test_sharpen_of_extreme_rows() -> None:
    assert sharpen(torch.tensor([[1.0, 0.0]]), 1e-3).tolist() == [[1.0, 0.0]]
    assert sharpen(torch.tensor([[1e-30, 3e-30]]), 0.5)[0].tolist() == pytest.approx([0.1, 0.9], rel=1e-5)


def test_co_guess_labels_match_loops() -> None:
    logits = torch.randn(4, 5, 3, dtype=torch.float64)
    result = co_guess_labels(logits, 0.5)
    for i in range(5):
        predictions = [softmax(logits[n, i].tolist()) for n in range(4)]
        mean = [sum(p[k] for p in predictions) / 4 for k in range(3)]
        assert result[i].tolist() == pytest.approx(slow_sharpen(mean, 0.5))


def test_co_refine_labels_match_loops() -> None:
    logits, labels = torch.randn(2, 5, 3, dtype=torch.float64), torch.tensor([0, 2, 1, 1, 0])
    clean_probs = torch.tensor([1.0, 0.0, 0.3, 0.9, 0.5], dtype=torch.float64)
    result = co_refine_labels(labels, logits, clean_probs, 0.5)
    for i, (y, w) in enumerate(zip(labels.tolist(), clean_probs.tolist(), strict=True)):
        predictions = [softmax(logits[n, i].tolist()) for n in range(2)]
        mixed = [w * (k == y) + (1 - w) * sum(p[k] for p in predictions) / 2 for k in range(3)]
        assert result[i].tolist() == pytest.approx(slow_sharpen(mixed, 0.5))
    assert result[0].tolist() == [1.0, 0.0, 0.0]


# --- Losses --------------------------------------------------------------------------------------------------------


def test_softmax_mse_loss_matches_loops() -> None:
    logits, targets = torch.randn(6, 4, dtype=torch.float64), torch.rand(6, 4, dtype=torch.float64)
    result = softmax_mse_loss(logits, targets)
    for i in range(6):
        p = softmax(logits[i].tolist())
        assert result[i].item() == pytest.approx(sum((p[k] - targets[i, k].item()) ** 2 for k in range(4)) / 4)


def test_softmax_mse_loss_gradient() -> None:
    logits = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    targets = torch.rand(6, 4, dtype=torch.float64).softmax(-1)
    softmax_mse_loss(logits, targets).sum().backward()
    p = logits.detach().softmax(-1)
    d = p - targets
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad, 2 / 4 * p * (d - (p * d).sum(-1, keepdim=True)))


# --- Loss mixture --------------------------------------------------------------------------------------------------


def two_component_losses(rows: int, upper: float) -> Tensor:
    random = np.random.default_rng(3)
    wrong = random.random(rows) < upper
    return torch.from_numpy(np.where(wrong, random.normal(4.0, 0.8, rows), random.gamma(1.0, 0.4, rows))).float()


@pytest.mark.parametrize("upper", [0.1, 0.4, 0.7])
def test_gmm_clean_probability_matches_sklearn(upper: float) -> None:
    losses = two_component_losses(3000, upper)
    scaled = (losses - losses.min()) / (losses.max() - losses.min())
    torch.testing.assert_close(min_max_scale(losses), scaled)
    sklearn_fit = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=0).fit(scaled.numpy()[:, None])
    expected = sklearn_fit.predict_proba(scaled.numpy()[:, None])[:, sklearn_fit.means_[:, 0].argmin()]
    result = gmm_clean_probability(scaled)
    assert result is not None
    assert ((result > 0.5).numpy() == (expected > 0.5)).mean() > 0.995
    # At the ends scikit-learn's posterior may increase with the loss, ours is constant.
    middle = (scaled.numpy() > np.quantile(scaled, 0.1)) & (scaled.numpy() < np.quantile(scaled, 0.9))
    np.testing.assert_allclose(result.numpy()[middle], expected[middle], atol=0.02)


@given(st.lists(st.floats(0, 1), min_size=4, max_size=30))
def test_gmm_clean_probability_is_monotone(values: list[float]) -> None:
    losses = torch.tensor(values, dtype=torch.float64)
    clean_probs = gmm_clean_probability(losses)
    if clean_probs is not None:
        assert bool(((clean_probs >= 0) & (clean_probs <= 1)).all())
        assert bool((clean_probs[losses.argsort()].diff() <= 1e-9).all())


def test_gmm_clean_probability_of_nonfinite_losses_is_zero() -> None:
    losses = two_component_losses(300, 0.4)
    broken = torch.cat([losses, torch.tensor([torch.nan, torch.inf])])
    scaled = min_max_scale(broken)
    assert scaled[:300].equal(min_max_scale(losses))
    with_nonfinite, without = gmm_clean_probability(scaled), gmm_clean_probability(scaled[:300])
    assert with_nonfinite is not None
    assert without is not None
    assert torch.equal(with_nonfinite[:300], without)
    assert with_nonfinite[300].item() == 0
    assert with_nonfinite[301].item() < 0.5


def test_equal_losses_give_no_mixture() -> None:
    assert min_max_scale(torch.full((4,), 2.0)).tolist() == [0.0] * 4
    assert gmm_clean_probability(torch.zeros(4)) is None
    assert bool(min_max_scale(torch.tensor([torch.nan, torch.nan])).isnan().all())


def test_trusted_label_mask_has_minimum_count() -> None:
    clean_probs = torch.tensor([0.1, 0.6, 0.3, 0.3, 0.9])
    assert trusted_label_mask(clean_probs, 0.5, 2).tolist() == [False, True, False, False, True]
    assert trusted_label_mask(clean_probs, 0.5, 3).tolist() == [False, True, True, False, True], (
        "ties are resolved by position"
    )
    assert trusted_label_mask(torch.zeros(3), 0.5, 2).tolist() == [True, True, False]


# --- λ_u -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("classes", "rate", "expected"),
    [(10, 0.18, 0), (10, 0.2, 0), (10, 0.45, 25), (10, 0.72, 25), (100, 0.2, 25), (100, 0.5, 150), (100, 0.9, 150)],
)
def test_dividemix_unlabeled_weight_matches_table_of_authors(classes: int, rate: float, expected: float) -> None:
    assert dividemix_unlabeled_weight(rate, classes) == pytest.approx(expected)


@given(st.integers(2, 1000), st.floats(0, 1), st.floats(0, 1))
def test_dividemix_unlabeled_weight_is_monotone(classes: int, one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert 0 <= dividemix_unlabeled_weight(low, classes) <= dividemix_unlabeled_weight(high, classes)
    assert dividemix_unlabeled_weight(low, classes) <= dividemix_unlabeled_weight(low, classes + 1)
