"""Mixtures: EM against loops and scikit-learn, posteriors against scipy, and properties for any losses."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.mixture import GaussianMixture as SklearnMixture
from torch import Tensor

from permll.functional.mixture import (
    BetaMixture,
    GaussianMixture,
    Mixture,
    fit_beta_mixture,
    fit_gaussian_mixture,
    loss_percentile_range,
    mislabeled_posterior,
    scale_losses,
)

POSITIVE = st.floats(0.05, 20)


def two_components(rows: int = 300, upper: float = 0.4) -> Tensor:
    """Return values in (0, 1) from two Beta distributions, a fraction ``upper`` from the higher one."""
    random = np.random.default_rng(3)
    count = round(upper * rows)
    return torch.from_numpy(np.concatenate([random.beta(2, 9, rows - count), random.beta(6, 3, count)]))


def pair(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def slow_posterior(x: Tensor, mixture: Mixture) -> Tensor:
    if isinstance(mixture, GaussianMixture):
        both = [stats.norm.pdf(x, mixture.mean[k].item(), mixture.variance[k].sqrt().item()) for k in range(2)]
    else:
        both = [stats.beta.pdf(x, mixture.a[k].item(), mixture.b[k].item()) for k in range(2)]
    lower, upper = (mixture.weight[k].item() * both[k] for k in range(2))
    return torch.from_numpy(upper / (lower + upper))


# --- EM ------------------------------------------------------------------------------------------------------------


def slow_moments(x: list[float], responsibilities: list[float]) -> tuple[float, float, float]:
    total = sum(responsibilities)
    mean = sum(s * value for s, value in zip(responsibilities, x, strict=True)) / total
    return (
        mean,
        sum(s * (value - mean) ** 2 for s, value in zip(responsibilities, x, strict=True)) / total,
        total / len(x),
    )


def slow_responsibilities(joint: list[list[float]]) -> list[list[float]]:
    return [[component[i] / (joint[0][i] + joint[1][i]) for i in range(len(component))] for component in joint]


def slow_beta(x: list[float], steps: int) -> tuple[list[float], list[float], list[float]]:
    a, b, weight = [1.0, 2.0], [2.0, 1.0], [0.5, 0.5]
    for _ in range(steps):
        responsibilities = slow_responsibilities(
            [[weight[k] * f for f in stats.beta.pdf(x, a[k], b[k])] for k in range(2)]
        )
        for k in range(2):
            mean, variance, weight[k] = slow_moments(x, responsibilities[k])
            a[k] = mean * (mean * (1 - mean) / variance - 1)
            b[k] = a[k] * (1 - mean) / mean
    return a, b, weight


def slow_gaussian(
    x: list[float], groups: list[float], steps: int, reg_covar: float
) -> tuple[list[float], list[float], list[float]]:
    mean, variance, weight = [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]
    responsibilities = [[1 - g for g in groups], groups]
    for step in range(steps + 1):
        for k in range(2):
            mean[k], variance[k], weight[k] = slow_moments(x, responsibilities[k])
            variance[k] += reg_covar
        if step == steps:
            break
        both = [stats.norm.pdf(x, mean[k], math.sqrt(variance[k])) for k in range(2)]
        responsibilities = slow_responsibilities([[weight[k] * f for f in both[k]] for k in range(2)])
    return mean, variance, weight


@pytest.mark.parametrize("steps", [1, 3, 10])
def test_beta_em_matches_loops(steps: int) -> None:
    x = two_components(60)
    fit = fit_beta_mixture(x, steps=steps)
    assert fit is not None
    for ours, slow in zip(fit, slow_beta(x.tolist(), steps), strict=True):
        torch.testing.assert_close(ours, pair(*slow))


@pytest.mark.parametrize("steps", [1, 4])
def test_gaussian_em_matches_loops(steps: int) -> None:
    x = torch.cat([two_components(60), two_components(20) + 1])
    values = x.tolist()
    middle, before = sum(values) / len(values), math.inf
    while middle != before:
        parts = [v for v in values if v <= middle], [v for v in values if v > middle]
        before, middle = middle, sum(sum(part) / len(part) for part in parts) / 2
    groups = [float(v > middle) for v in values]
    fit = fit_gaussian_mixture(x, max_steps=steps, tolerance=0.0, reg_covar=1e-4)
    assert fit is not None
    for ours, slow in zip(fit, slow_gaussian(values, groups, steps, 1e-4), strict=True):
        torch.testing.assert_close(ours, pair(*slow))


@pytest.mark.parametrize(("steps", "tolerance", "reg_covar"), [(10, 1e-2, 5e-4), (100, 1e-3, 1e-6)])
@pytest.mark.parametrize("upper", [0.1, 0.5, 0.8])
def test_gaussian_em_matches_sklearn_from_same_start(
    steps: int, tolerance: float, reg_covar: float, upper: float
) -> None:
    x = two_components(2000, upper)
    start, fit = (fit_gaussian_mixture(x, max_steps=n, tolerance=tolerance, reg_covar=reg_covar) for n in (0, steps))
    assert start is not None
    assert fit is not None
    sklearn_fit = SklearnMixture(
        2,
        max_iter=steps,
        tol=tolerance,
        reg_covar=reg_covar,
        weights_init=start.weight.numpy(),
        means_init=start.mean.numpy()[:, None],
        precisions_init=1 / start.variance.numpy()[:, None, None],
        random_state=0,
    ).fit(x.numpy()[:, None])
    parts = sklearn_fit.means_[:, 0], sklearn_fit.covariances_[:, 0, 0], sklearn_fit.weights_
    for ours, part in zip(fit, parts, strict=True):
        np.testing.assert_allclose(ours.numpy(), part, rtol=1e-9)
    posterior = mislabeled_posterior(x, fit, monotone=False)
    np.testing.assert_allclose(posterior.numpy(), sklearn_fit.predict_proba(x.numpy()[:, None])[:, 1], atol=1e-9)


def test_gaussian_em_converges_to_sklearn_optimum() -> None:
    x = two_components(2000)
    fit = fit_gaussian_mixture(x, max_steps=3000, tolerance=1e-13)
    assert fit is not None
    sklearn_fit = SklearnMixture(2, max_iter=3000, tol=1e-13, random_state=0).fit(x.numpy()[:, None])
    np.testing.assert_allclose(fit.mean.numpy(), np.sort(sklearn_fit.means_[:, 0]), rtol=1e-5)


def test_fits_recover_true_mixtures() -> None:
    random = np.random.default_rng(0)
    normal = torch.from_numpy(np.concatenate([random.normal(0.2, 0.05, 30_000), random.normal(0.8, 0.1, 10_000)]))
    gaussian = fit_gaussian_mixture(normal)
    assert gaussian is not None
    torch.testing.assert_close(gaussian.mean, pair(0.2, 0.8), atol=2e-3, rtol=0)
    torch.testing.assert_close(gaussian.variance.sqrt(), pair(0.05, 0.1), atol=2e-3, rtol=0)
    torch.testing.assert_close(gaussian.weight, pair(0.75, 0.25), atol=2e-3, rtol=0)
    values = torch.from_numpy(np.concatenate([random.beta(2, 20, 30_000), random.beta(12, 4, 10_000)]))
    beta = fit_beta_mixture(values, steps=50)
    assert beta is not None
    torch.testing.assert_close(beta.mean, pair(2 / 22, 12 / 16), atol=5e-3, rtol=0)
    torch.testing.assert_close(beta.weight, pair(0.75, 0.25), atol=5e-3, rtol=0)
    torch.testing.assert_close(beta.a, pair(2, 12), atol=0, rtol=0.1)


# --- Posterior -----------------------------------------------------------------------------------------------------


@st.composite
def gaussians(draw: st.DrawFn) -> GaussianMixture:
    mean = sorted([draw(st.floats(-3, 3)), draw(st.floats(-3, 3))])
    weight = draw(st.floats(0.01, 0.99))
    return GaussianMixture(pair(*mean), pair(draw(POSITIVE), draw(POSITIVE)), pair(1 - weight, weight))


@st.composite
def betas(draw: st.DrawFn) -> BetaMixture:
    shapes = sorted([(draw(POSITIVE), draw(POSITIVE)) for _ in range(2)], key=lambda ab: ab[0] / (ab[0] + ab[1]))
    weight = draw(st.floats(0.01, 0.99))
    (a0, b0), (a1, b1) = shapes
    return BetaMixture(pair(a0, a1), pair(b0, b1), pair(1 - weight, weight))


@given(st.one_of(gaussians(), betas()))
def test_posterior_is_ratio_of_densities(mixture: Mixture) -> None:
    x = torch.linspace(0.02, 0.98, 9, dtype=torch.float64)
    expected = slow_posterior(x, mixture)
    torch.testing.assert_close(mislabeled_posterior(x, mixture, monotone=False), expected, atol=1e-9, rtol=1e-7)


@given(st.one_of(gaussians(), betas()))
def test_monotone_posterior_is_held_at_extremum(mixture: Mixture) -> None:
    x = torch.linspace(0.001, 0.999, 2001, dtype=torch.float64)
    if isinstance(mixture, GaussianMixture):
        x = 40 * x - 20
    plain, monotone_posterior = (mislabeled_posterior(x, mixture, monotone=monotone) for monotone in (False, True))
    assert bool((monotone_posterior.diff() >= -1e-12).all())
    low, high = mixture.increasing_interval()
    inside = (x >= low) & (x <= high)
    assert torch.equal(monotone_posterior[inside], plain[inside])
    # Running maximum, or running minimum from above, depending on the side of the extremum.
    carried = plain.cummax(0).values if high < x[-1] else plain.flip(0).cummin(0).values.flip(0)
    torch.testing.assert_close(monotone_posterior, carried, atol=1e-3, rtol=0)


@given(betas())
def test_posterior_matches_lookup_table_of_m_correction(mixture: BetaMixture) -> None:
    """The authors use a table of 100 entries that is constant beyond its maximum."""
    x = torch.linspace(1e-3, 1 - 1e-3, 100, dtype=torch.float64)
    table = mislabeled_posterior(x, mixture, monotone=False)
    table[table.argmax() :] = table.max()
    if mixture.increasing_interval()[0] == 0:
        torch.testing.assert_close(mislabeled_posterior(x, mixture), table, atol=2e-2, rtol=0)


def test_posterior_without_upper_component_is_zero() -> None:
    lower_only = BetaMixture(pair(1, 1), pair(1, 1), pair(1, 0))
    assert torch.equal(mislabeled_posterior(torch.rand(5), lower_only), torch.zeros(5))


@given(st.one_of(gaussians(), betas()), st.lists(st.integers(0, 3), max_size=3))
def test_posterior_has_shape_of_losses(mixture: Mixture, shape: list[int]) -> None:
    assert mislabeled_posterior(torch.full(shape, 0.5), mixture).shape == tuple(shape)


@pytest.mark.parametrize("value", [0.3, 0.3 + 1e-11])
def test_nearly_equal_values_form_two_clusters(value: float) -> None:
    x = torch.full((100_000,), value, dtype=torch.float64)
    x[7] = 0.3 if value > 0.3 else 0.3 + 1e-11
    mixture = fit_gaussian_mixture(x, max_steps=0)
    assert mixture is not None
    assert mixture.weight.min().item() == pytest.approx(1e-5)


# --- Edge cases ----------------------------------------------------------------------------------------------------


NEARLY_EQUAL = st.sampled_from([0.0, 1.0, 0.5, 0.3, 0.3 + 1e-11, 0.3 + 1e-15])


@given(st.lists(st.one_of(st.floats(0, 1), NEARLY_EQUAL), max_size=40))
def test_fit_is_finite_or_none(values: list[float]) -> None:
    x = torch.tensor(values, dtype=torch.float64)
    gaussian, beta = fit_gaussian_mixture(x), fit_beta_mixture(x)
    assert (gaussian is None) == (len(values) < 2 or max(values) - min(values) <= 1e-12 * max(values))
    for mixture in (gaussian, beta):
        if mixture is None:
            continue
        assert all(bool(part.isfinite().all()) for part in mixture)
        assert mixture.mean[0] <= mixture.mean[1]
        assert mixture.weight.sum().item() == pytest.approx(1)
        assert bool((mixture.weight > 0).all())
        posterior = mislabeled_posterior(x.clamp(1e-3, 1 - 1e-3), mixture)
        assert bool(((posterior >= 0) & (posterior <= 1)).all())
    if gaussian is not None:
        assert bool((gaussian.variance >= 1e-6).all())
    if beta is not None:
        assert bool((beta.a > 0).all())
        assert bool((beta.b > 0).all())


def test_fit_ignores_nonfinite_values() -> None:
    x = two_components()
    with_nonfinite = torch.cat([x[:100], pair(math.nan, math.inf, -math.inf), x[100:]])
    for fit in (fit_gaussian_mixture, fit_beta_mixture):
        for ours, without in zip(fit(with_nonfinite), fit(x), strict=True):  # type: ignore[arg-type]
            assert torch.equal(ours, without)
        assert fit(pair(math.nan, math.inf)) is None
        assert fit(torch.empty(0)) is None
        assert fit(torch.full((50,), 0.3)) is None


def test_fit_does_not_depend_on_order() -> None:
    x = two_components()
    for fit in (fit_gaussian_mixture, fit_beta_mixture):
        for one, other in zip(fit(x), fit(x[torch.randperm(len(x))]), strict=True):  # type: ignore[arg-type]
            torch.testing.assert_close(one, other)


def test_fit_of_constant_component() -> None:
    x = torch.cat([torch.full((90,), 0.001), torch.linspace(0.5, 0.9, 10)])
    for fit in (fit_gaussian_mixture, fit_beta_mixture):
        mixture = fit(x)
        assert mixture is not None
        posterior = mislabeled_posterior(x, mixture)
        assert bool((posterior[:90] < 0.01).all())
        assert bool((posterior[90:] > 0.95).all())


def test_merged_components_give_none() -> None:
    x = torch.cat([torch.linspace(0.0, 0.2, 50), torch.linspace(0.7, 0.9, 25)])
    assert fit_beta_mixture(x) is not None
    assert fit_beta_mixture(x, steps=200) is None


# --- Scaling -------------------------------------------------------------------------------------------------------


def test_scale_losses_by_percentiles() -> None:
    losses = 5 * torch.rand(333)
    low, high = loss_percentile_range(losses)
    expected = np.percentile(losses.double().numpy(), (5, 95))
    assert (low, high) == pytest.approx(tuple(expected))
    for loss, scaled in zip(losses.tolist(), scale_losses(losses, low, high).tolist(), strict=True):
        assert scaled == pytest.approx(min(max((loss - low) / (high - low + 1e-6), 1e-3), 1 - 1e-3), abs=1e-6)


def test_equal_or_nonfinite_losses_give_no_mixture() -> None:
    for losses in (torch.full((9,), 0.7), torch.full((9,), math.nan), torch.empty(0)):
        scaled = scale_losses(losses, *loss_percentile_range(losses))
        assert fit_beta_mixture(scaled) is None
        assert fit_gaussian_mixture(scaled) is None
