"""The samples that are most alike, as the network sees them."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

BLOCK = 512  # rows at a time: a block of similarities to a million others is 2 GB


def nearest_rows(features: Tensor, rows: Sequence[int] | Tensor, count: int) -> Tensor:
    """Return for each of ``rows`` the other ``count`` rows whose features point in the most similar directions.

    Args:
        features: (N, d).
        rows: n positions to find neighbours of.
        count: how many; at most N - 1 are found.

    Returns:
        (n, min(count, N - 1)) int64, the most alike first.

    Examples:
        >>> nearest_rows(torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), [0], 2)
        tensor([[1, 2]])
    """
    unit = nn.functional.normalize(features.float(), dim=1)
    rows = torch.as_tensor(rows, dtype=torch.int64)
    count = min(count, len(unit) - 1)
    found = []
    for block in rows.split(BLOCK):
        alike = unit[block] @ unit.T
        alike[torch.arange(len(block)), block] = -torch.inf
        found.append(alike.topk(count, dim=1).indices)
    return torch.cat(found) if found else torch.empty(0, count, dtype=torch.int64)
