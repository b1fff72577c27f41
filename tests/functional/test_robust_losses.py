"""Robust losses against loops over samples and classes, and their gradients against the formulas."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from permll.functional.robust_losses import (
    gce,
    hard_bootstrap_loss,
    soft_bootstrap_loss,
    symmetric_cross_entropy,
    truncated_gce,
    truncated_gce_mask,
)
from tests.helpers.layer_strategies import Samples, samples
from tests.helpers.pure_python import softmax

EXACT = {"rtol": 1e-12, "atol": 1e-12}
MODERATE = samples(max_classes=12, logit_scales=(0.01, 1.0, 10.0))
WEIGHTS = st.sampled_from([0.0, 0.05, 0.5, 0.95, 1.0])
Loss = Callable[[Tensor, Tensor], Tensor]
ALL_LOSSES: dict[str, Loss] = {
    "soft": soft_bootstrap_loss,
    "hard": hard_bootstrap_loss,
    "gce": gce,
    "truncated": lambda logits, labels: truncated_gce(logits, labels, truncated_gce_mask(logits, labels)),
    "symmetric": symmetric_cross_entropy,
}


def map_samples(sample: Samples, loss: Callable[[list[float], int], float]) -> Tensor:
    """Apply a function of (p, y) to every sample."""
    rows = zip(sample.logits.tolist(), sample.labels.tolist(), strict=True)
    return torch.tensor([loss(softmax(logits), y) for logits, y in rows], dtype=torch.float64)


def gradient(loss: Loss, sample: Samples) -> Tensor:
    logits = sample.logits.clone().requires_grad_()
    return torch.autograd.grad(loss(logits, sample.labels).sum(), logits)[0]


def ce_gradient(sample: Samples) -> Tensor:
    """Return p - e_y, the gradient of cross-entropy."""
    return sample.probabilities - torch.nn.functional.one_hot(sample.labels, sample.logits.shape[1])


def label_probs(sample: Samples) -> Tensor:
    return sample.probabilities.gather(1, sample.labels[:, None])


@given(MODERATE, WEIGHTS)
def test_soft_bootstrap_matches_formula(sample: Samples, beta: float) -> None:
    def loss(p: list[float], y: int) -> float:
        return -sum((beta * (k == y) + (1 - beta) * p[k]) * math.log(p[k]) for k in range(len(p)))

    assert_close(soft_bootstrap_loss(sample.logits, sample.labels, beta), map_samples(sample, loss), **EXACT)
    assert_close(
        soft_bootstrap_loss(sample.logits, sample.labels, beta, detach_target=True), map_samples(sample, loss), **EXACT
    )


@given(MODERATE, WEIGHTS)
def test_soft_bootstrap_gradient(sample: Samples, beta: float) -> None:
    p = sample.probabilities
    entropy = -(p * p.log()).sum(1, keepdim=True)
    expected = beta * ce_gradient(sample) - (1 - beta) * p * (p.log() + entropy)
    assert_close(gradient(lambda z, y: soft_bootstrap_loss(z, y, beta), sample), expected, **EXACT)
    detached = gradient(lambda z, y: soft_bootstrap_loss(z, y, beta, detach_target=True), sample)
    assert_close(detached, beta * ce_gradient(sample), **EXACT)


@given(MODERATE, WEIGHTS)
def test_hard_bootstrap_matches_formula_and_gradient(sample: Samples, beta: float) -> None:
    def loss(p: list[float], y: int) -> float:
        return -beta * math.log(p[y]) - (1 - beta) * math.log(p[p.index(max(p))])

    assert_close(hard_bootstrap_loss(sample.logits, sample.labels, beta), map_samples(sample, loss), **EXACT)
    predicted = sample._replace(labels=sample.logits.argmax(1))
    expected = beta * ce_gradient(sample) + (1 - beta) * ce_gradient(predicted)
    assert_close(gradient(lambda z, y: hard_bootstrap_loss(z, y, beta), sample), expected, **EXACT)


@given(MODERATE, st.sampled_from([0.1, 0.7, 1.0]))
def test_gce_matches_formula_and_gradient(sample: Samples, q: float) -> None:
    assert_close(gce(sample.logits, sample.labels, q), map_samples(sample, lambda p, y: (1 - p[y] ** q) / q), **EXACT)
    assert_close(gradient(lambda z, y: gce(z, y, q), sample), label_probs(sample) ** q * ce_gradient(sample), **EXACT)


@given(samples())
def test_gce_limits_are_cross_entropy_and_absolute_error(sample: Samples) -> None:
    cross_entropy = torch.nn.functional.cross_entropy(sample.logits, sample.labels, reduction="none")
    assert_close(gce(sample.logits, sample.labels, 0.0), cross_entropy, **EXACT)
    assert_close(gce(sample.logits, sample.labels, 1e-13), cross_entropy, rtol=1e-8, atol=1e-12)
    assert_close(gce(sample.logits, sample.labels, 1.0), 1 - label_probs(sample)[:, 0], **EXACT)


@given(MODERATE, st.sampled_from([0.2, 0.7, 1.0]), st.sampled_from([0.1, 0.5, 0.9]))
def test_truncated_gce_is_bounded(sample: Samples, q: float, k: float) -> None:
    keep = truncated_gce_mask(sample.logits, sample.labels, k)
    assert keep.tolist() == [value > k for value in label_probs(sample)[:, 0].tolist()]
    expected = map_samples(sample, lambda p, y: min((1 - p[y] ** q) / q, (1 - k**q) / q))
    assert_close(truncated_gce(sample.logits, sample.labels, keep, q, k), expected, **EXACT)


@given(MODERATE, st.integers(0, 15))
def test_truncated_gce_gradient(sample: Samples, bits: int) -> None:
    keep = torch.tensor([bool(bits >> row & 1) for row in range(len(sample.labels))])
    grads = gradient(lambda z, y: truncated_gce(z, y, keep), sample)
    assert torch.equal(grads[~keep], torch.zeros_like(grads[~keep]))
    assert_close(grads[keep], gradient(gce, sample)[keep], **EXACT)


@given(MODERATE, st.sampled_from([(0.1, 1.0, -4.0), (6.0, 0.1, -9.2103), (0.0, 2.0, -1.0), (1.0, 0.0, -4.0)]))
def test_symmetric_cross_entropy_matches_formula_and_gradient(
    sample: Samples, settings: tuple[float, float, float]
) -> None:
    alpha, beta, A = settings

    def loss(p: list[float], y: int) -> float:
        log_label = [0.0 if k == y else A for k in range(len(p))]
        reverse = -sum(p_k * log for p_k, log in zip(p, log_label, strict=True))
        return -alpha * math.log(p[y]) + beta * reverse

    assert_close(symmetric_cross_entropy(sample.logits, sample.labels, *settings), map_samples(sample, loss), **EXACT)
    expected = (alpha - beta * A * label_probs(sample)) * ce_gradient(sample)
    assert_close(gradient(lambda z, y: symmetric_cross_entropy(z, y, *settings), sample), expected, **EXACT)


@pytest.mark.parametrize("name", ALL_LOSSES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_losses_are_finite_for_extreme_logits(name: str, dtype: torch.dtype) -> None:
    logits = torch.tensor([[2e4, 0.0, -2e4], [0.0, 2e4, 0.0]], dtype=dtype, requires_grad=True)
    losses = ALL_LOSSES[name](logits, torch.tensor([2, 1]))
    (gradients,) = torch.autograd.grad(losses.sum(), logits)
    assert losses.isfinite().all()
    assert gradients.isfinite().all()
    assert losses[0] > losses[1] >= 0


@pytest.mark.parametrize("name", ALL_LOSSES)
@pytest.mark.parametrize("classes", [2, 1000])
def test_losses_decrease_with_label_probability(name: str, classes: int) -> None:
    logits = torch.zeros(50, classes, dtype=torch.float64)
    logits[:, 1] = torch.linspace(0.0, 20.0, 50)
    losses = ALL_LOSSES[name](logits, torch.ones(50, dtype=torch.int64))
    assert (losses.diff() <= 0).all()
    assert losses[-1] < losses[0]
