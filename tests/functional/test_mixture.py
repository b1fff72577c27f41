"""Mixtures: EM against loops, against scikit-learn and scipy, and what must hold for any losses."""

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

positive = st.floats(0.05, 20)


def two_humps(rows: int = 300, upper: float = 0.4) -> Tensor:
    """Return values in (0, 1) around two places, with as many as ``upper`` says around the higher one."""
    random = np.random.default_rng(3)
    many = round(upper * rows)
    return torch.from_numpy(np.concatenate([random.beta(2, 9, rows - many), random.beta(6, 3, many)]))


def pair(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def slow_posterior(x: Tensor, mixture: Mixture) -> Tensor:
    if isinstance(mixture, GaussianMixture):
        both = [stats.norm.pdf(x, mixture.mean[k].item(), mixture.variance[k].sqrt().item()) for k in range(2)]
    else:
        both = [stats.beta.pdf(x, mixture.a[k].item(), mixture.b[k].item()) for k in range(2)]
    lower, upper = (mixture.weight[k].item() * both[k] for k in range(2))
    return torch.from_numpy(upper / (lower + upper))


# --- EM, written as it is taught -----------------------------------------------------------------------------------


def slow_moments(x: list[float], shares: list[float]) -> tuple[float, float, float]:
    total = sum(shares)
    mean = sum(s * value for s, value in zip(shares, x, strict=True)) / total
    return mean, sum(s * (value - mean) ** 2 for s, value in zip(shares, x, strict=True)) / total, total / len(x)


def slow_shares(joint: list[list[float]]) -> list[list[float]]:
    return [[hump[i] / (joint[0][i] + joint[1][i]) for i in range(len(hump))] for hump in joint]


def slow_beta(x: list[float], steps: int) -> tuple[list[float], list[float], list[float]]:
    a, b, weight = [1.0, 2.0], [2.0, 1.0], [0.5, 0.5]
    for _ in range(steps):
        shares = slow_shares([[weight[k] * f for f in stats.beta.pdf(x, a[k], b[k])] for k in range(2)])
        for k in range(2):
            mean, variance, weight[k] = slow_moments(x, shares[k])
            a[k] = mean * (mean * (1 - mean) / variance - 1)
            b[k] = a[k] * (1 - mean) / mean
    return a, b, weight


def slow_gaussian(
    x: list[float], groups: list[float], steps: int, floor: float
) -> tuple[list[float], list[float], list[float]]:
    mean, variance, weight = [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]
    shares = [[1 - g for g in groups], groups]
    for step in range(steps + 1):
        for k in range(2):
            mean[k], variance[k], weight[k] = slow_moments(x, shares[k])
            variance[k] += floor
        if step == steps:
            break
        both = [stats.norm.pdf(x, mean[k], math.sqrt(variance[k])) for k in range(2)]
        shares = slow_shares([[weight[k] * f for f in both[k]] for k in range(2)])
    return mean, variance, weight


@pytest.mark.parametrize("steps", [1, 3, 10])
def test_beta_em_is_what_loops_over_samples_do(steps: int) -> None:
    x = two_humps(60)
    found = fit_beta_mixture(x, steps=steps)
    assert found is not None
    for ours, slow in zip(found, slow_beta(x.tolist(), steps), strict=True):
        torch.testing.assert_close(ours, pair(*slow))


@pytest.mark.parametrize("steps", [1, 4])
def test_gaussian_em_is_what_loops_over_samples_do(steps: int) -> None:
    x = torch.cat([two_humps(60), two_humps(20) + 1])
    values = x.tolist()
    middle, before = sum(values) / len(values), math.inf
    while middle != before:
        parts = [v for v in values if v <= middle], [v for v in values if v > middle]
        before, middle = middle, sum(sum(part) / len(part) for part in parts) / 2
    groups = [float(v > middle) for v in values]
    found = fit_gaussian_mixture(x, steps=steps, tolerance=0.0, floor=1e-4)
    assert found is not None
    for ours, slow in zip(found, slow_gaussian(values, groups, steps, 1e-4), strict=True):
        torch.testing.assert_close(ours, pair(*slow))


@pytest.mark.parametrize(("steps", "tolerance", "floor"), [(10, 1e-2, 5e-4), (100, 1e-3, 1e-6)])
@pytest.mark.parametrize("upper", [0.1, 0.5, 0.8])
def test_gaussian_em_from_the_same_start_is_scikit_learns(
    steps: int, tolerance: float, floor: float, upper: float
) -> None:
    x = two_humps(2000, upper)
    start, found = (fit_gaussian_mixture(x, steps=n, tolerance=tolerance, floor=floor) for n in (0, steps))
    assert start is not None
    assert found is not None
    theirs = SklearnMixture(
        2,
        max_iter=steps,
        tol=tolerance,
        reg_covar=floor,
        weights_init=start.weight.numpy(),
        means_init=start.mean.numpy()[:, None],
        precisions_init=1 / start.variance.numpy()[:, None, None],
        random_state=0,
    ).fit(x.numpy()[:, None])
    parts = theirs.means_[:, 0], theirs.covariances_[:, 0, 0], theirs.weights_
    for ours, part in zip(found, parts, strict=True):
        np.testing.assert_allclose(ours.numpy(), part, rtol=1e-9)
    posterior = mislabeled_posterior(x, found, monotone=False)
    np.testing.assert_allclose(posterior.numpy(), theirs.predict_proba(x.numpy()[:, None])[:, 1], atol=1e-9)


def test_gaussian_em_ends_where_scikit_learns_does() -> None:
    x = two_humps(2000)
    found = fit_gaussian_mixture(x, steps=3000, tolerance=1e-13)
    assert found is not None
    theirs = SklearnMixture(2, max_iter=3000, tol=1e-13, random_state=0).fit(x.numpy()[:, None])
    np.testing.assert_allclose(found.mean.numpy(), np.sort(theirs.means_[:, 0]), rtol=1e-5)


def test_the_mixtures_that_made_the_values_are_found() -> None:
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


# --- The posterior -------------------------------------------------------------------------------------------------


@st.composite
def gaussians(draw: st.DrawFn) -> GaussianMixture:
    mean = sorted([draw(st.floats(-3, 3)), draw(st.floats(-3, 3))])
    weight = draw(st.floats(0.01, 0.99))
    return GaussianMixture(pair(*mean), pair(draw(positive), draw(positive)), pair(1 - weight, weight))


@st.composite
def betas(draw: st.DrawFn) -> BetaMixture:
    shapes = sorted([(draw(positive), draw(positive)) for _ in range(2)], key=lambda ab: ab[0] / (ab[0] + ab[1]))
    weight = draw(st.floats(0.01, 0.99))
    (a0, b0), (a1, b1) = shapes
    return BetaMixture(pair(a0, a1), pair(b0, b1), pair(1 - weight, weight))


@given(st.one_of(gaussians(), betas()))
def test_the_posterior_is_the_ratio_of_the_densities(mixture: Mixture) -> None:
    x = torch.linspace(0.02, 0.98, 9, dtype=torch.float64)
    expected = slow_posterior(x, mixture)
    torch.testing.assert_close(mislabeled_posterior(x, mixture, monotone=False), expected, atol=1e-9, rtol=1e-7)


@given(st.one_of(gaussians(), betas()))
def test_monotone_it_never_falls_and_is_held_at_its_extremum(mixture: Mixture) -> None:
    x = torch.linspace(0.001, 0.999, 2001, dtype=torch.float64)
    if isinstance(mixture, GaussianMixture):
        x = 40 * x - 20
    plain, mended = (mislabeled_posterior(x, mixture, monotone=monotone) for monotone in (False, True))
    assert bool((mended.diff() >= -1e-12).all())
    low, high = mixture.rising()
    inside = (x >= low) & (x <= high)
    assert torch.equal(mended[inside], plain[inside])
    # The slow way: carry on the highest value so far, or from above the lowest, whichever end the extremum is at.
    carried = plain.cummax(0).values if high < x[-1] else plain.flip(0).cummin(0).values.flip(0)
    torch.testing.assert_close(mended, carried, atol=1e-3, rtol=0)


@given(betas())
def test_the_authors_table_says_the_same(mixture: BetaMixture) -> None:
    """They hold a table of 100 places at its maximum from there on; where the maximum is inside, so do we."""
    x = torch.linspace(1e-3, 1 - 1e-3, 100, dtype=torch.float64)
    table = mislabeled_posterior(x, mixture, monotone=False)
    table[table.argmax() :] = table.max()
    if mixture.rising()[0] == 0:
        torch.testing.assert_close(mislabeled_posterior(x, mixture), table, atol=2e-2, rtol=0)


def test_a_mixture_without_an_upper_hump_finds_nothing_wrong() -> None:
    none = BetaMixture(pair(1, 1), pair(1, 1), pair(1, 0))
    assert torch.equal(mislabeled_posterior(torch.rand(5), none), torch.zeros(5))


@given(st.one_of(gaussians(), betas()), st.lists(st.integers(0, 3), max_size=3))
def test_the_posterior_has_the_shape_of_the_losses(mixture: Mixture, shape: list[int]) -> None:
    assert mislabeled_posterior(torch.full(shape, 0.5), mixture).shape == tuple(shape)


@pytest.mark.parametrize("many", [0.3, 0.3 + 1e-11])
def test_two_values_that_hardly_differ_are_two_groups(many: float) -> None:
    x = torch.full((100_000,), many, dtype=torch.float64)
    x[7] = 0.3 if many > 0.3 else 0.3 + 1e-11
    mixture = fit_gaussian_mixture(x, steps=0)
    assert mixture is not None
    assert mixture.weight.min().item() == pytest.approx(1e-5)


# --- Holes ---------------------------------------------------------------------------------------------------------


alike = st.sampled_from([0.0, 1.0, 0.5, 0.3, 0.3 + 1e-11, 0.3 + 1e-15])


@given(st.lists(st.one_of(st.floats(0, 1), alike), max_size=40))
def test_whatever_the_values_a_fit_is_finite_or_none(values: list[float]) -> None:
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


def test_values_that_are_none_are_left_out() -> None:
    x = two_humps()
    holes = torch.cat([x[:100], pair(math.nan, math.inf, -math.inf), x[100:]])
    for fit in (fit_gaussian_mixture, fit_beta_mixture):
        for ours, without in zip(fit(holes), fit(x), strict=True):  # type: ignore[arg-type]
            assert torch.equal(ours, without)
        assert fit(pair(math.nan, math.inf)) is None
        assert fit(torch.empty(0)) is None
        assert fit(torch.full((50,), 0.3)) is None


def test_the_order_of_the_samples_has_no_say() -> None:
    x = two_humps()
    for fit in (fit_gaussian_mixture, fit_beta_mixture):
        for one, other in zip(fit(x), fit(x[torch.randperm(len(x))]), strict=True):  # type: ignore[arg-type]
            torch.testing.assert_close(one, other)


def test_a_hump_at_one_place_keeps_a_width() -> None:
    x = torch.cat([torch.full((90,), 0.001), torch.linspace(0.5, 0.9, 10)])
    for fit in (fit_gaussian_mixture, fit_beta_mixture):
        mixture = fit(x)
        assert mixture is not None
        posterior = mislabeled_posterior(x, mixture)
        assert bool((posterior[:90] < 0.01).all())
        assert bool((posterior[90:] > 0.95).all())


def test_humps_that_fall_together_are_none() -> None:
    x = torch.cat([torch.linspace(0.0, 0.2, 50), torch.linspace(0.7, 0.9, 25)])
    assert fit_beta_mixture(x) is not None
    assert fit_beta_mixture(x, steps=200) is None


# --- Scaling -------------------------------------------------------------------------------------------------------


def test_losses_are_scaled_by_their_percentiles() -> None:
    losses = 5 * torch.rand(333)
    low, high = loss_percentile_range(losses)
    expected = np.percentile(losses.double().numpy(), (5, 95))
    assert (low, high) == pytest.approx(tuple(expected))
    for loss, scaled in zip(losses.tolist(), scale_losses(losses, low, high).tolist(), strict=True):
        assert scaled == pytest.approx(min(max((loss - low) / (high - low + 1e-6), 1e-3), 1 - 1e-3), abs=1e-6)


def test_losses_that_are_all_alike_or_none_give_no_mixture() -> None:
    for losses in (torch.full((9,), 0.7), torch.full((9,), math.nan), torch.empty(0)):
        scaled = scale_losses(losses, *loss_percentile_range(losses))
        assert fit_beta_mixture(scaled) is None
        assert fit_gaussian_mixture(scaled) is None
