"""Index helpers: split a batch index into groups without repeats, draw fixed random subsets."""

from functools import lru_cache

import torch
from torch import Tensor

# Not 0, the seed of the first epoch of a DistributedSampler: its batches would begin with the samples drawn here.
ORDER_SEED = 7_340_596_127


def split_repeats(index: Tensor) -> list[Tensor | slice]:
    """Split the positions of a batch into groups in which every sample occurs once.

    The first group holds the first occurrence of each sample, the second group the second occurrences, and so on.
    Updating group by group gives the same result as a separate batch per occurrence.

    Args:
        index: (B,) sample index of each batch position.

    Examples:
        >>> split_repeats(torch.tensor([7, 3, 7, 5]))
        [tensor([0, 1, 3]), tensor([2])]
        >>> split_repeats(torch.tensor([7, 3, 5]))
        [slice(None, None, None)]
    """
    if len(index) == 0:
        return []
    values, order = index.sort(stable=True)
    if not (values[1:] == values[:-1]).any():
        return [slice(None)]
    occurrence = torch.arange(len(index), device=index.device) - torch.searchsorted(values, values)
    return [order[occurrence == n].sort().values for n in range(int(occurrence.max()) + 1)]


def stratified_order(labels: Tensor) -> Tensor:
    """Return a fixed random order (N,) of samples of which every beginning has each label about as often as the whole.

    Examples:
        >>> labels = torch.tensor([0] * 60 + [1] * 30)
        >>> labels[stratified_order(labels)[:9]].bincount()
        tensor([6, 3])
    """
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(ORDER_SEED))
    by_label = order[labels[order].argsort(stable=True)]
    counts = labels.bincount()
    ranks = torch.arange(len(labels)) - (counts.cumsum(0) - counts)[labels[by_label]]  # among samples of the label
    return by_label[((ranks + 0.5) / counts[labels[by_label]]).argsort(stable=True)]


@lru_cache(maxsize=8)
def ranges_by_key(keys: Tensor, num_keys: int) -> tuple[Tensor, ...]:
    """Return for each key 0..num_keys-1 the positions that have it, in ascending order.

    Examples:
        >>> [rows.tolist() for rows in ranges_by_key(torch.tensor([2, 0, 2]), 3)]
        [[1], [], [0, 2]]
    """
    return keys.argsort(stable=True).split(keys.bincount(minlength=num_keys).tolist())


def subsample_rows(total: int, max_rows: int) -> Tensor:
    """Return at most ``max_rows`` of ``total`` row numbers in ascending order; the same rows at every call.

    The draw is random, since evenly spaced rows can all belong to one class when classes alternate.

    Examples:
        >>> subsample_rows(4, 10)
        tensor([0, 1, 2, 3])
        >>> (subsample_rows(60_000, 3_000) % 3).bincount().min().item() > 900
        True
    """
    order = torch.randperm(total, generator=torch.Generator().manual_seed(0))
    return order[:max_rows].sort().values
