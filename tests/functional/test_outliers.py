"""Outlier scores against slow versions, on clean samples and on planted outliers."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.metrics import average_precision_score
from torch import Tensor

from permll.functional.outliers import is_outlier, outlier_scores, robust_score, whiten


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_score_is_that_of_a_slow_version() -> None:
    x, max_probs = normal(400, 6) @ normal(6, 6, seed=1), torch.rand(400, generator=torch.Generator().manual_seed(2))
    w = slow_whiten(x.double().numpy())
    distances = np.sort(np.linalg.norm(w[:, None] - w, axis=2), 1)[:, 10]  # the first is its own
    values = np.log(distances)
    mad = np.median(np.abs(values - lower_median(values)))
    spread = max(1.4826 * mad, np.quantile(values - lower_median(values), 0.9) / 1.2816)
    z = (values - lower_median(values)) / spread
    uncertainty = (1 - max_probs.numpy()) * 3 / 2
    expected = 1 / (1 + np.exp(-(z + np.clip(uncertainty, 0, 1) - 3.5)))
    np.testing.assert_allclose(outlier_scores(x, max_probs, 3).numpy(), expected, rtol=0.02, atol=1e-4)


def lower_median(values: np.ndarray) -> float:  # type: ignore[type-arg]
    return float(np.sort(values)[(len(values) - 1) // 2])


def slow_whiten(x: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    def fit(sample: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
        values, vectors = np.linalg.eigh(np.cov(sample.T, bias=True))
        return sample.mean(0), vectors / np.sqrt(values + 0.01 * values.mean())

    mean, transform = fit(x)
    norms = np.linalg.norm((x - mean) @ transform, axis=1)
    mean, transform = fit(x[norms <= np.quantile(norms, 0.98)])
    return (x - mean) @ transform


CLEAN = {
    **{f"normal{d}": normal(3000, d).numpy() for d in (2, 10, 100)},
    "lognormal": normal(3000, 8).exp().numpy(),
    "categories": np.random.default_rng(0).integers(0, 3, (3000, 6)).astype(float),
    "iris": load_iris().data,
    "wine": load_wine().data,
    "breast": load_breast_cancer().data,
    "digits": load_digits().data / 16,
}


def standardized(x: np.ndarray) -> Tensor:  # type: ignore[type-arg]
    if x.min() == 0 and x.max() == 1:  # pixels
        return torch.from_numpy(x.astype(np.float32))
    return torch.from_numpy(((x - x.mean(0)) / np.maximum(x.std(0), 1e-9)).astype(np.float32))


@pytest.mark.parametrize("name", CLEAN)
def test_few_clean_samples_are_flagged(name: str) -> None:
    assert float(is_outlier(outlier_scores(standardized(CLEAN[name]))).double().mean()) < 0.02


@pytest.mark.parametrize("name", ["iris", "wine", "breast", "digits"])
def test_planted_outliers_are_found(name: str) -> None:
    x = standardized(CLEAN[name])
    planted = normal(max(len(x) // 100, 2), x.shape[1]) * 6 * x.std(0)
    scores = outlier_scores(torch.cat([x, planted]))
    truth = np.arange(len(scores)) >= len(x)
    assert average_precision_score(truth, scores) > 0.8
    assert is_outlier(scores)[truth].double().mean() > 0.7


def test_uncertain_predictions_raise_the_score() -> None:
    x = normal(200, 5)
    certain, uncertain = outlier_scores(x, torch.ones(200), 4), outlier_scores(x, torch.full((200,), 0.25), 4)
    assert torch.equal(certain, outlier_scores(x))
    torch.testing.assert_close(uncertain.logit() - certain.logit(), torch.ones(200), atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("x", [torch.zeros(100, 4), normal(1, 3).expand(100, 3), normal(50, 1).expand(50, 3)])
def test_degenerate_features_have_finite_scores(x: Tensor) -> None:
    scores = outlier_scores(x)
    assert scores.isfinite().all()
    assert not is_outlier(outlier_scores(torch.zeros(100, 4))).any()


def test_few_samples_have_no_score() -> None:
    assert outlier_scores(normal(29, 3)).isnan().all()
    assert not is_outlier(outlier_scores(normal(29, 3))).any()
    assert outlier_scores(torch.empty(0, 3)).shape == (0,)


def test_whitening_makes_directions_equal() -> None:
    x = whiten(normal(4000, 4) @ torch.diag(torch.tensor([1.0, 10.0, 3.0, 5.0])) + 100)
    inner = x[(x.norm(dim=1) < 3)]
    np.testing.assert_allclose(inner.std(0) / inner.std(0).mean(), np.ones(4), atol=0.15)


def test_robust_score_of_values_that_do_not_vary() -> None:
    assert torch.equal(robust_score(torch.ones(10)), torch.zeros(10))
