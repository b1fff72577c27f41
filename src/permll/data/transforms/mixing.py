"""Mixup: pairs of samples of one batch, and their targets, blended."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from permll.functional.mixup import mixup_blend


class Mix(NamedTuple):
    """Who is blended with whom, and how much of the first remains. The same mix goes over inputs and targets."""

    partner: Tensor  # (B,) int64
    share: Tensor  # (B,) float32 in [0, 1]

    def __call__(self, values: Tensor) -> Tensor:
        """Return share * values + (1 - share) * values of the partners, for values (B, ...)."""
        return mixup_blend(values, self.partner.to(values.device), self.share.to(values.device))


def mixup(keys: Tensor, alpha: float, *, per_sample: bool = False, keep_first: bool = False) -> Mix:
    """Return a mix whose shares come from Beta(alpha, alpha): one for the batch, or one ``per_sample``.

    Args:
        keys: (B,) of the batch's visits: the same keys, the same mix.
        alpha: > 0. Small: mostly one of the two; large: mostly half and half.
        per_sample: draw a share for each sample.
        keep_first: take max(share, 1 - share), so that a mix stays nearer to its own sample than to its partner.

    Examples:
        >>> mix = mixup(torch.tensor([3, 4, 5]), alpha=4.0)
        >>> mix(torch.eye(3)).sum(1)
        tensor([1., 1., 1.])
    """
    if alpha <= 0:
        raise ValueError(f"mixup's alpha must be positive, got {alpha}: without mixup, do not mix.")
    # One generator for the batch, told apart by all its keys: Beta numbers need a varying number of draws each.
    generator = np.random.default_rng(keys.numpy().view(np.uint64))
    share = generator.beta(alpha, alpha, len(keys) if per_sample else 1)
    if keep_first:
        share = np.maximum(share, 1 - share)
    partner = torch.from_numpy(generator.permutation(len(keys)))
    return Mix(partner, torch.from_numpy(share).float().expand(len(keys)))
