"""PENCIL and joint optimization against loops, and their gradients against formulas."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from permll.functional.label_refurbishment import (
    class_prior_divergence,
    kl_divergence,
    pencil_compatibility_loss,
    pencil_loss,
    softmax_entropy,
)
from tests.helpers.layer_strategies import Samples, samples
from tests.helpers.pure_python import log_softmax

CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def kl(log_p: list[float], log_q: list[float]) -> float:
    return sum(math.exp(a) * (a - b) for a, b in zip(log_p, log_q, strict=True))


@given(samples(max_classes=12))
def test_entropy_and_kl_divergence_match_loops(sample: Samples) -> None:
    got, divergence = softmax_entropy(sample.logits), kl_divergence(sample.logits, sample.alpha)
    for row, (logits, other_logits) in enumerate(zip(sample.logits, sample.alpha, strict=True)):
        log_p = log_softmax(logits)
        assert float(got[row]) == pytest.approx(-sum(math.exp(x) * x for x in log_p), rel=1e-9, abs=1e-9)
        assert float(divergence[row]) == pytest.approx(kl(log_p, log_softmax(other_logits)), rel=1e-9, abs=1e-9)


@given(samples(max_classes=12, logit_scales=(0.01, 1.0, 10.0)))
def test_entropy_and_kl_divergence_gradients(sample: Samples) -> None:
    logits, other_logits = (x.clone().requires_grad_() for x in (sample.logits, sample.alpha))
    log_p, log_d = sample.logits.log_softmax(-1), sample.alpha.log_softmax(-1)
    p, d = log_p.exp(), log_d.exp()
    (by_logits,) = torch.autograd.grad(softmax_entropy(logits).sum(), logits)
    assert_close(by_logits, -p * (log_p + softmax_entropy(sample.logits)[:, None]), **CLOSE)
    divergence = kl_divergence(logits, other_logits)
    by_logits, by_other_logits = torch.autograd.grad(divergence.sum(), (logits, other_logits))
    assert_close(by_other_logits, d - p, **CLOSE)
    assert_close(by_logits, p * (log_p - log_d - divergence.detach()[:, None]), **CLOSE)


@given(samples(max_classes=12, logit_scales=(1.0,)), st.booleans())
def test_pencil_compatibility_matches_loops(sample: Samples, softened: bool) -> None:
    rows = sample.alpha.clone().requires_grad_()
    got = pencil_compatibility_loss(rows, sample.labels, softened=softened)
    (gradient,) = torch.autograd.grad(got.sum(), rows)
    for row, (label_logits, y) in enumerate(zip(sample.alpha, sample.labels.tolist(), strict=True)):
        log_d = log_softmax(label_logits)
        d = torch.tensor(log_d, dtype=torch.float64).exp()
        log_softened = torch.tensor(log_softmax(d), dtype=torch.float64)
        assert got[row].item() == pytest.approx(-float(log_softened[y]) if softened else -log_d[y], rel=1e-9)
        e_y = torch.zeros_like(d)
        e_y[y] = 1.0
        g = log_softened.exp() - e_y
        assert_close(gradient[row], d * (g - d @ g) if softened else d - e_y, **CLOSE)


@given(samples(max_classes=12, logit_scales=(1.0, 10.0)), st.floats(0, 2), st.floats(0, 2), st.booleans())
def test_pencil_loss_and_label_gradient(sample: Samples, alpha: float, beta: float, softened: bool) -> None:
    label_logits = sample.alpha.clone().requires_grad_()
    losses = pencil_loss(sample.logits, label_logits, sample.labels, alpha, beta, softened=softened)
    (got,) = torch.autograd.grad(losses.sum(), label_logits)
    c = sample.logits.shape[1]
    compatibility = pencil_compatibility_loss(label_logits, sample.labels, softened=softened)
    (compatibility_grad,) = torch.autograd.grad(compatibility.sum(), label_logits)
    p, d = sample.logits.softmax(-1), sample.alpha.softmax(-1)
    assert_close(got, (d - p) / c + alpha * compatibility_grad, **CLOSE)
    for row in range(len(losses)):
        log_p, log_d = log_softmax(sample.logits[row]), log_softmax(sample.alpha[row])
        spread = -sum(math.exp(x) * x for x in log_p)
        expected = (kl(log_p, log_d) + beta * spread) / c + alpha * compatibility[row].item()
        assert losses[row].item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("softened", "alpha", "corrects"), [(True, 0.1, True), (False, 0.1, False), (False, 0.09, True)]
)
def test_pencil_corrects_contradicted_label_below_alpha_bound(softened: bool, alpha: float, corrects: bool) -> None:
    """Ten classes, a network certain of another class: without softening, labels are corrected only for α < 1 / c."""
    labels, logits = torch.tensor([3]), torch.zeros(1, 10, dtype=torch.float64)
    logits[0, 5] = 40.0
    label_logits = torch.zeros(1, 10, dtype=torch.float64)
    label_logits[0, 3] = 10.0
    for _ in range(200):
        rows = label_logits.clone().requires_grad_()
        loss = pencil_loss(logits, rows, labels, alpha, 0.4, softened=softened).sum()
        label_logits = label_logits - 5 * torch.autograd.grad(loss, rows)[0]
    given_class, other = label_logits.softmax(-1)[0, [3, 5]]
    assert bool(other > given_class + 1e-3) == corrects


@given(samples(max_classes=12))
def test_class_prior_divergence_matches_loops(sample: Samples) -> None:
    prior = sample.alpha[0].softmax(-1)
    log_p = [log_softmax(row) for row in sample.logits]
    expected = 0.0
    for k, probability in enumerate(prior.tolist()):
        top = max(row[k] for row in log_p)
        log_mean = top + math.log(sum(math.exp(row[k] - top) for row in log_p) / len(log_p))
        expected += probability * (math.log(probability) - log_mean)
    got = class_prior_divergence(sample.logits, prior)
    assert float(got) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(samples(max_classes=12, logit_scales=(0.01, 1.0, 10.0)))
def test_class_prior_divergence_gradient(sample: Samples) -> None:
    prior, logits = sample.alpha[0].softmax(-1), sample.logits.clone().requires_grad_()
    (got,) = torch.autograd.grad(class_prior_divergence(logits, prior), logits)
    p = sample.logits.softmax(-1)
    r = prior / p.mean(0)
    assert_close(got, p * ((p @ r)[:, None] - r) / len(p), rtol=1e-7, atol=1e-9)


def test_class_prior_divergence_with_absent_classes_is_finite() -> None:
    logits = torch.tensor([[300.0, 0.0, -300.0]] * 2).requires_grad_()
    value = class_prior_divergence(logits, torch.tensor([0.5, 0.5, 0.0]))
    assert_close(value, torch.tensor(150 + math.log(0.5)))
    assert torch.autograd.grad(value, logits)[0].isfinite().all()
