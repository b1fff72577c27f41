"""Transition matrices: losses and estimators against loops over samples and classes, in float64."""

import math
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from permll.functional.transition import (
    anchor_indices,
    anchor_transition,
    backward_correction_loss,
    clean_posterior,
    condition_number,
    confusion_transition,
    dual_transition,
    forward_correction_loss,
    gold_transition,
    importance_weights,
    inverse_transition,
)
from tests.helpers.pure_python import softmax

FEW_EXAMPLES = settings(max_examples=30)
EXACT = {"rtol": 1e-10, "atol": 1e-10}
SYMMETRIC = torch.full((10, 10), 0.06, dtype=torch.float64) + 0.4 * torch.eye(10, dtype=torch.float64)


class NoisySamples(NamedTuple):
    logits: Tensor
    labels: Tensor
    T: Tensor


@st.composite
def noisy_samples(draw: st.DrawFn, scales: tuple[float, ...] = (0.1, 1.0, 10.0)) -> NoisySamples:
    """Draw logits, labels and a diagonally dominant transition matrix, which may contain zeros."""
    classes, batch = draw(st.integers(2, 12)), draw(st.integers(1, 5))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    noise = torch.rand(classes, classes, generator=generator, dtype=torch.float64)
    if draw(st.booleans()):
        noise[torch.rand(classes, classes, generator=generator) < 0.5] = 0
    T = noise + draw(st.sampled_from([1.0, 5.0])) * classes * torch.eye(classes, dtype=torch.float64)
    logits = draw(st.sampled_from(scales)) * torch.randn(batch, classes, generator=generator, dtype=torch.float64)
    return NoisySamples(logits, torch.randint(classes, (batch,), generator=generator), T / T.sum(1, keepdim=True))


def gradient(losses: Tensor, logits: Tensor) -> Tensor:
    return torch.autograd.grad(losses.sum(), logits)[0]


# --- Losses ---------------------------------------------------------------------------------------------------------


@given(noisy_samples())
@FEW_EXAMPLES
def test_forward_correction_matches_loops(sample: NoisySamples) -> None:
    logits = sample.logits.clone().requires_grad_()
    losses = forward_correction_loss(logits, sample.labels, sample.T)
    posterior = clean_posterior(sample.logits, sample.labels, sample.T)
    gradients = gradient(losses, logits)
    for b, y in enumerate(sample.labels.tolist()):
        p = softmax(sample.logits[b])
        joint = [p[i] * sample.T[i, y].item() for i in range(len(p))]
        assert losses[b].item() == pytest.approx(-math.log(sum(joint)), rel=1e-9, abs=1e-9)
        for i in range(len(p)):
            r = joint[i] / sum(joint)
            assert posterior[b, i].item() == pytest.approx(r, abs=1e-12)
            assert gradients[b, i].item() == pytest.approx(p[i] - r, abs=1e-12)


@given(noisy_samples())
@FEW_EXAMPLES
def test_backward_correction_matches_loops(sample: NoisySamples) -> None:
    logits = sample.logits.clone().requires_grad_()
    inverse = torch.from_numpy(np.linalg.inv(sample.T.numpy()))
    losses = backward_correction_loss(logits, sample.labels, inverse, min_prob=1e-300)
    gradients = gradient(losses, logits)
    for b, y in enumerate(sample.labels.tolist()):
        p = softmax(sample.logits[b])
        expected = -sum(inverse[y, k].item() * math.log(p[k]) for k in range(len(p)))
        assert losses[b].item() == pytest.approx(expected, rel=1e-9, abs=1e-9)
        for k in range(len(p)):
            assert gradients[b, k].item() == pytest.approx(p[k] - inverse[y, k].item(), abs=1e-9)


@given(noisy_samples(scales=(0.1, 1.0)))
@FEW_EXAMPLES
def test_backward_correction_is_unbiased(sample: NoisySamples) -> None:
    classes = len(sample.T)
    all_labels, inverse = torch.arange(classes), inverse_transition(sample.T)
    for row in sample.logits:
        given_each = backward_correction_loss(row.expand(classes, classes), all_labels, inverse)
        assert_close(sample.T @ given_each, -row.log_softmax(-1), **EXACT)


def test_losses_without_noise_are_cross_entropy() -> None:
    logits, labels = torch.tensor([[200.0, 0.0, -5.0], [0.3, 0.1, 0.2]]), torch.tensor([1, 0])
    expected = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
    assert torch.equal(forward_correction_loss(logits, labels, torch.eye(3)), expected)
    assert torch.equal(backward_correction_loss(logits, labels, inverse_transition(torch.eye(3))), expected)
    assert torch.equal(importance_weights(logits[1:], labels[1:], torch.eye(3)), torch.ones(1))


