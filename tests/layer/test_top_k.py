"""Rows of which k entries are kept: against loops over classes, and against the dense closed forms."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from permll.layer import equations, top_k
from permll.layer.top_k import Change, TopKRows, compress, expand, largest, largest_entries, log_total, moved
from tests.helpers.layer_strategies import Samples, samples

EXACT = {"rtol": 1e-10, "atol": 1e-10}


@st.composite
def some_k(draw: st.DrawFn, num_classes: int) -> int:
    return draw(st.integers(1, num_classes))


def by_hand(row: list[float], label: int, k: int, tail: str) -> list[float]:
    """What is left of a row, with a loop: the label, the k - 1 largest others, and one number for the rest."""
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
def test_compressing_is_what_a_loop_does(tail: str, sample: Samples, data: st.DataObject) -> None:
    k = data.draw(some_k(sample.alpha.shape[1]))
    row = compress(sample.alpha, sample.labels, k, tail)
    assert torch.equal(row.classes[:, 0], sample.labels)
    found = expand(row, sample.alpha.shape[1])
    for mine, whole, y in zip(found, sample.alpha, sample.labels.tolist(), strict=True):
        assert_close(mine.tolist(), by_hand(whole.tolist(), y, k, tail), **EXACT)


@given(samples(), st.data())
def test_softmax_mass_or_the_sum_is_preserved(sample: Samples, data: st.DataObject) -> None:
    k = data.draw(some_k(sample.alpha.shape[1]))
    a = sample.alpha.softmax(-1)
    row = compress(sample.alpha, sample.labels, k, "logmeanexp")
    assert_close(log_total(row, a.shape[1]), sample.alpha.logsumexp(-1), **EXACT)
    assert_close(expand(row, a.shape[1]).softmax(-1).gather(1, row.classes), a.gather(1, row.classes), **EXACT)
    assert_close(expand(compress(a, sample.labels, k, "mean"), a.shape[1]).sum(-1), a.sum(-1), **EXACT)


@pytest.mark.parametrize("tail", ["mean", "logmeanexp"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(st.integers(2, 300), st.integers(1, 20), st.floats(-9, 9), st.integers(0, 2**31))
def test_a_row_with_no_more_than_k_different_entries_is_exact(
    tail: str, dtype: torch.dtype, num_classes: int, k: int, fill: float, seed: int
) -> None:
    k, fill = min(k, num_classes), abs(fill) if tail == "mean" else fill
    random = torch.Generator().manual_seed(seed)
    rows = torch.full((3, num_classes), fill, dtype=dtype)
    places = torch.rand(3, num_classes, generator=random).argsort(1)[:, :k]
    above = fill + 0.5 + torch.rand(3, k, generator=random, dtype=dtype)
    rows.scatter_(1, places, above)
    rows[0, places[0, 0]] = fill - 3.0  # the label may be the smallest
    row = compress(rows, places[:, 0], k, tail)
    assert torch.equal(expand(row, num_classes), rows)


@given(samples(), st.data())
def test_the_largest_entry_is_that_of_the_whole_row(sample: Samples, data: st.DataObject) -> None:
    num_classes = sample.alpha.shape[1]
    row = compress(
        sample.alpha.round(), sample.labels, data.draw(some_k(num_classes)), "mean"
    )  # rounded: there are ties
    assert torch.equal(largest(row, num_classes), expand(row, num_classes).argmax(1))


@given(st.integers(1, 3000), st.integers(0, 40), st.booleans(), st.integers(0, 2**31))
def test_the_largest_entries_are_those_of_topk(length: int, count: int, ties: bool, seed: int) -> None:
    count = min(count, length)
    rows = torch.rand(3, length, generator=torch.Generator().manual_seed(seed))
    rows = (20 * rows).round() if ties else rows
    values, places = largest_entries(rows, count)
    assert torch.equal(values, rows.topk(count).values)
    assert torch.equal(values, rows.gather(1, places))
    assert all(len(set(row)) == count for row in places.tolist())


@given(samples(max_classes=60), st.data())
def test_the_loss_and_both_gradients_are_those_of_the_dense_form(sample: Samples, data: st.DataObject) -> None:
    num_classes = sample.alpha.shape[1]
    k = data.draw(some_k(num_classes))
    row = compress(sample.alpha, sample.labels, k, "logmeanexp")
    expected = equations.prediction_ce(expand(row, num_classes), sample.logits, sample.labels)
    got = top_k.prediction_ce(row, sample.logits)
    assert_close(got.loss, expected.loss, **EXACT)
    assert_close(got.grad_logits, expected.grad_logits, **EXACT)
    change = got.grad_alpha
    assert_close(change.values, expected.grad_alpha.gather(1, change.classes), **EXACT)
    rest = torch.ones_like(expected.grad_alpha, dtype=torch.bool).scatter_(1, change.classes, False)
    for mean, variance, whole, others in zip(change.mean, change.variance, expected.grad_alpha, rest, strict=True):
        if others.any():
            assert_close(mean, whole[others].mean(), **EXACT)
            assert_close(variance, whole[others].var(correction=0), **EXACT)


@given(samples(max_classes=60, logit_scales=(0.01, 1.0, 10.0)), st.data())
def test_a_step_in_parts_is_that_of_the_whole_row(sample: Samples, data: st.DataObject) -> None:
    """Up to the third order of the step, of which what is not kept has next to nothing."""
    num_classes = sample.alpha.shape[1]
    k, lr = data.draw(some_k(num_classes)), data.draw(st.sampled_from([0.001, 0.02]))
    row = compress(sample.alpha, sample.labels, k, "logmeanexp")
    got = top_k.prediction_ce(row, sample.logits)
    dense = expand(row, num_classes)
    dense = dense - lr * equations.prediction_ce(dense, sample.logits, sample.labels).grad_alpha
    expected = expand(compress(dense, sample.labels, k, "logmeanexp"), num_classes)
    found = expand(moved(row, got.grad_alpha, -lr, num_classes), num_classes)
    assert_close(found, expected, rtol=0, atol=lr**3)


def test_a_row_that_moved_meanwhile_takes_the_change_of_classes_it_does_not_keep_from_the_rest() -> None:
    row = TopKRows(torch.tensor([[0, 1]]), torch.tensor([[1.0, 0.5]]), torch.tensor([0.0]))
    change = Change(
        torch.tensor([[0, 2, 3]]), torch.tensor([[-1.0, 0.2, 0.9]]), torch.tensor([-0.1]), torch.tensor([0.0])
    )
    after = moved(row, change, 1.0, 6)
    values = torch.tensor([0.2, -0.1, -0.1, 0.4])  # class 2, the other two, and class 1, which is no longer kept
    assert after.classes.tolist() == [[0, 3]]
    assert_close(after.values, torch.tensor([[0.0, 0.9]]))
    assert_close(after.tail, values.exp().mean().log()[None])


def apart(alpha: Tensor, other: Tensor) -> float:
    return float((alpha - other).abs().max())


@pytest.mark.parametrize("k", [1, 2, 4, 8])
@given(seed=st.integers(0, 2**31), num_classes=st.integers(9, 60), lr=st.sampled_from([0.01, 0.1, 0.5]))
@settings(max_examples=15)
def test_the_error_after_many_visits_is_what_was_let_go_and_its_growth(
    k: int, seed: int, num_classes: int, lr: float
) -> None:
    """A visit adds lr (r - a), whose slope is at most lr; so E ← (1 + lr) E + δ, δ what compressing changed this time.

    softmax has the slope max_j 2 a_j (1 - a_j) <= 1/2 in the largest entry, and there are two of them in a visit.
    """
    random = torch.Generator().manual_seed(seed)
    labels = torch.randint(num_classes, (4,), generator=random)
    dense = equations.initial_alpha(labels, num_classes, 0.35, torch.float64)
    row, bound = compress(dense, labels, k, "logmeanexp"), 0.0
    towards = 3 * torch.randn(4, num_classes, generator=random, dtype=torch.float64)
    for _ in range(60):
        logits = towards + torch.randn(4, num_classes, generator=random, dtype=torch.float64)
        dense = dense - lr * equations.prediction_ce(dense, logits, labels).grad_alpha
        mine = expand(row, num_classes)
        mine = mine - lr * equations.prediction_ce(mine, logits, labels).grad_alpha
        row = compress(mine, labels, k, "logmeanexp")
        bound = (1 + lr) * bound + apart(mine, expand(row, num_classes))
        assert apart(dense, expand(row, num_classes)) <= bound + 1e-9


def test_the_error_is_small_where_a_network_doubts_between_few_classes() -> None:
    """A hundred classes of which it means any of five: with as many kept, next to nothing is lost in 200 visits."""
    random = torch.Generator().manual_seed(0)
    labels = torch.randint(100, (64,), generator=random)
    meant = torch.rand(64, 100, generator=random).argsort(1)[:, :5]
    errors = {}
    for k in (2, 4, 8, 16):
        dense = equations.initial_alpha(labels, 100, 0.35)
        row = compress(dense, labels, k, "logmeanexp")
        visits = torch.Generator().manual_seed(1)
        for _ in range(200):
            logits = 0.3 * torch.randn(64, 100, generator=visits)
            logits.scatter_add_(1, meant, 6 + 2 * torch.randn(64, 5, generator=visits))
            dense = dense - 0.02 * equations.prediction_ce(dense, logits, labels).grad_alpha
            row = moved(row, top_k.prediction_ce(row, logits).grad_alpha, -0.02, 100)
        errors[k] = float((expand(row, 100).softmax(-1) - dense.softmax(-1)).abs().max())
    assert max(errors[8], errors[16]) < 1e-5  # rounding in float32
    assert errors[4] < errors[2] < 0.05
