"""Mixup against its formula, and the distribution of its shares."""

import numpy as np
import pytest
import torch
from scipy import stats

from permll.data.transforms import mixup
from permll.data.transforms.counter_rng import visit_keys


@pytest.mark.parametrize("per_sample", [True, False])
def test_a_mix_is_its_formula(per_sample: bool) -> None:
    x, targets = torch.rand(6, 3, 4, 4), torch.eye(6)
    mix = mixup(visit_keys(0, 0, "", torch.arange(6)), 0.5, per_sample=per_sample)
    assert sorted(mix.partner.tolist()) == list(range(6))
    assert len(mix.share.unique()) == (6 if per_sample else 1)
    mixed, mixed_targets = mix(x), mix(targets)
    for i in range(6):
        j, share = int(mix.partner[i]), float(mix.share[i])
        np.testing.assert_allclose(mixed[i], share * x[i] + (1 - share) * x[j], atol=1e-6)
        np.testing.assert_allclose(mixed_targets[i], share * targets[i] + (1 - share) * targets[j], atol=1e-6)


def test_shares_follow_beta_and_keep_first_keeps_the_larger() -> None:
    keys = visit_keys(0, 0, "", torch.arange(5000))
    share = mixup(keys, 0.75, per_sample=True).share.numpy()
    assert stats.kstest(share, "beta", (0.75, 0.75)).pvalue > 0.01
    np.testing.assert_allclose(
        mixup(keys, 0.75, per_sample=True, keep_first=True).share, np.maximum(share, 1 - share), rtol=1e-6
    )


def test_the_same_keys_give_the_same_mix_and_others_another() -> None:
    one, again = (mixup(visit_keys(0, 0, "", torch.arange(8)), 4.0) for _ in range(2))
    other = mixup(visit_keys(0, 1, "", torch.arange(8)), 4.0)
    assert torch.equal(one.share, again.share)
    assert torch.equal(one.partner, again.partner)
    assert one.share[0] != other.share[0]


def test_alpha_must_be_positive() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        mixup(torch.arange(3), 0.0)
