"""Noise adaptation layers against loops over samples and classes, in float64."""

import math
from itertools import product
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from permll.functional.noise_adaptation import (
    conditional_transition_columns,
    log_transition_columns,
    noise_layer_loss,
    noise_layer_posterior,
    project_to_stochastic,
    relationship_graph,
    top_k_per_row,
)
from tests.helpers.pure_python import softmax

FEW_EXAMPLES = settings(max_examples=40)
EXACT = {"rtol": 1e-10, "atol": 1e-12}


class Layer(NamedTuple):
    logits: Tensor
    labels: Tensor
    W: Tensor


@st.composite
def layers(draw: st.DrawFn, max_classes: int = 12) -> Layer:
    """Draw logits, given labels and the parameters of a layer."""
    classes, batch = draw(st.integers(2, max_classes)), draw(st.integers(1, 5))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    scale = draw(st.sampled_from([0.1, 1.0, 10.0]))
    logits = scale * torch.randn(batch, classes, generator=generator, dtype=torch.float64)
    W = draw(st.sampled_from([0.1, 3.0])) * torch.randn(classes, classes, generator=generator, dtype=torch.float64)
    return Layer(logits, torch.randint(classes, (batch,), generator=generator), W)


def slow_posterior(logits: Tensor, label: int, theta: list[list[float]]) -> tuple[float, list[float]]:
    """Return -log (p Θ)_y and r of one sample."""
    p = softmax(logits.tolist())
    joint = [p[i] * theta[i][label] for i in range(len(p))]
    return -math.log(sum(joint)), [value / sum(joint) for value in joint]


@given(layers())
@FEW_EXAMPLES
def test_noise_layer_matches_loops(layer: Layer) -> None:
    theta = [softmax(row) for row in layer.W.tolist()]
    columns = log_transition_columns(layer.W.log_softmax(1), layer.labels)
    losses, posteriors = noise_layer_loss(layer.logits, columns), noise_layer_posterior(layer.logits, columns)
    for n, label in enumerate(layer.labels.tolist()):
        loss, r = slow_posterior(layer.logits[n], label, theta)
        assert losses[n].item() == pytest.approx(loss, rel=1e-10)
        assert posteriors[n].tolist() == pytest.approx(r, rel=1e-9, abs=1e-13)


@given(layers())
@FEW_EXAMPLES
def test_noise_layer_gradients(layer: Layer) -> None:
    """∂/∂z = p - r, and ∂/∂W_ij = Σ_n r_i (Θ_ij - [j = y])."""
    logits, W = layer.logits.clone().requires_grad_(), layer.W.clone().requires_grad_()
    columns = log_transition_columns(W.log_softmax(1), layer.labels)
    by_logits, by_W = torch.autograd.grad(noise_layer_loss(logits, columns).sum(), (logits, W))
    r, theta = noise_layer_posterior(layer.logits, columns.detach()), layer.W.softmax(1)
    assert_close(by_logits, layer.logits.softmax(1) - r, **EXACT)
    probs, posteriors = theta.tolist(), list(zip(layer.labels.tolist(), r.tolist(), strict=True))
    for i, j in product(range(len(theta)), repeat=2):
        expected = sum(posterior[i] * (probs[i][j] - (j == label)) for label, posterior in posteriors)
        assert by_W[i, j].item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_noise_layer_with_zero_entries_is_finite() -> None:
    theta = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    logits = torch.tensor([[0.0, 900.0, -900.0], [1.0, 2.0, 3.0]], dtype=torch.float64, requires_grad=True)
    columns = log_transition_columns(theta.log(), torch.tensor([2, 0]))
    losses = noise_layer_loss(logits, columns)
    assert losses[0].item() == pytest.approx(1800.0)
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    assert_close(gradient, logits.softmax(1) - noise_layer_posterior(logits, columns), **EXACT)
    assert noise_layer_posterior(logits, columns)[0].tolist() == [0.0, 0.0, 1.0]


@given(layers(max_classes=7), st.integers(1, 7), st.integers(1, 3))
@FEW_EXAMPLES
def test_conditional_columns_match_loops(layer: Layer, k: int, width: int) -> None:
    classes = len(layer.W)
    k = min(k, classes)
    features = torch.randn(len(layer.labels), width, dtype=torch.float64)
    u = torch.randn(width, classes, k, dtype=torch.float64)
    targets = top_k_per_row(layer.W, k)
    b = layer.W.gather(1, targets)
    result = conditional_transition_columns(features, u, b, targets, layer.labels)
    for n, label in enumerate(layer.labels.tolist()):
        for i in range(classes):
            w = [b[i, j].item() + sum((u[d, i, j] * features[n, d]).item() for d in range(width)) for j in range(k)]
            probs = dict(zip(targets[i].tolist(), softmax(w), strict=True))
            assert result[n, i].exp().item() == pytest.approx(probs.get(label, 0.0), rel=1e-9)
    assert result.isfinite().any(1).all(), "every label can come from its class"


