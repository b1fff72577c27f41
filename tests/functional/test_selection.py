"""Sample selection against loops, weights and JoCoR's loss against formulas, JS divergence against scipy."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from torch import Tensor

from permll.functional.label_refurbishment import kl_divergence
from permll.functional.selection import (
    disagreement_mask,
    jocor_loss,
    js_divergence_cutoff,
    label_js_divergence,
    selection_weights,
    small_loss_mask,
    uniform_selection_mask,
)
from tests.helpers.pure_python import softmax

MASKS = st.lists(st.booleans(), min_size=1, max_size=12)


# --- Masks ---------------------------------------------------------------------------------------------------------


def test_disagreement_mask_matches_loops() -> None:
    one, other = torch.randn(40, 3), torch.randn(40, 3)
    expected = [a.index(max(a)) != b.index(max(b)) for a, b in zip(one.tolist(), other.tolist(), strict=True)]
    assert disagreement_mask(one, other).tolist() == expected
    assert not disagreement_mask(one, 3 * one + 1).any(), "confidence does not matter"


def slow_small_loss_mask(losses: list[float], drop: float, among: list[bool]) -> list[bool]:
    places = sorted((place for place in range(len(losses)) if among[place]), key=lambda place: losses[place])
    count = max(math.floor((1 - drop) * len(places) + 1e-4), 1)
    return [place in places[:count] for place in range(len(losses))]


@given(
    st.lists(st.tuples(st.floats(0, 5, width=32), st.booleans()), min_size=1, max_size=20),
    st.integers(0, 99).map(lambda percent: percent / 100),
)
def test_small_loss_mask_matches_sort(rows: list[tuple[float, bool]], drop: float) -> None:
    losses, among = ([row[part] for row in rows] for part in (0, 1))
    result = small_loss_mask(torch.tensor(losses), drop, torch.tensor(among, dtype=torch.bool))
    assert result.tolist() == slow_small_loss_mask(losses, drop, among)
    every = small_loss_mask(torch.tensor(losses), torch.tensor(drop))
    assert every.tolist() == slow_small_loss_mask(losses, drop, [True] * len(losses))


@pytest.mark.parametrize(("drop", "kept"), [(0.0, 10), (0.05, 9), (0.2, 8), (0.7, 3), (0.8, 2), (0.9, 1), (0.99, 1)])
def test_small_loss_mask_keeps_requested_count(drop: float, kept: int) -> None:
    for rate in (drop, torch.tensor(drop)):
        assert int(small_loss_mask(torch.rand(10), rate).sum()) == kept, "rounding takes none away, and one remains"


def test_small_loss_mask_excludes_nonfinite_losses() -> None:
    losses = torch.tensor([math.nan, 3.0, math.inf, 1.0])
    assert small_loss_mask(losses, 0.5).tolist() == [False, True, False, True]
    among = torch.tensor([True, True, False, False])
    assert small_loss_mask(losses, 0.5, among).tolist() == [False, True, False, False]
    assert not small_loss_mask(losses, 0.5, torch.zeros(4, dtype=torch.bool)).any()


# --- Weights -------------------------------------------------------------------------------------------------------


@given(MASKS)
def test_selection_weights_give_mean_over_selected(mask: list[bool]) -> None:
    losses = torch.rand(len(mask), dtype=torch.float64)
    mean = (selection_weights(torch.tensor(mask)) * losses).mean().item()
    selected = [loss for loss, is_selected in zip(losses.tolist(), mask, strict=True) if is_selected]
    assert mean == pytest.approx(sum(selected) / len(selected) if selected else 0.0)


@given(MASKS, st.floats(0, 1))
def test_selection_weights_limit_small_selections(mask: list[bool], min_fraction: float) -> None:
    weights = selection_weights(torch.tensor(mask), min_fraction).tolist()
    size, count = len(mask), sum(mask)
    for weight, is_selected in zip(weights, mask, strict=True):
        assert weight == pytest.approx(size / max(count, min_fraction * size, 1) if is_selected else 0.0)
    assert sum(weights) / size <= 1 + 1e-6


# --- JoCoR ---------------------------------------------------------------------------------------------------------


def test_jocor_loss_matches_loops() -> None:
    one, other = 2 * torch.randn(8, 4, dtype=torch.float64), 2 * torch.randn(8, 4, dtype=torch.float64)
    labels = torch.arange(8) % 4
    result = jocor_loss(one, other, labels, 0.85)
    for i, y in enumerate(labels.tolist()):
        p, q = softmax(one[i].tolist()), softmax(other[i].tolist())
        divergence = sum(a * math.log(a / b) + b * math.log(b / a) for a, b in zip(p, q, strict=True))
        expected = 0.15 * (-math.log(p[y]) - math.log(q[y])) + 0.85 * divergence
        assert result[i].item() == pytest.approx(expected)
    torch.testing.assert_close(
        jocor_loss(one, other, labels, 1.0), kl_divergence(one, other) + kl_divergence(other, one)
    )
    torch.testing.assert_close(jocor_loss(one, other, labels, 0.85), jocor_loss(other, one, labels, 0.85))


def test_jocor_loss_gradient() -> None:
    one, other = (torch.randn(5, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    labels = torch.tensor([0, 1, 2, 0, 1])
    assert torch.autograd.gradcheck(lambda a, b: jocor_loss(a, b, labels, 0.7), (one, other))
    labeled: Tensor = torch.nn.functional.cross_entropy(one, labels, reduction="sum")
    (expected,) = torch.autograd.grad(0.3 * labeled, one)
    same = one.detach().clone()
    (result,) = torch.autograd.grad(jocor_loss(one, same, labels, 0.7).sum(), one)
    torch.testing.assert_close(result, expected, msg="the agreement term has no gradient for equal predictions")


def test_jocor_loss_is_finite_for_extreme_logits() -> None:
    confident = torch.tensor([[200.0, 0.0], [0.0, 200.0]])
    assert jocor_loss(confident, confident.flip(1), torch.tensor([0, 0]), 0.9).isfinite().all()


# --- UniCon ---------------------------------------------------------------------------------------------------------


def test_label_js_divergence_matches_scipy() -> None:
    p, labels = (3 * torch.randn(20, 5, dtype=torch.float64)).softmax(-1), torch.randint(5, (20,))
    for units, base in (("bits", 2.0), ("nats", math.e)):
        result = label_js_divergence(p, labels, units)  # type: ignore[arg-type]
        for i in range(20):
            given_label = [float(k == labels[i]) for k in range(5)]
            assert result[i].item() == pytest.approx(jensenshannon(p[i].numpy(), given_label, base) ** 2, abs=1e-12)


def test_label_js_divergence_of_certain_predictions() -> None:
    p, labels = torch.eye(3).repeat(2, 1), torch.tensor([0, 1, 2, 1, 2, 0])
    assert label_js_divergence(p, labels).tolist() == pytest.approx([0, 0, 0, 1, 1, 1])
    assert label_js_divergence(p, labels, "nats").tolist() == pytest.approx([0, 0, 0, *[math.log(2)] * 3])


@given(st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_label_js_divergence_is_bounded_and_decreasing(label_probs: list[float]) -> None:
    given_class = torch.tensor(sorted(label_probs))
    p = torch.stack([given_class, 1 - given_class], dim=1)
    result = label_js_divergence(p, torch.zeros(len(p), dtype=torch.int64))
    assert bool(((result >= 0) & (result <= 1)).all())
    assert bool((result.diff() <= 1e-6).all())


def test_js_divergence_cutoff() -> None:
    low = torch.tensor([0.1, 0.2, 0.9], dtype=torch.float64)
    assert js_divergence_cutoff(low) == pytest.approx(0.4)
    high = torch.tensor([0.5, 0.9, 1.0], dtype=torch.float64)
    assert js_divergence_cutoff(high) == pytest.approx(0.8 - (0.8 - 0.5) / 5)
    assert js_divergence_cutoff(high, mean=0.9) == pytest.approx(0.8)
    assert js_divergence_cutoff(high, tau=1.0) == pytest.approx(0.5)


@given(st.data())
def test_uniform_selection_matches_sort(data: st.DataObject) -> None:
    labels = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=40))
    divergence = [data.draw(st.sampled_from([0.0, 0.1, 0.2, 0.5, 1.0])) for _ in labels]
    quota = data.draw(st.integers(0, 12))
    result = uniform_selection_mask(torch.tensor(divergence), torch.tensor(labels), quota).tolist()
    for label in set(labels):
        rows = [row for row in range(len(labels)) if labels[row] == label]
        best = sorted(rows, key=lambda row: (divergence[row], row))[:quota]
        assert [row for row in rows if result[row]] == sorted(best)
