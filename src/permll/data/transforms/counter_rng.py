"""Counter-based random numbers: a pure function of a key, equal on every process and in every worker.

Each visit of a sample has a key, mixed from seed, epoch, position in the epoch and view. All random draws of a view
come from the key, so that a run on three processes, or a resumed one, has the same pixels.

Keys are int64 tensors on the CPU. The arithmetic is NumPy's: it is unsigned, and for a few hundred numbers several
times as fast as torch's.
"""

import math
import zlib

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: its multiples are evenly distributed
_STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))  # shifts and factors of the splitmix64 finalizer
_MASK = (1 << 64) - 1

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
        start = _mix_int(start + _GOLDEN) + part
    return _to_tensor(_mix(_to_words(positions) * np.uint64(_GOLDEN) + np.uint64(_mix_int(start + _GOLDEN))))


def derive_seed(seed: int, name: str) -> int:
    """Return a seed for a name; the seed itself if the name is empty."""
    return _mix_int(_mix_int(seed + _GOLDEN) + zlib.crc32(name.encode())) >> 1 if name else seed


def fold_in(keys: Tensor, number: int) -> Tensor:
    """Return keys for step ``number`` of the same visits, with independent draws."""
    return _to_tensor(_mix(_to_words(keys) + np.uint64(_mix_int(number + 1))))


def uniform(keys: Tensor, count: int) -> Tensor:
    """Return ``count`` numbers in [0, 1) for each key: float32 (B, count).

    Examples:
        >>> uniform(torch.tensor([5, 6]), 3).shape
        torch.Size([2, 3])
    """
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
    bits = _mix(_to_words(keys)[:, None] + steps)
    return torch.from_numpy((bits >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24))


def randint(keys: Tensor, high: int) -> Tensor:
    """Return an integer in 0..high-1 for each key: int64 (B,)."""
    return (uniform(keys, 1)[:, 0] * high).long()


def normal(keys: Tensor, count: int) -> Tensor:
    """Return ``count`` standard normal numbers for each key: float32 (B, count), by the Box-Muller method."""
    first, second = uniform(keys, 2 * ((count + 1) // 2)).chunk(2, dim=1)
    radius = (-2 * torch.log1p(-first)).sqrt()
    angle = 2 * math.pi * second
    return torch.cat([radius * angle.cos(), radius * angle.sin()], dim=1)[:, :count]


def _mix(values: Words) -> Words:
    """Mix 64 bits so that each depends on all (splitmix64's finalizer)."""
    for shift, factor in _STEPS:
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
    return values ^ (values >> np.uint64(31))


def _mix_int(value: int) -> int:
    """Apply ``_mix`` to one Python integer."""
    value &= _MASK
    for shift, factor in _STEPS:
        value = (value ^ value >> shift) * factor & _MASK
    return value ^ value >> 31


def _to_words(keys: Tensor) -> Words:
    return keys.numpy().view(np.uint64)


def _to_tensor(words: Words) -> Tensor:
    return torch.from_numpy(words.view(np.int64))
