"""Mixup against its formula, and the distribution of lam."""

import numpy as np
import pytest
import torch
from scipy import stats

from permll.data.transforms import mixup
from permll.data.transforms.counter_rng import visit_keys


@pytest.mark.parametrize("per_sample", [True, False])
def test_mix_equals_formula(per_sample: bool) -> None:
    x, targets = torch.rand(6, 3, 4, 4), torch.eye(6)
    mix = mixup(visit_keys(0, 0, "", torch.arange(6)), 0.5, per_sample=per_sample)
    assert sorted(mix.partner.tolist()) == list(range(6))
    assert len(mix.lam.unique()) == (6 if per_sample else 1)
    mixed, mixed_targets = mix(x), mix(targets)
    for i in range(6):
        j, lam = int(mix.partner[i]), float(mix.lam[i])
        np.testing.assert_allclose(mixed[i], lam * x[i] + (1 - lam) * x[j], atol=1e-6)
        np.testing.assert_allclose(mixed_targets[i], lam * targets[i] + (1 - lam) * targets[j], atol=1e-6)


def test_mixup_lam_follows_beta() -> None:
    keys = visit_keys(0, 0, "", torch.arange(5000))
    lam = mixup(keys, 0.75, per_sample=True).lam.numpy()
    assert stats.kstest(lam, "beta", (0.75, 0.75)).pvalue > 0.01
    np.testing.assert_allclose(
        mixup(keys, 0.75, per_sample=True, keep_first=True).lam, np.maximum(lam, 1 - lam), rtol=1e-6
    )


def test_mixup_depends_only_on_keys() -> None:
    one, again = (mixup(visit_keys(0, 0, "", torch.arange(8)), 4.0) for _ in range(2))
    other = mixup(visit_keys(0, 1, "", torch.arange(8)), 4.0)
    assert torch.equal(one.lam, again.lam)
    assert torch.equal(one.partner, again.partner)
    assert one.lam[0] != other.lam[0]


def test_mixup_rejects_alpha_not_positive() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        mixup(torch.arange(3), 0.0)
