"""Folds of a cross-validation: stratified by class, with equal samples in the same fold."""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

TRAIN_ONLY = -1


# Not sklearn's StratifiedGroupKFold, which searches the best fold for each group: minutes for a million rows.
def assign_folds(
    labels: ArrayLike,
    folds: int,
    seed: int,
    *,
    groups: Sequence[Hashable] | None = None,
    train_only: ArrayLike | None = None,
) -> NDArray[np.int64]:
    """Return the fold of each row (N,), from 0.

    The groups of each class are shuffled and dealt to the folds in turn, so the number of groups of a class, and of all
    groups, differs by at most one between two folds. A class with two groups is therefore always trained on.

    Args:
        labels: (N,) class numbers.
        folds: number of folds; fewer if there are fewer groups.
        seed: seed of the order.
        groups: N keys; rows with the same key are in the same fold. Default: each row is a group of its own. A group
            belongs to its most frequent class.
        train_only: (N,) mask of rows that belong to every training set and to no fold; their number is -1.

    Examples:
        >>> assign_folds([0, 0, 0, 1, 1, 1], folds=3, seed=0).tolist()
        [1, 2, 0, 0, 2, 1]
        >>> assign_folds([0, 0, 1, 1], folds=2, seed=0, groups="abbc", train_only=[False, False, False, True]).tolist()
        [0, 1, 1, -1]
    """
    y = np.asarray(labels, np.int64)
    fold = np.full(len(y), TRAIN_ONLY)
    rows = np.arange(len(y)) if train_only is None else np.flatnonzero(~np.asarray(train_only, bool))
    if not len(rows):
        return fold
    numbers: dict[Hashable, int] = {}
    group = (
        rows if groups is None else np.array([numbers.setdefault(groups[row], len(numbers)) for row in rows.tolist()])
    )
    _, first, group = np.unique(group, return_index=True, return_inverse=True)
    group_class = y[rows][first] if len(first) == len(rows) else _most_frequent(group, y[rows])
    order = np.random.default_rng(seed).permutation(len(first))
    order = order[np.argsort(group_class[order], kind="stable")]
    group_fold = np.empty(len(first), np.int64)
    group_fold[order] = np.arange(len(first)) % min(folds, len(first))
    fold[rows] = group_fold[group]
    return fold


def linked_groups(first: Sequence[Hashable], second: Sequence[Hashable]) -> list[int]:
    """Return the number of the component of each row (N,); rows with an equal key of either kind are linked.

    Examples:
        >>> linked_groups("abca", "xyyz")
        [0, 1, 1, 0]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    numbers: dict[Hashable, int] = {}
    nodes = [
        [numbers.setdefault((kind, key), len(numbers)) for key in keys] for kind, keys in enumerate((first, second))
    ]
    shape = (len(numbers), len(numbers))
    graph = coo_array((np.ones(len(first), bool), (nodes[0], nodes[1])), shape)
    _, component = connected_components(graph, directed=False)
    result: list[int] = component[nodes[0]].tolist()
    return result


def _most_frequent(group: NDArray[np.int64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the most frequent class of each group, the first of equally frequent ones."""
    pairs, counts = np.unique(np.stack([group, labels], 1), axis=0, return_counts=True)
    order = np.lexsort((pairs[:, 1], -counts, pairs[:, 0]))
    _, first = np.unique(pairs[order, 0], return_index=True)
    return pairs[order][first, 1]
