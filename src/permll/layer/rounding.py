"""Stochastic rounding to bfloat16 with counter-based random bits.

A number x between two adjacent bfloat16 numbers lo and hi becomes hi with probability (x - lo) / (hi - lo), so that its
expected value is x. With round-to-nearest a step of 0.005 on a value above 2 would always be lost. The random bits are
a hash of row, entry and write counter, so results are reproducible to the bit, also after resuming, and independent of
all other random draws.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

_LOW_BITS = 0xFFFF  # the bits of a float32 that bfloat16 drops
# Odd multipliers with well-mixed bits (golden ratio, Stafford's mixer) as signed 64-bit numbers.
_ROW, _WRITE, _ENTRY = -0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15


def rounding_bits(
    rows: Int[Tensor, " batch"], entries: int, write: Int[Tensor, "*one"]
) -> Int[Tensor, "batch entries"]:
    """Return pseudo-random 16-bit numbers, a pure function of row, entry and write counter.

    Args:
        rows: (B,) row numbers.
        entries: number of entries of a row.
        write: write counter, one number.

    Examples:
        >>> rounding_bits(torch.tensor([0, 1]), 3, write=torch.tensor(7))
        tensor([[30158, 19572, 19776],
                [34512, 53581, 42119]], dtype=torch.int32)
    """
    x = (rows * _ROW + write * _WRITE)[:, None] + torch.arange(entries, device=rows.device) * _ENTRY
    for shift, factor in ((30, _WRITE), (27, _ENTRY)):
        x = (x ^ (x >> shift)) * factor
    return ((x >> 32) & _LOW_BITS).int()


def stochastic_bfloat16(
    values: Float[Tensor, "batch entries"], bits: Int[Tensor, "batch entries"]
) -> Float[Tensor, "batch entries"]:
    """Return the values as bfloat16, rounded away from zero where the dropped bits plus ``bits`` carry over.

    Values that bfloat16 represents exactly, and values that are not finite, stay unchanged.

    Examples:
        >>> eighth = torch.full((1, 4), 1 + 2**-10)  # an eighth of the way from 1 to the next number, 1.0078125
        >>> stochastic_bfloat16(eighth, torch.tensor([[0, 57343, 57344, 65535]], dtype=torch.int32)).float()
        tensor([[1.0000, 1.0000, 1.0078, 1.0078]])
    """
    values = values.float()
    rounded = ((values.view(torch.int32) + bits) & ~_LOW_BITS).view(torch.float32)
    return torch.where(values.isfinite(), rounded, values).bfloat16()
