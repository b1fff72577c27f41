"""Negative learning against loops over samples and classes, and its gradients against the formulas."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from permll.functional.negative_learning import (
    complementary_labels,
    log_complement,
    negative_learning_loss,
    negative_learning_plus_loss,
    only_top_above_chance,
    positive_learning_plus_loss,
)
from tests.helpers.layer_strategies import Samples, samples
from tests.helpers.pure_python import softmax

MODERATE = samples(max_classes=8, logit_scales=(0.01, 1.0, 5.0))


def complementary(sample: Samples, draws: int) -> Tensor:
    classes = sample.logits.shape[1]
    uniform = torch.rand(len(sample.labels), draws, generator=torch.Generator().manual_seed(draws))
    return complementary_labels(sample.labels, uniform, classes)


def gradient(losses: Tensor, logits: Tensor) -> Tensor:
    return torch.autograd.grad(losses.sum(), logits)[0]


@pytest.mark.parametrize("classes", [2, 3, 10, 1000])
def test_complementary_labels_are_uniform(classes: int) -> None:
    labels = torch.tensor([0, classes - 1, classes // 2])
    even = (torch.arange(classes - 1) + 0.5) / (classes - 1)
    drawn = complementary_labels(labels, even.expand(3, -1), classes)
    for row, label in zip(drawn.tolist(), labels.tolist(), strict=True):
        assert sorted(row) == [k for k in range(classes) if k != label]
    edges = complementary_labels(labels, torch.tensor([[0.0, 1 - 2**-24]]).expand(3, 2), classes)
    assert (edges != labels[:, None]).all(), "the ends of the interval are valid draws"
    assert ((edges >= 0) & (edges < classes)).all()


@given(samples(max_classes=8))
def test_log_complement_matches_loops(sample: Samples) -> None:
    """Against a stable sum over the other classes, for logits of any size."""
    result = log_complement(sample.logits).tolist()
    for row, logits in zip(result, sample.logits.tolist(), strict=True):
        for k, value in enumerate(row):
            others = logits[:k] + logits[k + 1 :]
            if max(others) >= logits[k]:  # p_k of at most 1/2
                expected = math.log1p(-softmax(logits)[k])
            else:
                top = max(others)
                total = 1 + sum(math.exp(other - logits[k]) for other in others)
                expected = top - logits[k] + math.log(sum(math.exp(o - top) for o in others)) - math.log(total)
            assert value == pytest.approx(expected, rel=1e-9, abs=1e-12)


@given(MODERATE, st.integers(1, 6))
def test_negative_learning_losses_match_loops(sample: Samples, draws: int) -> None:
    drawn = complementary(sample, draws)
    result = negative_learning_loss(sample.logits, drawn)
    plus = negative_learning_plus_loss(sample.logits, drawn)
    for row, logits in enumerate(sample.logits.tolist()):
        p = softmax(logits)
        left = [1 - p[k] for k in drawn[row].tolist()]
        assert result[row].item() == pytest.approx(-sum(math.log(one) for one in left), rel=1e-9)
        assert plus[row].item() == pytest.approx(-sum(one * math.log(one) for one in left), rel=1e-9)


@given(MODERATE)
def test_negative_learning_gradients(sample: Samples) -> None:
    logits, drawn = sample.logits.clone().requires_grad_(), complementary(sample, 1)
    plain = gradient(negative_learning_loss(logits, drawn), logits)
    plus = gradient(negative_learning_plus_loss(logits, drawn), logits)
    for row in range(len(logits)):
        p, drawn_class = sample.probabilities[row], int(drawn[row, 0])
        for k in range(len(p)):
            expected = p[drawn_class] if k == drawn_class else -p[drawn_class] * p[k] / (1 - p[drawn_class])
            assert_close(plain[row, k], expected, rtol=1e-9, atol=1e-12)
            assert_close(plus[row, k], expected * (1 - p[drawn_class]), rtol=1e-9, atol=1e-12)


@given(MODERATE)
def test_mean_nl_plus_gradient_is_that_of_absolute_error(sample: Samples) -> None:
    logits, classes = sample.logits.clone().requires_grad_(), sample.logits.shape[1]
    all_others = (sample.labels[:, None] + torch.arange(1, classes)) % classes
    result = gradient(negative_learning_plus_loss(logits, all_others), logits) / (classes - 1)
    absolute = gradient(1 - logits.softmax(1).gather(1, sample.labels[:, None]), logits)
    assert_close(result, absolute / (classes - 1), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_negative_learning_gradient_at_certainty(dtype: torch.dtype) -> None:
    """1 - p underflows in the dtype."""
    logits = torch.tensor([[100.0, 0.0, 1.0]], dtype=dtype, requires_grad=True)
    losses = negative_learning_loss(logits, torch.tensor([[0]]))
    assert_close(losses, torch.tensor([100 - math.log(1 + math.e)], dtype=dtype))
    others = torch.tensor([0.0, 1.0], dtype=dtype).softmax(0)
    expected = torch.cat([torch.ones(1, dtype=dtype), -others])[None]
    assert_close(gradient(losses, logits), expected, rtol=1e-4, atol=0.0)
    plus = gradient(negative_learning_plus_loss(logits, torch.tensor([[0]])), logits)
    assert plus.abs().max() < 1e-30, "the gradient of NL+ vanishes at certainty"


@given(MODERATE, st.integers(0, 3))
def test_positive_learning_plus_matches_formula(sample: Samples, doublings: int) -> None:
    logits = sample.logits.clone().requires_grad_()
    losses = positive_learning_plus_loss(logits, doublings)
    gradients = gradient(losses, logits)
    for row, values in enumerate(sample.logits.tolist()):
        p = softmax(values)
        predicted = p.index(max(p))
        factor = math.prod(1 + p[predicted] ** (2**n) for n in range(doublings + 1))
        assert losses[row].item() == pytest.approx(-factor * math.log(p[predicted]), rel=1e-9)
        for k in range(len(p)):
            expected = factor * (p[k] - (k == predicted))
            assert gradients[row, k].item() == pytest.approx(expected, rel=1e-9, abs=1e-12)
        assert gradients[row, predicted].item() == pytest.approx(p[predicted] ** (2 ** (doublings + 1)) - 1, abs=1e-9)


@given(MODERATE)
def test_only_top_above_chance_matches_loops(sample: Samples) -> None:
    result = only_top_above_chance(sample.logits)
    for row, logits in enumerate(sample.logits.tolist()):
        p = softmax(logits)
        p.remove(max(p))
        assert bool(result[row]) == all(value < 1 / (len(p) + 1) for value in p)


def test_only_top_above_chance_of_tie_is_false() -> None:
    assert only_top_above_chance(torch.tensor([[0.0, 0.0], [0.1, 0.0]])).tolist() == [False, True]
