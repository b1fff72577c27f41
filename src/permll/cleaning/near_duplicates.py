"""Near-duplicates among samples, and between them and test samples (leaks)."""

import hashlib
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from permll.cleaning.text_overlap import WordOverlap, words_of
from permll.functional.near_duplicates import near_duplicate_pairs

MIN_OVERLAP = 0.6  # of the words of near-duplicate texts
MAX_TEXT_RATIO = 0.6  # of distances of texts whose words are compared


class Pair(NamedTuple):
    """Two near-duplicates.

    Args:
        first: the row of one.
        second: the row of the other.
        similarity: 1 for identical samples, else 1 - d / s (see ``permll.functional.near_duplicates``), or the overlap
            of the words of texts.
        is_identical: whether the samples are equal; texts, up to case and punctuation.
    """

    first: int
    second: int
    similarity: float
    is_identical: bool


def find_pairs(features: Tensor, texts: Sequence[str] | None = None, num_train: int | None = None) -> list[Pair]:
    """Return the pairs of near-duplicates; of identical samples, each with the first of them.

    Args:
        features: (N, d).
        texts: N texts, if the samples are texts.
        num_train: the first samples, this many, say what distances are usual; default all.

    Examples:
        >>> x = torch.randn(100, 20, generator=torch.Generator().manual_seed(0))
        >>> x[7] = x[3]
        >>> find_pairs(x)
        [Pair(first=3, second=7, similarity=1.0, is_identical=True)]
    """
    words = None if texts is None else [words_of(text) for text in texts]
    keys: Sequence[Hashable] = [_digest(row) for row in features.numpy()] if words is None else words
    first: dict[Hashable, int] = {}
    pairs: list[Pair] = []
    for row, key in enumerate(keys):
        if first.setdefault(key, row) != row:
            pairs.append(Pair(first[key], row, 1.0, True))
    distinct = torch.tensor([row for row in first.values() if words is None or (words[row] and features[row].any())])
    if len(distinct) < 2:
        return pairs
    count = None if num_train is None else int((distinct < num_train).sum())
    close = near_duplicate_pairs(features[distinct], count, None if words is None else MAX_TEXT_RATIO)
    rows = distinct[close.pairs]
    if words is None:
        similarity = (1 - close.ratios).tolist()
    else:
        overlap = WordOverlap(words)
        similarity = [overlap(*pair) for pair in rows.tolist()]
        rows = rows[[value >= MIN_OVERLAP for value in similarity]] if similarity else rows
        similarity = [value for value in similarity if value >= MIN_OVERLAP]
    near = [Pair(i, j, round(value, 4), False) for (i, j), value in zip(rows.tolist(), similarity, strict=True)]
    return pairs + sorted(near, key=lambda pair: -pair.similarity)


def _digest(row: NDArray[np.float32]) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(row).tobytes(), digest_size=16).digest()


def group_numbers(pairs: Sequence[Pair], total: int) -> NDArray[np.int32]:
    """Return (N,) the number of the group of each row, from 1 in the order of the first rows; 0 for none.

    Examples:
        >>> group_numbers([Pair(2, 4, 1.0, True), Pair(1, 3, 0.9, False), Pair(3, 5, 0.9, False)], 6)
        array([0, 1, 2, 1, 2, 1], dtype=int32)
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    first, second = np.array([pair[:2] for pair in pairs], np.int64).reshape(-1, 2).T
    graph = coo_matrix((np.ones(len(first)), (first, second)), shape=(total, total))
    _, component = connected_components(graph, directed=False)
    numbers = np.zeros(total, np.int32)
    names: dict[int, int] = {}
    is_member = np.bincount(component, minlength=1)[component] > 1
    for row in is_member.nonzero()[0].tolist():
        numbers[row] = names.setdefault(component[row], len(names) + 1)
    return numbers
