"""Mixup against loops over samples and classes, and against the gradient."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from permll.data.transforms import mixup
from permll.functional.mixup import Share, bootstrapped_targets, guided_mixup_weight, mixup_blend, mixup_cross_entropy


def shares(rows: int) -> list[Share]:
    return [0.3, 0.0, 1.0, torch.rand(rows, dtype=torch.float64)]


def of(share: Share, row: int) -> float:
    return share[row].item() if isinstance(share, Tensor) else share


@pytest.mark.parametrize("shape", [(), (4,), (3, 5, 5)])
def test_blends_are_what_loops_make(shape: tuple[int, ...]) -> None:
    values, partner = torch.rand(6, *shape, dtype=torch.float64), torch.randperm(6)
    for share in shares(6):
        expected = torch.stack([of(share, i) * values[i] + (1 - of(share, i)) * values[partner[i]] for i in range(6)])
        torch.testing.assert_close(mixup_blend(values, partner, share), expected)


def test_blends_are_those_of_a_drawn_mix() -> None:
    mix, values = mixup(torch.arange(7), 0.9, per_sample=True), torch.rand(7, 2, 3)
    assert torch.equal(mixup_blend(values, *mix), mix(values))


def slow_cross_entropy(logits: Tensor, targets: Tensor, partner: Tensor, share: Share) -> list[float]:
    found = []
    for i, row in enumerate(logits.tolist()):
        total = sum(math.exp(value) for value in row)
        loss = 0.0
        for weight, sample in ((of(share, i), i), (1 - of(share, i), int(partner[i]))):
            for k, value in enumerate(row):
                target = targets[sample, k].item() if targets.ndim == 2 else float(targets[sample] == k)
                loss -= weight * target * math.log(math.exp(value) / total)
        found.append(loss)
    return found


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("hard", [True, False])
def test_mixed_losses_are_what_loops_make(classes: int, hard: bool) -> None:
    logits = torch.randn(6, classes, dtype=torch.float64)
    targets = torch.randint(classes, (6,)) if hard else torch.rand(6, classes, dtype=torch.float64).softmax(-1)
    partner = torch.randperm(6)
    for share in shares(6):
        found = mixup_cross_entropy(logits, targets, partner, share)
        assert found.tolist() == pytest.approx(slow_cross_entropy(logits, targets, partner, share))


def test_the_gradient_is_the_prediction_less_the_blended_target() -> None:
    logits = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    targets, partner = torch.rand(6, 4, dtype=torch.float64).softmax(-1), torch.randperm(6)
    share = torch.rand(6, dtype=torch.float64)
    mixup_cross_entropy(logits, targets, partner, share).sum().backward()
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad, logits.detach().softmax(-1) - mixup_blend(targets, partner, share))


@given(st.lists(st.floats(1e-4, 1), min_size=1, max_size=8), st.randoms())
def test_guided_shares_of_a_pair_sum_to_one(right: list[float], random: object) -> None:
    partner = list(range(len(right)))
    random.shuffle(partner)  # type: ignore[attr-defined]
    found = guided_mixup_weight(torch.tensor(right, dtype=torch.float64), torch.tensor(partner)).tolist()
    for i, j in enumerate(partner):
        assert found[i] == pytest.approx(right[i] / (right[i] + right[j]))
        if partner[j] == i:
            assert found[i] + found[j] == pytest.approx(1)


def test_bootstrapped_targets_are_what_loops_make() -> None:
    labels, predicted, wrong = torch.tensor([0, 2, 1]), torch.rand(3, 3).softmax(-1), torch.tensor([0.0, 0.25, 1.0])
    found = bootstrapped_targets(labels, predicted, wrong)
    for i in range(3):
        for k in range(3):
            w = wrong[i].item()
            assert found[i, k].item() == pytest.approx((1 - w) * float(labels[i] == k) + w * predicted[i, k].item())
    torch.testing.assert_close(found.sum(1), torch.ones(3))
