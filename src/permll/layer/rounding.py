"""Stochastic rounding to bfloat16, whose chance is a pure function of a counter.

A number x between two neighbors lo and hi of bfloat16 becomes hi with the probability (x - lo) / (hi - lo), so that
its mean is x. Rounded to the nearest, a step of 0.005 on a number above 2 would vanish every time; rounded this way, it
arrives once in a while. The chance is a hash of the row, its entry and the number of the write: runs repeat to the bit,
and go on to the bit after an interruption, whatever else draws random numbers.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

_LOW = 0xFFFF  # the bits of a float32 that bfloat16 does not have
# Odd constants with well mixed bits: of the golden ratio, and of Stafford's mixer, as signed 64-bit numbers.
_ROW, _WRITE, _ENTRY = -0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15


def chances(rows: Int[Tensor, " batch"], entries: int, write: Int[Tensor, "*one"]) -> Int[Tensor, "batch entries"]:
    """Return a number in 0..65535 for each entry of each row in this write, alike to chance and always the same.

    Args:
        rows: (B,) the numbers of the rows.
        entries: of a row.
        write: the number of the write, one number.

    Examples:
        >>> chances(torch.tensor([0, 1]), 3, write=torch.tensor(7))
        tensor([[30158, 19572, 19776],
                [34512, 53581, 42119]], dtype=torch.int32)
    """
    x = (rows * _ROW + write * _WRITE)[:, None] + torch.arange(entries, device=rows.device) * _ENTRY
    for shift, factor in ((30, _WRITE), (27, _ENTRY)):
        x = (x ^ (x >> shift)) * factor
    return ((x >> 32) & _LOW).int()


def stochastic_bfloat16(
    values: Float[Tensor, "batch entries"], chances: Int[Tensor, "batch entries"]
) -> Float[Tensor, "batch entries"]:
    """Return the values as bfloat16, each rounded up in size if its lower bits and its chance make a carry.

    What bfloat16 can hold stays as it is, and so does what is not finite.

    Examples:
        >>> eighth = torch.full((1, 4), 1 + 2**-10)  # an eighth of the way from 1 to its neighbor 1.0078125
        >>> stochastic_bfloat16(eighth, torch.tensor([[0, 57343, 57344, 65535]], dtype=torch.int32)).float()
        tensor([[1.0000, 1.0000, 1.0078, 1.0078]])
    """
    values = values.float()
    rounded = ((values.view(torch.int32) + chances) & ~_LOW).view(torch.float32)
    return torch.where(values.isfinite(), rounded, values).bfloat16()