def test_conditional_columns_with_zero_weights_match_simple_layer() -> None:
    W, labels = torch.randn(6, 6, dtype=torch.float64), torch.tensor([0, 5, 2])
    all_labels = torch.arange(6).expand(6, 6)
    u = torch.zeros(4, 6, 6, dtype=torch.float64)
    result = conditional_transition_columns(torch.randn(3, 4, dtype=torch.float64), u, W, all_labels, labels)
    assert_close(result, log_transition_columns(W.log_softmax(1), labels), **EXACT)


def test_conditional_columns_gradients_with_sparse_targets() -> None:
    features, u, b = (
        torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 2), (2, 4, 2), (4, 2))
    )
    targets, labels = top_k_per_row(torch.rand(4, 4), 2), torch.tensor([0, 3, 3])
    logits = torch.randn(3, 4, dtype=torch.float64)

    def loss(features: Tensor, u: Tensor, b: Tensor) -> Tensor:
        return noise_layer_loss(logits, conditional_transition_columns(features, u, b, targets, labels))

    assert torch.autograd.gradcheck(loss, (features, u, b))


@st.composite
def matrices(draw: st.DrawFn) -> Tensor:
    classes, rows = draw(st.integers(1, 9)), draw(st.integers(1, 4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    matrix = torch.randn(rows, classes, generator=generator, dtype=torch.float64)
    return draw(st.sampled_from([0.1, 1.0, 30.0])) * matrix.round(decimals=draw(st.integers(0, 3)))


def slow_projection(row: list[float], min_entry: float) -> list[float]:
    """Find τ by bisection."""
    low, high = min(row) - 2, max(row)
    for _ in range(200):
        tau = (low + high) / 2
        low, high = (tau, high) if sum(max(q - tau, min_entry) for q in row) > 1 else (low, tau)
    return [max(q - low, min_entry) for q in row]


@given(matrices(), st.sampled_from([0.0, 0.01, 0.5]))
def test_projection_matches_bisection(matrix: Tensor, fraction: float) -> None:
    min_entry = fraction / matrix.shape[1]
    result = project_to_stochastic(matrix, min_entry)
    for got, row in zip(result, matrix, strict=True):
        assert got.tolist() == pytest.approx(slow_projection(row.tolist(), min_entry), abs=1e-9)
    assert_close(result.sum(1), torch.ones(len(matrix), dtype=torch.float64))
    assert bool((result >= min_entry).all())
    assert_close(project_to_stochastic(result, min_entry), result, **EXACT)


@given(matrices())
@FEW_EXAMPLES
def test_projection_is_the_nearest_stochastic_matrix(matrix: Tensor) -> None:
    distance = (project_to_stochastic(matrix) - matrix).square().sum(1)
    for other in torch.distributions.Dirichlet(torch.ones(matrix.shape[1], dtype=torch.float64)).sample((50,)):
        assert bool(((other - matrix).square().sum(1) >= distance - 1e-9).all())


def test_projection_of_identity_is_identity() -> None:
    assert torch.equal(project_to_stochastic(torch.eye(1000)), torch.eye(1000))


@pytest.mark.parametrize("min_entry", [-0.1, 0.5, 0.7])
def test_projection_rejects_bad_min_entry(min_entry: float) -> None:
    with pytest.raises(ValueError, match=r"min_entry must lie in \[0, 1/2\)"):
        project_to_stochastic(torch.eye(2), min_entry)


@given(layers(), st.integers(1, 12))
@FEW_EXAMPLES
def test_top_k_per_row_starts_with_diagonal(layer: Layer, k: int) -> None:
    k = min(k, len(layer.W))
    result = top_k_per_row(layer.W, k)
    for i, row in enumerate(layer.W.tolist()):
        others = sorted((j for j in range(len(row)) if j != i), key=lambda j: -row[j])
        assert result[i].tolist() == [i, *others[: k - 1]]


@given(st.integers(2, 6), st.integers(1, 6), st.integers(0, 2**31))
@FEW_EXAMPLES
def test_relationship_graph_matches_loops(classes: int, k: int, seed: int) -> None:
    k = min(k, classes)
    generator = torch.Generator().manual_seed(seed)
    p = torch.randn(30, classes, generator=generator, dtype=torch.float64).softmax(1)
    labels = torch.randint(classes, (30,), generator=generator)
    result = relationship_graph(p, labels, k)
    for i in range(classes):
        easy = [
            row for row, label in zip(p.tolist(), labels.tolist(), strict=True) if label == i == row.index(max(row))
        ]
        mean = [sum(row[j] for row in easy) / len(easy) if easy else float(i == j) for j in range(classes)]
        others = sorted((j for j in range(classes) if j != i), key=lambda j: -mean[j])[: k - 1]
        total = mean[i] + sum(mean[j] for j in others)
        expected = [mean[j] / total if j == i or j in others else 0.0 for j in range(classes)]
        assert result[i].tolist() == pytest.approx(expected, rel=1e-10)


def test_relationship_graph_without_easy_rows_is_identity() -> None:
    p = torch.tensor([[0.9, 0.1], [0.1, 0.9]])
    assert torch.equal(relationship_graph(p, torch.tensor([1, 0]), 2), torch.eye(2, dtype=torch.float64))
