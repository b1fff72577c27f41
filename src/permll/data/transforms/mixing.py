"""Mixup: convex combinations of pairs of samples in a batch, and of their targets."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from permll.functional.mixup import mixup_blend


class Mix(NamedTuple):
    """Partners and coefficients of a mixup; apply the same mix to inputs and targets."""

    partner: Tensor  # (B,) int64
    lam: Tensor  # (B,) float32 in [0, 1]

    def __call__(self, values: Tensor) -> Tensor:
        """Return lam * values + (1 - lam) * values[partner], for values (B, ...)."""
        return mixup_blend(values, self.partner.to(values.device), self.lam.to(values.device))


def mixup(keys: Tensor, alpha: float, *, per_sample: bool = False, keep_first: bool = False) -> Mix:
    """Draw a mix with lam from Beta(alpha, alpha): one for the batch, or one ``per_sample``.

    Args:
        keys: (B,) keys of the batch; they determine the mix.
        alpha: parameter of the Beta distribution, > 0.
        per_sample: draw lam for each sample.
        keep_first: use max(lam, 1 - lam), so that a mix is nearer to its own sample than to its partner.

    Examples:
        >>> mix = mixup(torch.tensor([3, 4, 5]), alpha=4.0)
        >>> mix(torch.eye(3)).sum(1)
        tensor([1., 1., 1.])
    """
    if alpha <= 0:
        raise ValueError(f"mixup's alpha must be positive, got {alpha}.")
    # One generator for the batch, seeded by all its keys: a Beta draw consumes a varying number of random numbers.
    generator = np.random.default_rng(keys.numpy().view(np.uint64))
    lam = generator.beta(alpha, alpha, len(keys) if per_sample else 1)
    if keep_first:
        lam = np.maximum(lam, 1 - lam)
    partner = torch.from_numpy(generator.permutation(len(keys)))
    return Mix(partner, torch.from_numpy(lam).float().expand(len(keys)))
