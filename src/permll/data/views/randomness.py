"""Random numbers that depend on a key and on nothing else: the same on every rank, device and worker, in any order.

A visit of a sample has a key, mixed from seed, epoch, position in the epoch and view. All that is random about the view
is drawn from the key, so a run on three ranks, or one that was interrupted, sees the very same pixels.
"""

import math
import zlib

import torch
from torch import Tensor

_GOLDEN = -0x61C8864680B583EB  # 2^64 / golden ratio as a signed number: its multiples are spread evenly
_STEPS = ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15))  # shifts and factors of the splitmix64 finaliser


def visit_keys(seed: int, epoch: int, view: str, positions: Tensor) -> Tensor:
    """Return the keys (B,) of the visits at ``positions`` (B,) of an epoch.

    Examples:
        >>> both, one = (visit_keys(0, 3, "weak", torch.tensor(where)) for where in ([17, 4], [4]))
        >>> bool(both[1] == one[0])
        True
    """
    start = 0
    for part in (seed, epoch, zlib.crc32(view.encode())):
        start = _mix_number(start + _GOLDEN) + part
    return _mix(positions * _GOLDEN + _signed(_mix_number(start + _GOLDEN)))


def fold(keys: Tensor, number: int) -> Tensor:
    """Return other keys for the step ``number`` of the same visit, so that no two steps share their draws."""
    return _mix(keys + _signed(_mix_number(number + 1)))


def uniform(keys: Tensor, count: int) -> Tensor:
    """Return ``count`` numbers in [0, 1) for each key: float32 (B, count).

    Examples:
        >>> uniform(torch.tensor([5, 6]), 3).shape
        torch.Size([2, 3])
    """
    steps = torch.arange(1, count + 1, device=keys.device) * _GOLDEN
    bits = _mix(keys[:, None] + steps)
    return ((bits >> 40) & 0xFFFFFF).to(torch.float32) * 2.0**-24


def whole(keys: Tensor, below: int) -> Tensor:
    """Return a whole number in 0..below-1 for each key: int64 (B,)."""
    return (uniform(keys, 1)[:, 0] * below).long()


def normal(keys: Tensor, count: int) -> Tensor:
    """Return ``count`` standard normal numbers for each key: float32 (B, count), by Box and Muller's method."""
    half = (count + 1) // 2
    first, second = uniform(keys, 2 * half).chunk(2, dim=1)
    radius = (-2 * torch.log1p(-first)).sqrt()
    angle = 2 * math.pi * second
    return torch.cat([radius * angle.cos(), radius * angle.sin()], dim=1)[:, :count]


def _mix(values: Tensor) -> Tensor:
    """Turn 64 bits into 64 others, each of which depends on all (splitmix64's finaliser; shifts made unsigned)."""
    for shift, factor in _STEPS:
        values = (values ^ (values >> shift & (1 << 64 - shift) - 1)) * factor
    return values ^ (values >> 31 & (1 << 33) - 1)


def _mix_number(value: int) -> int:
    """Do the same to a Python number, as an unsigned one."""
    value %= 1 << 64
    for shift, factor in _STEPS:
        value = (value ^ value >> shift) * factor % (1 << 64)
    return value ^ value >> 31


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