def test_forward_correction_with_underflow() -> None:
    T = torch.tensor([[1.0, 0.0], [0.25, 0.75]])
    logits = torch.tensor([[500.0, 0.0]], requires_grad=True)  # p_1 is e^-500, and only class 1 can have label 1
    losses = forward_correction_loss(logits, torch.tensor([1]), T)
    assert losses.item() == pytest.approx(500 - math.log(0.75))
    assert_close(gradient(losses, logits), torch.tensor([[1.0, -1.0]]))


def test_forward_correction_of_zero_column() -> None:
    T = torch.tensor([[0.5, 0.0, 0.5], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    logits = torch.tensor([[0.2, -1.0, 3.0]], requires_grad=True)
    losses = forward_correction_loss(logits, torch.tensor([1]), T)
    assert losses.isfinite().all()
    assert_close(gradient(losses, logits), torch.zeros(1, 3), atol=1e-6, rtol=0)
    assert_close(clean_posterior(logits, torch.tensor([1]), T), logits.softmax(-1))


def test_backward_correction_is_bounded_below() -> None:
    inverse = inverse_transition(torch.tensor([[0.75, 0.25], [0.25, 0.75]]))
    logits = torch.tensor([[40.0, 0.0], [4000.0, 0.0]], requires_grad=True)
    losses = backward_correction_loss(logits, torch.tensor([0, 0]), inverse)
    assert_close(losses, torch.full((2,), 0.5 * math.log(1e-7)))
    assert_close(gradient(losses, logits), torch.zeros(2, 2), atol=1e-6, rtol=0)


@given(noisy_samples())
@FEW_EXAMPLES
def test_importance_weights_match_loops(sample: NoisySamples) -> None:
    weights = importance_weights(sample.logits, sample.labels, sample.T)
    for b, y in enumerate(sample.labels.tolist()):
        p = softmax(sample.logits[b])
        expected = p[y] / sum(p[i] * sample.T[i, y].item() for i in range(len(p)))
        assert weights[b].item() == pytest.approx(expected, rel=1e-9)
        assert expected <= 1 / sample.T[y, y].item() + 1e-9


def test_importance_weights_gradient() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    T = torch.rand(4, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([2, 0, 2])
    assert torch.autograd.gradcheck(lambda z, T: importance_weights(z, labels, T), (logits, T))
    # ∂β/∂T[i, y] = -β p_i / (p T)_y
    (gradients,) = torch.autograd.grad(importance_weights(logits, labels, T)[0], T)
    p = logits[0].softmax(-1).detach()
    given = (p @ T.detach())[2]
    assert_close(gradients[:, 2], -p[2] / given * p / given, **EXACT)
    assert torch.equal(gradients[:, :2], torch.zeros(4, 2, dtype=torch.float64))


@pytest.mark.parametrize("entry", [-1.0, 0.0, 1e-12])
def test_importance_weights_are_bounded(entry: float) -> None:
    T = torch.full((2, 2), entry)
    logits = torch.tensor([[0.0, 0.0], [300.0, 0.0], [-300.0, 0.0]])
    weights = importance_weights(logits, torch.tensor([0, 0, 0]), T)
    assert weights.isfinite().all()
    assert (weights[0].item(), weights[1].item()) == pytest.approx((100, 100))
    assert 0 <= weights[2] <= 100, "also for 0 / 0"


# --- Estimators -----------------------------------------------------------------------------------------------------


def slow_anchors(p: np.ndarray, percent: int | None) -> list[int]:
    """Return the anchors as the authors describe them."""
    anchors = []
    for i in range(p.shape[1]):
        column = p[:, i].copy()
        if percent is not None:
            column[column >= np.percentile(p[:, i], percent, method="higher")] = 0
        anchors.append(int(column.argmax()))
    return anchors


@given(st.integers(0, 2**31), st.integers(60, 300), st.integers(2, 5), st.sampled_from([90, 97]))
@FEW_EXAMPLES
def test_anchors_match_papers(seed: int, rows: int, classes: int, percent: int) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(rows, classes)) + 3 * np.eye(classes)[np.arange(rows) % classes]
    p = torch.from_numpy(logits).softmax(-1)
    assert anchor_indices(p, 1.0).tolist() == slow_anchors(p.numpy(), None)
    expected = slow_anchors(p.numpy(), percent)
    assert anchor_indices(p, percent / 100).tolist() == expected
    assert_close(anchor_transition(p, percent / 100), p[expected], **EXACT)


def test_anchors_do_not_modify_probabilities() -> None:
    p = torch.rand(100, 3).softmax(-1)
    before = p.clone()
    anchor_indices(p)
    assert torch.equal(p, before)


def test_anchors_with_ties() -> None:
    """Half of the rows are certain of class 0; the anchor is one of them."""
    p = torch.cat([torch.tensor([[1.0, 0.0]]).repeat(50, 1), torch.tensor([[0.2, 0.8]]).repeat(50, 1)])
    assert slow_anchors(p.numpy(), 97)[0] >= 50
    assert_close(anchor_transition(p), torch.tensor([[1.0, 0.0], [0.2, 0.8]]))


def test_anchor_of_small_class() -> None:
    """One of 100 rows is of class 2 and the top three would be skipped; class 3 is never predicted."""
    p = torch.tensor([0.7, 0.2, 0.06, 0.04]).repeat(100, 1)
    p[50:] = torch.tensor([0.2, 0.7, 0.05, 0.05])
    p[99] = torch.tensor([0.05, 0.05, 0.8, 0.1])
    rows = anchor_indices(p)
    assert rows[2] == 99
    assert rows[3] == 99, "the most probable row"
    assert rows[0] < 50 <= rows[1] < 99


@pytest.mark.parametrize("classes", [2, 10])
def test_anchor_transition_recovers_noise(classes: int) -> None:
    T = 0.5 * torch.eye(classes, dtype=torch.float64) + 0.5 / classes
    clean = torch.full((40 * classes, classes), 0.1 / classes, dtype=torch.float64)
    clean[torch.arange(len(clean)), torch.arange(len(clean)) % classes] += 0.9
    clean[-20 * classes :] = torch.eye(classes, dtype=torch.float64).repeat(20, 1)  # half are certain
    assert_close(anchor_transition(clean @ T), T, **EXACT)


@given(st.integers(0, 2**31), st.integers(1, 40), st.integers(2, 6))
@FEW_EXAMPLES
def test_confusion_transition_matches_counts(seed: int, rows: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    predicted, labels = rng.integers(classes, size=(2, rows)).tolist()
    result = confusion_transition(torch.tensor(predicted), torch.tensor(labels), classes)
    for group in range(classes):
        members = [label for guess, label in zip(predicted, labels, strict=True) if guess == group]
        for j in range(classes):
            expected = members.count(j) / len(members) if members else float(group == j)
            assert result[group, j].item() == pytest.approx(expected, abs=1e-15)


def test_dual_transition_matches_loops() -> None:
    generator = torch.Generator().manual_seed(3)
    p = (2 * torch.randn(200, 4, generator=generator, dtype=torch.float64)).softmax(-1)
    labels = torch.randint(4, (200,), generator=generator)
    A = anchor_transition(p, 0.97)
    result = dual_transition(p, labels, 0.97)
    predicted = p.argmax(1).tolist()
    for i in range(4):
        for j in range(4):
            total = 0.0
            for group in range(4):
                members = [row for row in range(200) if predicted[row] == group]
                fraction = sum(labels[row].item() == j for row in members) / len(members)
                total += A[i, group].item() * fraction
            assert result[i, j].item() == pytest.approx(total, abs=1e-12)


@given(st.integers(0, 2**31), st.integers(1, 30), st.integers(2, 6))
@FEW_EXAMPLES
def test_gold_transition_is_class_mean(seed: int, rows: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    p = torch.from_numpy(rng.dirichlet(np.ones(classes), size=rows))
    labels = torch.from_numpy(rng.integers(classes, size=rows))
    result = gold_transition(p, labels)
    for i in range(classes):
        members = [row for row in range(rows) if labels[row] == i]
        for j in range(classes):
            expected = sum(p[row, j].item() for row in members) / len(members) if members else float(i == j)
            assert result[i, j].item() == pytest.approx(expected, abs=1e-12)


@given(st.integers(0, 2**31), st.integers(2, 30), st.integers(2, 6))
@FEW_EXAMPLES
def test_estimates_are_stochastic(seed: int, rows: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    p = torch.from_numpy(rng.dirichlet(np.full(classes, 0.1), size=rows))
    labels = torch.from_numpy(rng.integers(classes, size=rows))
    for T in (anchor_transition(p), dual_transition(p, labels), gold_transition(p, labels)):
        assert T.min() >= 0
        assert_close(T.sum(1), torch.ones(classes, dtype=torch.float64))


# --- Matrix functions -----------------------------------------------------------------------------------------------


@given(noisy_samples())
@FEW_EXAMPLES
def test_inverse_transition_matches_numpy(sample: NoisySamples) -> None:
    assert_close(inverse_transition(sample.T), torch.from_numpy(np.linalg.inv(sample.T.numpy())), **EXACT)


def test_inverse_transition_of_nearly_singular_matrix() -> None:
    T = SYMMETRIC.clone()
    T[1] = T[0]
    T[1, 0] += 1e-9
    T[1, 1] -= 1e-9
    assert np.abs(np.linalg.inv(T.numpy())).max() > 1e6
    assert inverse_transition(T).abs().max() < 5


def test_condition_number_of_symmetric_noise() -> None:
    """Ten classes that keep 46 % and spread the rest have the eigenvalues 1 and 0.4."""
    assert condition_number(SYMMETRIC) == pytest.approx(2.5)
    assert condition_number(torch.eye(3)) == 1
    assert condition_number(torch.full((4, 4), 0.25)) > 1e9
