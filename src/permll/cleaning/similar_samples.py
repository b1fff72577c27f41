"""Similar samples: exact duplicates whose labels differ, and nearest neighbors by cosine similarity of features."""

from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

from permll.data.inputs import Inputs
from permll.data.sample_digests import sample_digests
from permll.utils.progress_bar import progress

BLOCK_SIZE = 2**26  # similarities computed at a time, 256 MB


def conflicting_duplicates(inputs: Inputs, labels: Tensor) -> tuple[tuple[int, ...], ...]:
    """Return groups of rows that are bitwise equal but do not have the same label, each in order.

    Images in files are compared by the content of the files, other samples by their values.

    Examples:
        >>> from permll.data.inputs import Texts
        >>> texts = Texts(("good", "bad", "good", "bad"))
        >>> conflicting_duplicates(texts, torch.tensor([1, 0, 0, 0]))
        ((0, 2),)
    """
    groups = defaultdict(list)
    with progress("finding duplicates", len(inputs)) as advance:
        for row, digest in enumerate(sample_digests(inputs)):
            groups[digest].append(row)
            advance(1)
    repeated = (tuple(rows) for rows in groups.values() if len(rows) > 1)
    return tuple(rows for rows in repeated if len(set(labels[list(rows)].tolist())) > 1)


def nearest_rows(features: Tensor, rows: Sequence[int] | Tensor, count: int) -> Tensor:
    """Return the ``count`` nearest other rows of each of ``rows``.

    Args:
        features: (N, d).
        rows: n positions.
        count: number of neighbors; at most N - 1 exist.

    Returns:
        (n, min(count, N - 1)) int64, nearest first.

    Examples:
        >>> nearest_rows(torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), [0], 2)
        tensor([[1, 2]])
    """
    features = features.float()
    norms = features.norm(dim=1).clamp_min(torch.finfo(torch.float32).tiny)  # normalizing would copy the features
    rows = torch.as_tensor(rows, dtype=torch.int64)
    count = min(count, len(features) - 1)
    neighbors = []
    for block in rows.split(max(BLOCK_SIZE // len(features), 1)):
        similarity = (features[block] / norms[block, None]) @ features.T
        similarity /= norms
        similarity[torch.arange(len(block)), block] = -torch.inf
        neighbors.append(similarity.topk(count, dim=1).indices)
    return torch.cat(neighbors) if neighbors else torch.empty(0, count, dtype=torch.int64)
