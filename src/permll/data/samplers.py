"""Order of the rows in an epoch: pure functions of seed and epoch.

torch's samplers draw from a generator with state; these orders can be recomputed for any epoch.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def shuffle(rows: Tensor, seed: int, epoch: int) -> Tensor:
    """Return a random permutation of ``rows`` for this epoch.

    Examples:
        >>> shuffle(torch.arange(4), seed=0, epoch=1).sort().values
        tensor([0, 1, 2, 3])
    """
    return rows[torch.from_numpy(_generator(seed, epoch).permutation(len(rows)))]


def weighted_sample(rows: Tensor, weights: Tensor, count: int, seed: int, epoch: int) -> Tensor:
    """Return ``count`` rows drawn with replacement, in proportion to ``weights`` (len(rows),)."""
    edges = weights.numpy().cumsum()
    drawn = np.searchsorted(edges, _generator(seed, epoch).random(count) * edges[-1], side="right")
    return rows[torch.from_numpy(drawn.clip(max=len(rows) - 1))]


def balanced_sample(rows: Tensor, labels: Tensor, count: int, seed: int, epoch: int) -> Tensor:
    """Return ``count`` rows drawn without replacement, as evenly over the labels (len(rows),) as possible.

    Every label gets an equal number of rows, give or take one; what a rare label cannot fill goes to the others.
    """
    generator = _generator(seed, epoch)
    order = generator.permutation(len(rows))
    shuffled = labels.numpy()[order]
    by_label = np.argsort(shuffled, kind="stable")
    first = np.searchsorted(shuffled[by_label], shuffled)
    num_before = np.empty(len(rows), dtype=np.int64)  # rows of the same label that come before each row
    num_before[by_label] = np.arange(len(rows)) - first[by_label]
    chosen = order[np.argsort(num_before, kind="stable")[: min(count, len(rows))]]
    return rows[torch.from_numpy(generator.permutation(chosen))]


def balanced_weights(labels: Tensor, num_classes: int) -> Tensor:
    """Return 1 / (number of samples of the same label) for each sample: every label is drawn equally often.

    Examples:
        >>> balanced_weights(torch.tensor([0, 0, 1]), 2)
        tensor([0.5000, 0.5000, 1.0000], dtype=torch.float64)
    """
    return 1 / torch.bincount(labels, minlength=num_classes).double()[labels]


def num_batches(count: int, batch_size: int) -> int:
    """Return the number of batches that ``split_batches`` makes of ``count`` rows."""
    full, rest = divmod(count, batch_size)
    return full + (rest > 0 and (full == 0 or not _is_too_small(rest, batch_size)))


def split_batches(order: Tensor, batch_size: int) -> tuple[Tensor, ...]:
    """Split an order into batches; a last batch of one row, or below an eighth of the size, joins the previous one.

    Batch normalization cannot train on one row, and several processes could not divide a tiny batch.

    Examples:
        >>> [len(batch) for batch in split_batches(torch.arange(260), 128)]
        [128, 132]
    """
    parts = order.split(batch_size)
    if len(parts) > 1 and _is_too_small(len(parts[-1]), batch_size):
        return (*parts[:-2], torch.cat(parts[-2:]))
    return tuple(parts)


def _is_too_small(rest: int, batch_size: int) -> bool:
    return batch_size > 1 and (rest == 1 or 8 * rest < batch_size)


def _generator(seed: int, epoch: int) -> np.random.Generator:
    entropy: NDArray[Any] = np.array([seed, epoch], dtype=np.uint64)
    return np.random.default_rng(entropy)
