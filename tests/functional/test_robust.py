"""Robust losses against loops over samples and classes, and their gradients against the formulas."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from permll.functional.robust import (
    gce,
    hard_bootstrap_loss,
    soft_bootstrap_loss,
    symmetric_cross_entropy,
    truncated_gce,
    truncated_gce_mask,
)
from tests.helpers.layer_strategies import Samples, samples

EXACT = {"rtol": 1e-12, "atol": 1e-12}
MODERATE = samples(max_classes=12, logit_scales=(0.01, 1.0, 10.0))
SHARES = st.sampled_from([0.0, 0.05, 0.5, 0.95, 1.0])
Loss = Callable[[Tensor, Tensor], Tensor]
EVERY: dict[str, Loss] = {
    "soft": soft_bootstrap_loss,
    "hard": hard_bootstrap_loss,
    "gce": gce,
    "truncated": lambda logits, labels: truncated_gce(logits, labels, truncated_gce_mask(logits, labels)),
    "symmetric": symmetric_cross_entropy,
}


def softmax(logits: list[float]) -> list[float]:
    top = max(logits)
    powers = [math.exp(value - top) for value in logits]
    return [power / sum(powers) for power in powers]


def trainer(sample: Samples, one: Callable[[list[float], int], float]) -> Tensor:
    """Return what ``one`` gives for (p, y) of every sample."""
    rows = zip(sample.logits.tolist(), sample.labels.tolist(), strict=True)
    return torch.tensor([one(softmax(logits), y) for logits, y in rows], dtype=torch.float64)


def gradient(loss: Loss, sample: Samples) -> Tensor:
    logits = sample.logits.clone().requires_grad_()
    (found,) = torch.autograd.grad(loss(logits, sample.labels).sum(), logits)
    return found


def pull(sample: Samples) -> Tensor:
    """Return p - e_y, the gradient of cross-entropy."""
    return sample.probabilities - torch.nn.functional.one_hot(sample.labels, sample.logits.shape[1])


def of_label(sample: Samples) -> Tensor:
    return sample.probabilities.gather(1, sample.labels[:, None])


@given(MODERATE, SHARES)
def test_soft_bootstrap_mixes_label_and_prediction_into_the_target(sample: Samples, beta: float) -> None:
    def one(p: list[float], y: int) -> float:
        return -sum((beta * (k == y) + (1 - beta) * p[k]) * math.log(p[k]) for k in range(len(p)))

    assert_close(soft_bootstrap_loss(sample.logits, sample.labels, beta), trainer(sample, one), **EXACT)
    assert_close(soft_bootstrap_loss(sample.logits, sample.labels, beta, detach_target=True), trainer(sample, one), **EXACT)


@given(MODERATE, SHARES)
def test_soft_bootstrap_follows_the_entropy_unless_the_target_is_detached(sample: Samples, beta: float) -> None:
    p = sample.probabilities
    entropy = -(p * p.log()).sum(1, keepdim=True)
    expected = beta * pull(sample) - (1 - beta) * p * (p.log() + entropy)
    assert_close(gradient(lambda z, y: soft_bootstrap_loss(z, y, beta), sample), expected, **EXACT)
    detached = gradient(lambda z, y: soft_bootstrap_loss(z, y, beta, detach_target=True), sample)
    assert_close(detached, beta * pull(sample), **EXACT)


@given(MODERATE, SHARES)
def test_hard_bootstrap_adds_the_predicted_class_to_the_target(sample: Samples, beta: float) -> None:
    def one(p: list[float], y: int) -> float:
        return -beta * math.log(p[y]) - (1 - beta) * math.log(p[p.index(max(p))])

    assert_close(hard_bootstrap_loss(sample.logits, sample.labels, beta), trainer(sample, one), **EXACT)
    predicted = sample._replace(labels=sample.logits.argmax(1))
    expected = beta * pull(sample) + (1 - beta) * pull(predicted)
    assert_close(gradient(lambda z, y: hard_bootstrap_loss(z, y, beta), sample), expected, **EXACT)


@given(MODERATE, st.sampled_from([0.1, 0.7, 1.0]))
def test_gce_is_its_formula_and_scales_the_gradient_of_cross_entropy(sample: Samples, q: float) -> None:
    assert_close(gce(sample.logits, sample.labels, q), trainer(sample, lambda p, y: (1 - p[y] ** q) / q), **EXACT)
    assert_close(gradient(lambda z, y: gce(z, y, q), sample), of_label(sample) ** q * pull(sample), **EXACT)


@given(samples())
def test_gce_ends_in_cross_entropy_and_in_the_absolute_error(sample: Samples) -> None:
    cross_entropy = torch.nn.functional.cross_entropy(sample.logits, sample.labels, reduction="none")
    assert_close(gce(sample.logits, sample.labels, 0.0), cross_entropy, **EXACT)
    assert_close(gce(sample.logits, sample.labels, 1e-13), cross_entropy, rtol=1e-8, atol=1e-12)
    assert_close(gce(sample.logits, sample.labels, 1.0), 1 - of_label(sample)[:, 0], **EXACT)


@given(MODERATE, st.sampled_from([0.2, 0.7, 1.0]), st.sampled_from([0.1, 0.5, 0.9]))
def test_truncated_gce_never_costs_more_than_a_label_believed_with_k(sample: Samples, q: float, k: float) -> None:
    kept = truncated_gce_mask(sample.logits, sample.labels, k)
    assert kept.tolist() == [value > k for value in of_label(sample)[:, 0].tolist()]
    expected = trainer(sample, lambda p, y: min((1 - p[y] ** q) / q, (1 - k**q) / q))
    assert_close(truncated_gce(sample.logits, sample.labels, kept, q, k), expected, **EXACT)


@given(MODERATE, st.integers(0, 15))
def test_pruned_samples_pull_nothing_and_the_others_as_before(sample: Samples, bits: int) -> None:
    kept = torch.tensor([bool(bits >> row & 1) for row in range(len(sample.labels))])
    found = gradient(lambda z, y: truncated_gce(z, y, kept), sample)
    assert torch.equal(found[~kept], torch.zeros_like(found[~kept]))
    assert_close(found[kept], gradient(gce, sample)[kept], **EXACT)


@given(MODERATE, st.sampled_from([(0.1, 1.0, -4.0), (6.0, 0.1, -9.2103), (0.0, 2.0, -1.0), (1.0, 0.0, -4.0)]))
def test_symmetric_cross_entropy_is_its_definition(sample: Samples, settings: tuple[float, float, float]) -> None:
    alpha, beta, A = settings

    def one(p: list[float], y: int) -> float:
        log_label = [0.0 if k == y else A for k in range(len(p))]
        reverse = -sum(share * log for share, log in zip(p, log_label, strict=True))
        return -alpha * math.log(p[y]) + beta * reverse

    assert_close(symmetric_cross_entropy(sample.logits, sample.labels, *settings), trainer(sample, one), **EXACT)
    expected = (alpha - beta * A * of_label(sample)) * pull(sample)
    assert_close(gradient(lambda z, y: symmetric_cross_entropy(z, y, *settings), sample), expected, **EXACT)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_certainty_of_a_wrong_class_is_neither_nan_nor_infinite(name: str, dtype: torch.dtype) -> None:
    logits = torch.tensor([[2e4, 0.0, -2e4], [0.0, 2e4, 0.0]], dtype=dtype, requires_grad=True)
    losses = EVERY[name](logits, torch.tensor([2, 1]))
    (pulled,) = torch.autograd.grad(losses.sum(), logits)
    assert losses.isfinite().all()
    assert pulled.isfinite().all()
    assert losses[0] > losses[1] >= 0


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("classes", [2, 1000])
def test_a_loss_falls_as_its_label_is_believed_more(name: str, classes: int) -> None:
    logits = torch.zeros(50, classes, dtype=torch.float64)
    logits[:, 1] = torch.linspace(0.0, 20.0, 50)
    losses = EVERY[name](logits, torch.ones(50, dtype=torch.int64))
    assert (losses.diff() <= 0).all()
    assert losses[-1] < losses[0]
