"""ELR and SOP against loops over samples and classes, and their gradients against formulas."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from permll.functional.prediction_memory import (
    elr_regularizer,
    elr_reweighted_labels,
    elr_target,
    normalize_rows,
    sop_corrected_labels,
    sop_cross_entropy,
    sop_noise,
    sop_squared_error,
)
from tests.helpers.layer_strategies import Samples, samples
from tests.helpers.pure_python import softmax

EXACT = {"rtol": 1e-12, "atol": 1e-12}
MODERATE = samples(max_classes=12, logit_scales=(0.01, 1.0, 3.0))


def sop_parameters(sample: Samples) -> tuple[Tensor, Tensor]:
    """Return u and v in [-1, 1]."""
    return sample.alpha[:, 0].tanh(), sample.alpha.tanh()


def test_normalize_rows_replaces_zero_rows() -> None:
    rows = torch.tensor([[0.0, 0.0, 0.0], [1e-30, 3e-30, 0.0], [2.0, 1.0, 1.0]], dtype=torch.float64)
    fallback = torch.tensor([[0.0, 1.0, 0.0]] * 3, dtype=torch.float64)
    expected = torch.tensor([[0.0, 1.0, 0.0], [0.25, 0.75, 0.0], [0.5, 0.25, 0.25]], dtype=torch.float64)
    assert_close(normalize_rows(rows, fallback), expected, **EXACT)


def test_elr_reweighted_labels() -> None:
    labels = torch.tensor([[0.7, 0.3, 0.0], [0.7, 0.3, 0.0], [1.0, 0.0, 0.0]], dtype=torch.float64)
    target = torch.tensor([[0.1, 0.8, 0.1], [0.0, 0.0, 1.0], [0.2, 0.1, 0.4]], dtype=torch.float64)
    first = [0.07 / 0.31, 0.24 / 0.31, 0.0]
    expected = torch.tensor([first, [0.7, 0.3, 0.0], [1.0, 0.0, 0.0]], dtype=torch.float64)
    assert_close(elr_reweighted_labels(labels, target), expected, **EXACT)


@given(samples(max_classes=12), st.sampled_from([0.0, 0.5, 0.7, 0.99]))
def test_elr_matches_loops(sample: Samples, beta: float) -> None:
    target = sample.alpha.softmax(-1)
    got, regularizer = elr_target(target, sample.logits, beta), elr_regularizer(target, sample.logits)
    for row, (t, logits) in enumerate(zip(target.tolist(), sample.logits, strict=True)):
        p = [min(max(x, 1e-4), 1 - 1e-4) for x in softmax(logits)]
        for k, t_k in enumerate(t):
            assert float(got[row, k]) == pytest.approx(beta * t_k + (1 - beta) * p[k] / sum(p), rel=1e-12)
        inner = sum(t_k * p_k for t_k, p_k in zip(t, p, strict=True))
        assert float(regularizer[row]) == pytest.approx(math.log(1 - inner), rel=1e-9, abs=1e-12)


@given(MODERATE)
def test_elr_gradient(sample: Samples) -> None:
    logits, t = sample.logits.clone().requires_grad_(), sample.alpha.softmax(-1)
    p = sample.logits.softmax(-1)
    (got,) = torch.autograd.grad(elr_regularizer(t, logits).sum(), logits)
    inside = ((p > 1e-4) & (p < 1 - 1e-4)).all(-1)
    for row in inside.nonzero()[:, 0].tolist():
        inner = float(t[row] @ p[row])
        for k in range(p.shape[1]):
            weighted_difference = sum(float((t[row, j] - t[row, k]) * p[row, j]) for j in range(p.shape[1]))
            assert float(got[row, k]) == pytest.approx(
                float(p[row, k]) * weighted_difference / (1 - inner), rel=1e-9, abs=1e-12
            )


def test_elr_target_sum_and_no_gradient() -> None:
    logits = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    t = torch.zeros(3, 4, dtype=torch.float64)
    for updates in range(1, 6):
        t = elr_target(t, logits, beta=0.7)
        assert_close(t.sum(-1), torch.full((3,), 1 - 0.7**updates, dtype=torch.float64))
    assert not t.requires_grad


@pytest.mark.parametrize("classes", [2, 1000])
def test_elr_regularizer_is_bounded(classes: int) -> None:
    logits = torch.full((1, classes), -500.0)
    logits[0, 0] = 500.0
    t = torch.nn.functional.one_hot(torch.tensor([0]), classes).float()
    regularizer = elr_regularizer(t, logits.requires_grad_())
    assert_close(regularizer, torch.tensor([math.log(1e-4)]), rtol=1e-3, atol=0.0)
    assert torch.autograd.grad(regularizer.sum(), logits)[0].isfinite().all()


@given(samples(max_classes=12))
def test_sop_matches_loops(sample: Samples) -> None:
    u, v = sop_parameters(sample)
    noise = sop_noise(u, v, sample.labels)
    fit = sop_cross_entropy(sample.logits, noise, sample.labels)
    error = sop_squared_error(sample.logits, noise, sample.labels)
    for row, (logits, y) in enumerate(zip(sample.logits, sample.labels.tolist(), strict=True)):
        classes = range(len(logits))
        s = [float(u[row]) ** 2 if k == y else -(float(v[row, k]) ** 2) for k in classes]
        assert_close(noise[row], torch.tensor(s, dtype=torch.float64), **EXACT)
        q = [max(p + s_k, 1e-4) for p, s_k in zip(softmax(logits), s, strict=True)]
        assert float(fit[row]) == pytest.approx(-math.log(max(q[y] / sum(q), 1e-4)), rel=1e-9, abs=1e-12)
        predicted = max(classes, key=lambda k: float(logits[k]))
        squares = [((k == predicted) + s[k] - (k == y)) ** 2 for k in classes]
        assert float(error[row]) == pytest.approx(sum(squares), rel=1e-12, abs=1e-12)


@given(MODERATE)
def test_sop_gradients(sample: Samples) -> None:
    u, v = (rows.clone().requires_grad_() for rows in sop_parameters(sample))
    logits, labels = sample.logits.clone().requires_grad_(), sample.labels
    p, y = sample.logits.softmax(-1), labels[:, None]
    noise = sop_noise(u, v, labels)
    fit = sop_cross_entropy(logits, noise, labels)
    by_u, by_logits = torch.autograd.grad(fit.sum(), (u, logits), retain_graph=True)
    above = ((p + noise.detach() > 1e-4).all(-1)).nonzero()[:, 0]
    z = (p + noise.detach()).sum(-1)
    given_class = (p + noise.detach()).gather(-1, y)[:, 0]
    expected = -2 * u.detach() * (1 / given_class - 1 / z)
    assert_close(by_u[above], expected[above], rtol=1e-9, atol=1e-9)
    expected = p.gather(-1, y) / given_class[:, None] * (p - torch.zeros_like(p).scatter_(-1, y, 1.0))
    assert_close(by_logits[above], expected[above], rtol=1e-9, atol=1e-9)

    (by_v,) = torch.autograd.grad(sop_squared_error(logits, noise, labels).sum(), v)
    predicted = torch.nn.functional.one_hot(sample.logits.argmax(-1), p.shape[1])
    expected = -4 * v.detach() * (predicted - v.detach() ** 2)
    assert_close(by_v, expected.scatter(-1, y, 0.0), **EXACT)


def test_sop_without_noise_is_cross_entropy() -> None:
    logits, labels = torch.randn(5, 4, dtype=torch.float64), torch.tensor([0, 1, 2, 3, 0])
    got = sop_cross_entropy(logits, torch.zeros_like(logits), labels)
    assert_close(got, torch.nn.functional.cross_entropy(logits, labels, reduction="none"))


def test_sop_loss_of_label_explained_by_noise_is_zero() -> None:
    logits, labels = torch.tensor([[-20.0, 20.0, -20.0]]), torch.tensor([0])
    noise = sop_noise(torch.ones(1), torch.tensor([[0.0, 1.0, 0.0]]), labels)
    assert_close(sop_cross_entropy(logits, noise, labels), torch.zeros(1), rtol=0.0, atol=3e-4)
    assert_close(sop_squared_error(logits, noise, labels), torch.zeros(1))
    assert_close(sop_corrected_labels(noise, labels), torch.tensor([[0.0, 1.0, 0.0]]))


@given(samples(max_classes=12))
def test_sop_corrected_labels_are_probabilities(sample: Samples) -> None:
    u, v = sop_parameters(sample)
    got = sop_corrected_labels(sop_noise(u, v, sample.labels), sample.labels)
    assert_close(got.sum(-1), torch.ones(len(got), dtype=torch.float64), **EXACT)
    for row, y in enumerate(sample.labels.tolist()):
        rest = [1 - float(u[row]) ** 2 if k == y else float(v[row, k]) ** 2 for k in range(got.shape[1])]
        assert_close(got[row], torch.tensor(rest, dtype=torch.float64) / sum(rest), rtol=1e-9, atol=1e-12)


def test_sop_corrected_labels_fall_back_to_given_label() -> None:
    labels = torch.tensor([1, 0])
    noise = sop_noise(torch.ones(2), torch.zeros(2, 3), labels)
    assert_close(sop_corrected_labels(noise, labels), torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]))
