"""NT-Xent against loops over pairs of views."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from permll.functional.contrastive import nt_xent_loss


def cosine(one: list[float], other: list[float]) -> float:
    lengths = [math.sqrt(sum(x * x for x in row)) for row in (one, other)]
    return sum(x * y for x, y in zip(one, other, strict=True)) / (lengths[0] * lengths[1])


@pytest.mark.parametrize("temperature", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("rows", [2, 5])
def test_nt_xent_matches_loops(rows: int, temperature: float) -> None:
    first, second = torch.randn(2, rows, 3, dtype=torch.float64)
    views = [*first.tolist(), *second.tolist()]
    losses = nt_xent_loss(first, second, temperature)
    for i in range(2 * rows):
        other = (i + rows) % (2 * rows)
        total = sum(math.exp(cosine(views[i], views[k]) / temperature) for k in range(2 * rows) if k != i)
        expected = -math.log(math.exp(cosine(views[i], views[other]) / temperature) / total)
        assert losses[i].item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(st.floats(0.1, 10), st.integers(1, 6))
def test_nt_xent_is_scale_invariant_and_symmetric(scale: float, rows: int) -> None:
    first, second = torch.randn(2, rows, 4, dtype=torch.float64)
    losses = nt_xent_loss(first, second, 0.5)
    torch.testing.assert_close(nt_xent_loss(scale * first, second, 0.5), losses)
    torch.testing.assert_close(nt_xent_loss(second, first, 0.5), losses.roll(rows))
    assert bool((losses >= 0).all())


def test_nt_xent_of_single_sample_is_zero() -> None:
    assert nt_xent_loss(torch.randn(1, 3), torch.randn(1, 3), 0.05).tolist() == [0.0, 0.0]


def test_nt_xent_gradient_step_lowers_loss() -> None:
    first, second = (torch.randn(8, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    before = nt_xent_loss(first, second, 0.5).mean()
    gradients = torch.autograd.grad(before, (first, second))
    after = nt_xent_loss(
        *(view - 0.5 * gradient for view, gradient in zip((first, second), gradients, strict=True)), 0.5
    )
    assert after.mean() < before
    torch.autograd.gradcheck(lambda one, other: nt_xent_loss(one, other, 0.5), (first, second))


def test_nt_xent_of_zero_features_is_finite() -> None:
    first = torch.zeros(3, 4, requires_grad=True)
    losses = nt_xent_loss(first, torch.randn(3, 4), 0.05)
    losses.sum().backward()
    assert bool(losses.isfinite().all())
    assert first.grad is not None
    assert bool(first.grad.isfinite().all())
