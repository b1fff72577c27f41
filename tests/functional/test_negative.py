"""Negative learning against loops over samples and classes, and its gradients against the formulas."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from permll.functional.negative import (
    complementary_labels,
    log_complement,
    negative_learning_loss,
    negative_learning_plus_loss,
    only_top_above_chance,
    positive_learning_plus_loss,
)
from tests.functional.test_robust import softmax
from tests.helpers.layer_strategies import Samples, samples

MODERATE = samples(max_classes=8, logit_scales=(0.01, 1.0, 5.0))


def complementary(sample: Samples, draws: int) -> Tensor:
    classes = sample.logits.shape[1]
    chance = torch.rand(len(sample.labels), draws, generator=torch.Generator().manual_seed(draws))
    return complementary_labels(sample.labels, chance, classes)


def gradient(losses: Tensor, logits: Tensor) -> Tensor:
    return torch.autograd.grad(losses.sum(), logits)[0]


@pytest.mark.parametrize("classes", [2, 3, 10, 1000])
def test_every_class_but_the_label_is_drawn_equally_often(classes: int) -> None:
    labels = torch.tensor([0, classes - 1, classes // 2])
    even = (torch.arange(classes - 1) + 0.5) / (classes - 1)
    drawn = complementary_labels(labels, even.expand(3, -1), classes)
    for row, label in zip(drawn.tolist(), labels.tolist(), strict=True):
        assert sorted(row) == [k for k in range(classes) if k != label]
    edges = complementary_labels(labels, torch.tensor([[0.0, 1 - 2**-24]]).expand(3, 2), classes)
    assert (edges != labels[:, None]).all(), "the ends of the interval are classes too"
    assert ((edges >= 0) & (edges < classes)).all()


@given(samples(max_classes=8))
def test_log_complement_is_the_logarithm_of_what_the_others_have(sample: Samples) -> None:
    """Against a sum over the others' powers with their own largest taken out, for logits of any size."""
    found = log_complement(sample.logits).tolist()
    for row, logits in zip(found, sample.logits.tolist(), strict=True):
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
def test_negative_learning_sums_over_the_complementary_labels(sample: Samples, draws: int) -> None:
    drawn = complementary(sample, draws)
    found = negative_learning_loss(sample.logits, drawn)
    plus = negative_learning_plus_loss(sample.logits, drawn)
    for row, logits in enumerate(sample.logits.tolist()):
        p = softmax(logits)
        left = [1 - p[k] for k in drawn[row].tolist()]
        assert found[row].item() == pytest.approx(-sum(math.log(one) for one in left), rel=1e-9)
        assert plus[row].item() == pytest.approx(-sum(one * math.log(one) for one in left), rel=1e-9)


@given(MODERATE)
def test_the_gradients_of_negative_learning(sample: Samples) -> None:
    logits, drawn = sample.logits.clone().requires_grad_(), complementary(sample, 1)
    plain = gradient(negative_learning_loss(logits, drawn), logits)
    plus = gradient(negative_learning_plus_loss(logits, drawn), logits)
    for row in range(len(logits)):
        p, own = sample.probabilities[row], int(drawn[row, 0])
        for k in range(len(p)):
            expected = p[own] if k == own else -p[own] * p[k] / (1 - p[own])
            assert_close(plain[row, k], expected, rtol=1e-9, atol=1e-12)
            assert_close(plus[row, k], expected * (1 - p[own]), rtol=1e-9, atol=1e-12)


@given(MODERATE)
def test_on_the_mean_over_the_complementary_labels_nl_plus_pulls_as_the_absolute_error(sample: Samples) -> None:
    logits, classes = sample.logits.clone().requires_grad_(), sample.logits.shape[1]
    everyone = (sample.labels[:, None] + torch.arange(1, classes)) % classes
    found = gradient(negative_learning_plus_loss(logits, everyone), logits) / (classes - 1)
    absolute = gradient(1 - logits.softmax(1).gather(1, sample.labels[:, None]), logits)
    assert_close(found, absolute / (classes - 1), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_certainty_of_a_complementary_label_is_still_pushed_away(dtype: torch.dtype) -> None:
    """Where 1 - p is below what the dtype can tell from 0."""
    logits = torch.tensor([[100.0, 0.0, 1.0]], dtype=dtype, requires_grad=True)
    losses = negative_learning_loss(logits, torch.tensor([[0]]))
    assert_close(losses, torch.tensor([100 - math.log(1 + math.e)], dtype=dtype))
    others = torch.tensor([0.0, 1.0], dtype=dtype).softmax(0)
    expected = torch.cat([torch.ones(1, dtype=dtype), -others])[None]
    assert_close(gradient(losses, logits), expected, rtol=1e-4, atol=0.0)
    plus = gradient(negative_learning_plus_loss(logits, torch.tensor([[0]])), logits)
    assert plus.abs().max() < 1e-30, "NL+ leaves alone what the network is sure of"


@given(MODERATE, st.integers(0, 3))
def test_positive_learning_plus_is_its_formula_and_pulls_until_all_but_sure(sample: Samples, doublings: int) -> None:
    logits = sample.logits.clone().requires_grad_()
    losses = positive_learning_plus_loss(logits, doublings)
    pulled = gradient(losses, logits)
    for row, values in enumerate(sample.logits.tolist()):
        p = softmax(values)
        predicted = p.index(max(p))
        factor = math.prod(1 + p[predicted] ** (2**n) for n in range(doublings + 1))
        assert losses[row].item() == pytest.approx(-factor * math.log(p[predicted]), rel=1e-9)
        for k in range(len(p)):
            expected = factor * (p[k] - (k == predicted))
            assert pulled[row, k].item() == pytest.approx(expected, rel=1e-9, abs=1e-12)
        assert pulled[row, predicted].item() == pytest.approx(p[predicted] ** (2 ** (doublings + 1)) - 1, abs=1e-9)


@given(MODERATE)
def test_settled_means_that_every_other_class_is_below_chance(sample: Samples) -> None:
    found = only_top_above_chance(sample.logits)
    for row, logits in enumerate(sample.logits.tolist()):
        p = softmax(logits)
        p.remove(max(p))
        assert bool(found[row]) == all(value < 1 / (len(p) + 1) for value in p)


def test_a_tie_is_not_settled() -> None:
    assert only_top_above_chance(torch.tensor([[0.0, 0.0], [0.1, 0.0]])).tolist() == [False, True]
