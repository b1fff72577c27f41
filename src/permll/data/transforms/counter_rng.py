"""Random numbers that depend on a key and on nothing else: the same on every rank and in every worker, in any order.

A visit of a sample has a key, mixed from seed, epoch, position in the epoch and view. All that is random about the view
is drawn from the key, so a run on three ranks, or one that was interrupted, sees the very same pixels.

Keys live on the CPU as int64 tensors. The arithmetic is NumPy's: unsigned, and on a few hundred numbers several times
as fast as torch's.
"""

import math
import zlib

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: its multiples are spread evenly
_STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))  # shifts and factors of the splitmix64 finaliser
_ALL = (1 << 64) - 1

Words = NDArray[np.uint64]


def visit_keys(seed: int, epoch: int, view: str, positions: Tensor) -> Tensor:
    """Return the keys (B,) of the visits at ``positions`` (B,) of an epoch.

    Examples:
        >>> both, one = (visit_keys(0, 3, "weak", torch.tensor(where)) for where in ([17, 4], [4]))
        >>> bool(both[1] == one[0])
        True
    """
    start = 0
    for part in (seed, epoch, zlib.crc32(view.encode())):
        start = _mix_one(start + _GOLDEN) + part
    return _tensor(_mix(_words(positions) * np.uint64(_GOLDEN) + np.uint64(_mix_one(start + _GOLDEN))))


def named_seed(seed: int, name: str) -> int:
    """Return another seed for each name, and the seed itself for none."""
    return _mix_one(_mix_one(seed + _GOLDEN) + zlib.crc32(name.encode())) >> 1 if name else seed


def fold(keys: Tensor, number: int) -> Tensor:
    """Return other keys for the step ``number`` of the same visit, so that no two steps share their draws."""
    return _tensor(_mix(_words(keys) + np.uint64(_mix_one(number + 1))))


def uniform(keys: Tensor, count: int) -> Tensor:
    """Return ``count`` numbers in [0, 1) for each key: float32 (B, count).

    Examples:
        >>> uniform(torch.tensor([5, 6]), 3).shape
        torch.Size([2, 3])
    """
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
    bits = _mix(_words(keys)[:, None] + steps)
    return torch.from_numpy((bits >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24))


def whole(keys: Tensor, below: int) -> Tensor:
    """Return a whole number in 0..below-1 for each key: int64 (B,)."""
    return (uniform(keys, 1)[:, 0] * below).long()


def normal(keys: Tensor, count: int) -> Tensor:
    """Return ``count`` standard normal numbers for each key: float32 (B, count), by Box and Muller's method."""
    first, second = uniform(keys, 2 * ((count + 1) // 2)).chunk(2, dim=1)
    radius = (-2 * torch.log1p(-first)).sqrt()
    angle = 2 * math.pi * second
    return torch.cat([radius * angle.cos(), radius * angle.sin()], dim=1)[:, :count]


def _mix(values: Words) -> Words:
    """Turn 64 bits into 64 others, each of which depends on all (splitmix64's finaliser)."""
    for shift, factor in _STEPS:
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
    return values ^ (values >> np.uint64(31))


def _mix_one(value: int) -> int:
    """Do the same to one number."""
    value &= _ALL
    for shift, factor in _STEPS:
        value = (value ^ value >> shift) * factor & _ALL
    return value ^ value >> 31


def _words(keys: Tensor) -> Words:
    return keys.numpy().view(np.uint64)


def _tensor(words: Words) -> Tensor:
    return torch.from_numpy(words.view(np.int64))
