"""Top-k rows against loops over classes and against the dense closed forms."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from permll.layer import equations, top_k
from permll.layer.top_k import (
    TopKRows,
    TopKUpdate,
    apply_update,
    compress,
    expand,
    grouped_topk,
    row_argmax,
    row_logsumexp,
)
from tests.helpers.layer_strategies import Samples, samples

EXACT = {"rtol": 1e-10, "atol": 1e-10}


@st.composite
def ks(draw: st.DrawFn, num_classes: int) -> int:
    return draw(st.integers(1, num_classes))


def slow_compress(row: list[float], label: int, k: int, tail: str) -> list[float]:
    """Compress and expand one row with a loop."""
    size = abs if tail == "mean" else float
    others = sorted((j for j in range(len(row)) if j != label), key=lambda j: -size(row[j]))
    kept, rest = {label, *others[: k - 1]}, others[k - 1 :]
    if not rest:
        return row
    numbers = [row[j] for j in rest]
    shared = sum(numbers) / len(numbers)
    if tail == "logmeanexp":
        top = max(numbers)
        shared = top + math.log(sum(math.exp(x - top) for x in numbers) / len(numbers))
    return [row[j] if j in kept else shared for j in range(len(row))]


@pytest.mark.parametrize("tail", ["mean", "logmeanexp"])
@given(samples(max_classes=40), st.data())
def test_compress_matches_loop(tail: str, sample: Samples, data: st.DataObject) -> None:
    k = data.draw(ks(sample.alpha.shape[1]))
    row = compress(sample.alpha, sample.labels, k, tail)
    assert torch.equal(row.classes[:, 0], sample.labels)
    result = expand(row, sample.alpha.shape[1])
    for compressed, dense, y in zip(result, sample.alpha, sample.labels.tolist(), strict=True):
        assert_close(compressed.tolist(), slow_compress(dense.tolist(), y, k, tail), **EXACT)


@given(samples(), st.data())
def test_compress_preserves_softmax_mass_or_sum(sample: Samples, data: st.DataObject) -> None:
    k = data.draw(ks(sample.alpha.shape[1]))
    a = sample.alpha.softmax(-1)
    row = compress(sample.alpha, sample.labels, k, "logmeanexp")
    assert_close(row_logsumexp(row, a.shape[1]), sample.alpha.logsumexp(-1), **EXACT)
    assert_close(expand(row, a.shape[1]).softmax(-1).gather(1, row.classes), a.gather(1, row.classes), **EXACT)
    assert_close(expand(compress(a, sample.labels, k, "mean"), a.shape[1]).sum(-1), a.sum(-1), **EXACT)


@pytest.mark.parametrize("tail", ["mean", "logmeanexp"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(st.integers(2, 300), st.integers(1, 20), st.floats(-9, 9), st.integers(0, 2**31))
def test_row_with_at_most_k_different_entries_is_exact(
    tail: str, dtype: torch.dtype, num_classes: int, k: int, fill: float, seed: int
) -> None:
    k, fill = min(k, num_classes), abs(fill) if tail == "mean" else fill
    random = torch.Generator().manual_seed(seed)
    rows = torch.full((3, num_classes), fill, dtype=dtype)
    positions = torch.rand(3, num_classes, generator=random).argsort(1)[:, :k]
    above = fill + 0.5 + torch.rand(3, k, generator=random, dtype=dtype)
    rows.scatter_(1, positions, above)
    rows[0, positions[0, 0]] = fill - 3.0  # the label may have the smallest value
    row = compress(rows, positions[:, 0], k, tail)
    assert torch.equal(expand(row, num_classes), rows)


@given(samples(), st.data())
def test_row_argmax_matches_dense_row(sample: Samples, data: st.DataObject) -> None:
    num_classes = sample.alpha.shape[1]
    row = compress(sample.alpha.round(), sample.labels, data.draw(ks(num_classes)), "mean")  # rounding creates ties
    assert torch.equal(row_argmax(row, num_classes), expand(row, num_classes).argmax(1))


@given(st.integers(1, 3000), st.integers(0, 40), st.booleans(), st.integers(0, 2**31))
def test_grouped_topk_matches_topk(length: int, count: int, ties: bool, seed: int) -> None:
    count = min(count, length)
    rows = torch.rand(3, length, generator=torch.Generator().manual_seed(seed))
    rows = (20 * rows).round() if ties else rows
    values, positions = grouped_topk(rows, count)
    assert torch.equal(values, rows.topk(count).values)
    assert torch.equal(values, rows.gather(1, positions))
    assert all(len(set(row)) == count for row in positions.tolist())


@given(samples(max_classes=60), st.data())
def test_prediction_ce_matches_dense_form(sample: Samples, data: st.DataObject) -> None:
    num_classes = sample.alpha.shape[1]
    k = data.draw(ks(num_classes))
    row = compress(sample.alpha, sample.labels, k, "logmeanexp")
    expected = equations.prediction_ce(expand(row, num_classes), sample.logits, sample.labels)
    got = top_k.prediction_ce(row, sample.logits)
    assert_close(got.loss, expected.loss, **EXACT)
    assert_close(got.grad_logits, expected.grad_logits, **EXACT)
    update = got.grad_alpha
    assert_close(update.values, expected.grad_alpha.gather(1, update.classes), **EXACT)
    rest = torch.ones_like(expected.grad_alpha, dtype=torch.bool).scatter_(1, update.classes, False)
    for mean, variance, dense, others in zip(update.mean, update.variance, expected.grad_alpha, rest, strict=True):
        if others.any():
            assert_close(mean, dense[others].mean(), **EXACT)
            assert_close(variance, dense[others].var(correction=0), **EXACT)


@given(samples(max_classes=60, logit_scales=(0.01, 1.0, 10.0)), st.data())
def test_apply_update_matches_dense_step(sample: Samples, data: st.DataObject) -> None:
    """Equal up to the third order of the step."""
    num_classes = sample.alpha.shape[1]
    k, lr = data.draw(ks(num_classes)), data.draw(st.sampled_from([0.001, 0.02]))
    row = compress(sample.alpha, sample.labels, k, "logmeanexp")
    got = top_k.prediction_ce(row, sample.logits)
    dense = expand(row, num_classes)
    dense = dense - lr * equations.prediction_ce(dense, sample.logits, sample.labels).grad_alpha
    expected = expand(compress(dense, sample.labels, k, "logmeanexp"), num_classes)
    result = expand(apply_update(row, got.grad_alpha, -lr, num_classes), num_classes)
    assert_close(result, expected, rtol=0, atol=lr**3)


def test_update_of_a_row_that_changed_in_between() -> None:
    row = TopKRows(torch.tensor([[0, 1]]), torch.tensor([[1.0, 0.5]]), torch.tensor([0.0]))
    update = TopKUpdate(
        torch.tensor([[0, 2, 3]]), torch.tensor([[-1.0, 0.2, 0.9]]), torch.tensor([-0.1]), torch.tensor([0.0])
    )
    after = apply_update(row, update, 1.0, 6)
    values = torch.tensor([0.2, -0.1, -0.1, 0.4])  # class 2, the two others, and class 1, which is dropped
    assert after.classes.tolist() == [[0, 3]]
    assert_close(after.values, torch.tensor([[0.0, 0.9]]))
    assert_close(after.tail, values.exp().mean().log()[None])


def max_difference(alpha: Tensor, other: Tensor) -> float:
    return float((alpha - other).abs().max())


@pytest.mark.parametrize("k", [1, 2, 4, 8])
@given(seed=st.integers(0, 2**31), num_classes=st.integers(9, 60), lr=st.sampled_from([0.01, 0.1, 0.5]))
@settings(max_examples=15)
def test_compression_error_obeys_bound(k: int, seed: int, num_classes: int, lr: float) -> None:
    """An update adds lr (r - a), of slope at most lr, so E ← (1 + lr) E + δ, with δ the update by compression.

    softmax has the slope max_j 2 a_j (1 - a_j) <= 1/2 in the maximum norm, and an update contains two of them.
    """
    random = torch.Generator().manual_seed(seed)
    labels = torch.randint(num_classes, (4,), generator=random)
    dense = equations.initial_alpha(labels, num_classes, 0.35, torch.float64)
    row, bound = compress(dense, labels, k, "logmeanexp"), 0.0
    mean_logits = 3 * torch.randn(4, num_classes, generator=random, dtype=torch.float64)
    for _ in range(60):
        logits = mean_logits + torch.randn(4, num_classes, generator=random, dtype=torch.float64)
        dense = dense - lr * equations.prediction_ce(dense, logits, labels).grad_alpha
        compressed = expand(row, num_classes)
        compressed = compressed - lr * equations.prediction_ce(compressed, logits, labels).grad_alpha
        row = compress(compressed, labels, k, "logmeanexp")
        bound = (1 + lr) * bound + max_difference(compressed, expand(row, num_classes))
        assert max_difference(dense, expand(row, num_classes)) <= bound + 1e-9


def test_compression_error_is_small_for_few_likely_classes() -> None:
    """100 classes of which five are likely: with k >= 8 almost nothing is lost in 200 updates."""
    random = torch.Generator().manual_seed(0)
    labels = torch.randint(100, (64,), generator=random)
    likely = torch.rand(64, 100, generator=random).argsort(1)[:, :5]
    errors = {}
    for k in (2, 4, 8, 16):
        dense = equations.initial_alpha(labels, 100, 0.35)
        row = compress(dense, labels, k, "logmeanexp")
        random = torch.Generator().manual_seed(1)
        for _ in range(200):
            logits = 0.3 * torch.randn(64, 100, generator=random)
            logits.scatter_add_(1, likely, 6 + 2 * torch.randn(64, 5, generator=random))
            dense = dense - 0.02 * equations.prediction_ce(dense, logits, labels).grad_alpha
            row = apply_update(row, top_k.prediction_ce(row, logits).grad_alpha, -0.02, 100)
        errors[k] = float((expand(row, 100).softmax(-1) - dense.softmax(-1)).abs().max())
    assert max(errors[8], errors[16]) < 1e-5  # rounding in float32
    assert errors[4] < errors[2] < 0.05
