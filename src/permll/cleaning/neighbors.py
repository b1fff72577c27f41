"""The samples that are most alike, as the network sees them."""

from collections.abc import Sequence

import torch
from torch import Tensor

BLOCK = 2**26  # similarities that are made at a time, 256 MB


def nearest_rows(features: Tensor, rows: Sequence[int] | Tensor, count: int) -> Tensor:
    """Return for each of ``rows`` the other ``count`` rows whose features point in the most similar directions.

    Args:
        features: (N, d).
        rows: n positions to find neighbors of.
        count: how many; at most N - 1 are found.

    Returns:
        (n, min(count, N - 1)) int64, the most alike first.

    Examples:
        >>> nearest_rows(torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), [0], 2)
        tensor([[1, 2]])
    """
    features = features.float()
    lengths = features.norm(dim=1).clamp_min(torch.finfo(torch.float32).tiny)  # N of them: no second table of features
    rows = torch.as_tensor(rows, dtype=torch.int64)
    count = min(count, len(features) - 1)
    found = []
    for block in rows.split(max(BLOCK // len(features), 1)):
        alike = (features[block] / lengths[block, None]) @ features.T
        alike /= lengths
        alike[torch.arange(len(block)), block] = -torch.inf
        found.append(alike.topk(count, dim=1).indices)
    return torch.cat(found) if found else torch.empty(0, count, dtype=torch.int64)
