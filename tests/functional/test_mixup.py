"""Mixup against loops over samples and classes."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from permll.data.transforms import mixup
from permll.functional.mixup import (
    MixupWeight,
    bootstrapped_targets,
    guided_mixup_weight,
    mixup_blend,
    mixup_cross_entropy,
)


def weights(rows: int) -> list[MixupWeight]:
    return [0.3, 0.0, 1.0, torch.rand(rows, dtype=torch.float64)]


def weight_of(lam: MixupWeight, row: int) -> float:
    return lam[row].item() if isinstance(lam, Tensor) else lam


@pytest.mark.parametrize("shape", [(), (4,), (3, 5, 5)])
def test_mixup_blend_matches_loops(shape: tuple[int, ...]) -> None:
    values, partner = torch.rand(6, *shape, dtype=torch.float64), torch.randperm(6)
    for lam in weights(6):
        expected = torch.stack(
            [weight_of(lam, i) * values[i] + (1 - weight_of(lam, i)) * values[partner[i]] for i in range(6)]
        )
        torch.testing.assert_close(mixup_blend(values, partner, lam), expected)


def test_mixup_blend_matches_transform() -> None:
    mix, values = mixup(torch.arange(7), 0.9, per_sample=True), torch.rand(7, 2, 3)
    assert torch.equal(mixup_blend(values, *mix), mix(values))


def slow_cross_entropy(logits: Tensor, targets: Tensor, partner: Tensor, lam: MixupWeight) -> list[float]:
    losses = []
    for i, row in enumerate(logits.tolist()):
        total = sum(math.exp(value) for value in row)
        loss = 0.0
        for weight, sample in ((weight_of(lam, i), i), (1 - weight_of(lam, i), int(partner[i]))):
            for k, value in enumerate(row):
                target = targets[sample, k].item() if targets.ndim == 2 else float(targets[sample] == k)
                loss -= weight * target * math.log(math.exp(value) / total)
        losses.append(loss)
    return losses


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("hard", [True, False])
def test_mixup_cross_entropy_matches_loops(classes: int, hard: bool) -> None:
    logits = torch.randn(6, classes, dtype=torch.float64)
    targets = torch.randint(classes, (6,)) if hard else torch.rand(6, classes, dtype=torch.float64).softmax(-1)
    partner = torch.randperm(6)
    for lam in weights(6):
        losses = mixup_cross_entropy(logits, targets, partner, lam)
        assert losses.tolist() == pytest.approx(slow_cross_entropy(logits, targets, partner, lam))


def test_mixup_cross_entropy_gradient() -> None:
    logits = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    targets, partner = torch.rand(6, 4, dtype=torch.float64).softmax(-1), torch.randperm(6)
    lam = torch.rand(6, dtype=torch.float64)
    mixup_cross_entropy(logits, targets, partner, lam).sum().backward()
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad, logits.detach().softmax(-1) - mixup_blend(targets, partner, lam))


@given(st.lists(st.floats(1e-4, 1), min_size=1, max_size=8), st.randoms())
def test_guided_mixup_weight_matches_formula(clean_probs: list[float], random: object) -> None:
    partner = list(range(len(clean_probs)))
    random.shuffle(partner)  # type: ignore[attr-defined]
    lam = guided_mixup_weight(torch.tensor(clean_probs, dtype=torch.float64), torch.tensor(partner)).tolist()
    for i, j in enumerate(partner):
        assert lam[i] == pytest.approx(clean_probs[i] / (clean_probs[i] + clean_probs[j]))
        if partner[j] == i:
            assert lam[i] + lam[j] == pytest.approx(1)


def test_bootstrapped_targets_match_loops() -> None:
    labels, predicted, noisy_probs = (
        torch.tensor([0, 2, 1]),
        torch.rand(3, 3).softmax(-1),
        torch.tensor([0.0, 0.25, 1.0]),
    )
    targets = bootstrapped_targets(labels, predicted, noisy_probs)
    for i in range(3):
        for k in range(3):
            w = noisy_probs[i].item()
            assert targets[i, k].item() == pytest.approx((1 - w) * float(labels[i] == k) + w * predicted[i, k].item())
    torch.testing.assert_close(targets.sum(1), torch.ones(3))
