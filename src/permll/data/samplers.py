"""Which rows an epoch visits, and in what order: pure functions of seed and epoch."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def shuffled(rows: Tensor, seed: int, epoch: int) -> Tensor:
    """Return every row once, in an order drawn for this epoch.

    Examples:
        >>> shuffled(torch.arange(4), seed=0, epoch=1).sort().values
        tensor([0, 1, 2, 3])
    """
    return rows[torch.from_numpy(_generator(seed, epoch).permutation(len(rows)))]


def weighted(rows: Tensor, weights: Tensor, count: int, seed: int, epoch: int) -> Tensor:
    """Return ``count`` rows drawn with replacement, in proportion to ``weights`` (len(rows),)."""
    edges = read_weights(weights).numpy().cumsum()
    drawn = np.searchsorted(edges, _generator(seed, epoch).random(count) * edges[-1], side="right")
    return rows[torch.from_numpy(drawn.clip(max=len(rows) - 1))]


def read_weights(weights: Tensor) -> Tensor:
    """Return weights as float64, none of them negative or infinite, and not all zero."""
    weights = weights.cpu().double()
    if not bool(weights.isfinite().all()) or bool((weights < 0).any()) or not bool((weights > 0).any()):
        raise ValueError("weights must be finite, not negative, and not all zero.")
    return weights


def even(rows: Tensor, labels: Tensor, count: int, seed: int, epoch: int) -> Tensor:
    """Return ``count`` rows without replacement, as evenly over the labels (len(rows),) as these allow.

    Every label gets its share of ``count``, give or take one; what a rare label cannot fill the others share.
    """
    generator = _generator(seed, epoch)
    order = generator.permutation(len(rows))
    given = labels.numpy()[order]
    together = np.argsort(given, kind="stable")
    first = np.searchsorted(given[together], given)
    place = np.empty(len(rows), dtype=np.int64)  # how many rows of the same label come before it
    place[together] = np.arange(len(rows)) - first[together]
    chosen = order[np.argsort(place, kind="stable")[: min(count, len(rows))]]
    return rows[torch.from_numpy(generator.permutation(chosen))]


def balancing_weights(labels: Tensor, num_classes: int) -> Tensor:
    """Return 1 / (samples of the same label) for each sample: every label is then drawn equally often.

    Examples:
        >>> balancing_weights(torch.tensor([0, 0, 1]), 2)
        tensor([0.5000, 0.5000, 1.0000], dtype=torch.float64)
    """
    return 1 / torch.bincount(labels, minlength=num_classes).double()[labels]


def number_of_batches(count: int, size: int) -> int:
    """Return how many batches ``batches`` makes of ``count`` rows."""
    full, rest = divmod(count, size)
    return full + (rest > 0 and (full == 0 or not _tiny(rest, size)))


def batches(order: Tensor, size: int) -> tuple[Tensor, ...]:
    """Cut an order into batches of ``size``; a last one of one row, or below an eighth of that, joins the one before.

    Such a batch is a hazard (batch normalisation cannot train on one row) and ranks could hardly share it.

    Examples:
        >>> [len(batch) for batch in batches(torch.arange(260), 128)]
        [128, 132]
    """
    parts = order.split(size)
    if len(parts) > 1 and _tiny(len(parts[-1]), size):
        return (*parts[:-2], torch.cat(parts[-2:]))
    return tuple(parts)


def _tiny(rest: int, size: int) -> bool:
    return size > 1 and (rest == 1 or 8 * rest < size)


def _generator(seed: int, epoch: int) -> np.random.Generator:
    entropy: NDArray[Any] = np.array([seed, epoch], dtype=np.uint64)
    return np.random.default_rng(entropy)
