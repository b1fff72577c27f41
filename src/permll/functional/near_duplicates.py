"""Near-duplicates: pairs of samples that are much closer than samples of their neighborhood usually are.

With d(i, j) the distance of two samples and s(i) that of a sample to its tenth neighbor (or a quarter of the median
of all s(i), if that is larger, so that groups of more than ten samples are found), i and j are near-duplicates if

    d(i, j) <= t min(s(i), s(j)).

In m dimensions, a sample has a neighbor within t s(i) by chance with the probability 9 t^m. The ratio t makes this
1 in 10,000, but it is at most 0.3. In few dimensions, samples are close to each other by chance, and t is small.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from permll.utils.indexing import subsample_rows

NUM_NEIGHBORS = 10
MAX_REFERENCES = 5_000  # samples among which the tenth neighbor is searched
MAX_RATIO = 0.3
CHANCE = 1e-4  # probability of a near-duplicate by chance, per sample
SEARCH_DIMS = 32  # dimensions of a random projection in which pairs are searched
EXACT_DIMS = 8  # up to which differences are squared one by one
SEARCH_MARGIN = 1.5  # the projection changes distances; pairs are then checked in all dimensions
MAX_PARTNERS = 20  # of a sample, in the search
MIN_SAMPLES = 20  # fewer have no typical distance
BLOCK_SIZE = 2**24  # distances computed at a time
SEARCH_ROWS = 512  # compared with the others at a time

Features = Float[Tensor, "samples dims"]


class ClosePairs(NamedTuple):
    """Pairs of near-duplicates.

    Args:
        pairs: (P, 2) rows, the smaller one first.
        ratios: (P,) distance of the two, divided by the smaller s of both.
        max_ratio: t.
        dimension: m, the intrinsic dimension of the features.
    """

    pairs: Int[Tensor, "pairs 2"]
    ratios: Float[Tensor, " pairs"]
    max_ratio: float
    dimension: float


def near_duplicate_pairs(x: Features, num_references: int | None = None, max_ratio: float | None = None) -> ClosePairs:
    """Return the pairs of near-duplicates among N samples, which should be distinct.

    Args:
        x: (N, d) features, scaled so that distances are meaningful.
        num_references: s(i) is the distance to neighbors among the first samples, this many; default all.
        max_ratio: t; default see above.

    Examples:
        >>> x = torch.randn(200, 20, generator=torch.Generator().manual_seed(0))
        >>> x[7] = x[3] + 0.01
        >>> near_duplicate_pairs(x).pairs
        tensor([[3, 7]])
    """
    total = len(x) if num_references is None else num_references
    empty = ClosePairs(torch.empty(0, 2, dtype=torch.int64), torch.empty(0), max_ratio or 0.0, math.inf)
    if total < MIN_SAMPLES:
        return empty
    x = x.float() - x[:total].float().mean(0)
    references = subsample_rows(total, MAX_REFERENCES)
    z = random_projection(x, SEARCH_DIMS)
    distances = neighbor_distances(z, references, NUM_NEIGHBORS)
    dimension = intrinsic_dimension(distances[:total])
    t = chance_ratio(dimension, distances.shape[1]) if max_ratio is None else max_ratio
    scale = distances[:, -1].clamp_min(distances[:total, -1].median() / 4)
    if z is x:
        pairs = close_pairs(x, t * scale)
    else:
        pairs = close_pairs(z, SEARCH_MARGIN * t * scale)
        sample, rows = references[torch.linspace(0, len(references) - 1, 500).long()], pairs.unique()
        median = neighbor_distances(x, references, NUM_NEIGHBORS, sample)[:, -1].median()
        scale[rows] = neighbor_distances(x, references, NUM_NEIGHBORS, rows)[:, -1].clamp_min(median / 4)
    ratios = (x[pairs[:, 0]] - x[pairs[:, 1]]).norm(dim=1) / scale[pairs].amin(1)
    is_near = ratios <= t
    return ClosePairs(pairs[is_near], ratios[is_near], t, dimension)


def neighbor_distances(
    x: Features, references: Int[Tensor, " references"], count: int, rows: Int[Tensor, " rows"] | None = None
) -> Float[Tensor, "rows count"]:
    """Return the distances of ``rows`` (default all) to their nearest references, without themselves, nearest first.

    Examples:
        >>> neighbor_distances(torch.tensor([[0.0], [1.0], [3.0]]), torch.tensor([0, 1, 2]), 2)
        tensor([[1., 3.],
                [1., 2.],
                [2., 3.]])
    """
    rows = torch.arange(len(x)) if rows is None else rows
    others, count = x[references], min(count, len(references) - 1)
    nearest = torch.empty(len(rows), count)
    for part in torch.arange(len(rows)).split(max(BLOCK_SIZE // len(references), 1)):
        distances = _squared_distances(x[rows[part]], others)
        distances[rows[part, None] == references] = torch.inf
        nearest[part] = distances.topk(count, dim=1, largest=False).values.clamp_min(0).sqrt()
    return nearest


def intrinsic_dimension(distances: Float[Tensor, "samples neighbors"]) -> float:
    """Return m from the distances to k neighbors: (H[k-1] - H[j-1]) / mean log(d[k] / d[j]), j = k // 2, H harmonic.

    Neighbors before the j-th do not count, so that a few near-duplicates do not change it.

    Examples:
        >>> x = torch.rand(2000, 3, generator=torch.Generator().manual_seed(0))
        >>> round(intrinsic_dimension(neighbor_distances(x, torch.arange(2000), 10)))
        3
    """
    k = distances.shape[1]
    j = max(k // 2, 1)
    far, near = distances[:, -1], distances[:, j - 1]
    is_positive = near > 0
    if k < 2 or not is_positive.any():
        return math.inf
    growth = (far[is_positive] / near[is_positive]).log().mean().item()
    return sum(1 / n for n in range(j, k)) / max(growth, 1e-6)


def chance_ratio(dimension: float, count: int) -> float:
    """Return t for the distance to the neighbor number ``count``.

    Examples:
        >>> round(chance_ratio(5.0, 10), 3), chance_ratio(30.0, 10)
        (0.102, 0.3)
    """
    return min(MAX_RATIO, (CHANCE / max(count - 1, 1)) ** (1 / dimension))


def random_projection(x: Features, dims: int) -> Float[Tensor, "samples reduced"]:
    """Return a random orthogonal projection, scaled to keep distances; ``x`` itself if it has few dimensions."""
    if x.shape[1] <= dims:
        return x
    random = torch.randn(x.shape[1], dims, generator=torch.Generator().manual_seed(0))
    return x @ (torch.linalg.qr(random).Q * math.sqrt(x.shape[1] / dims))


def close_pairs(x: Features, radius: Float[Tensor, " samples"]) -> Int[Tensor, "pairs 2"]:
    """Return the pairs of rows closer than the smaller radius of both, sorted.

    In dense clusters, a row has at most 20 partners; these connect the cluster. Rows are sorted by their first
    principal component, and only those that differ in it by at most the radius are compared.

    Examples:
        >>> close_pairs(torch.tensor([[0.0], [5.0], [0.1], [5.2]]), torch.tensor([0.3, 0.3, 0.3, 0.1]))
        tensor([[0, 2]])
    """
    position, order = (x @ _first_component(x)).sort()
    y, limits = x[order], radius[order]
    pairs = [torch.empty(0, 2, dtype=torch.int64)]
    for start in range(0, len(y), SEARCH_ROWS):
        stop = min(start + SEARCH_ROWS, len(y))
        last = (position[start:stop] + limits[start:stop]).max() + 1e-6 * position.abs().max()
        end = int(torch.searchsorted(position, last, right=True))
        distances = _squared_distances(y[start:stop], y[start:end])
        is_close = (distances <= limits[start:stop, None].square()).triu(1)
        if is_close.any():
            is_close &= distances <= limits[start:end].square()
            if is_close.count_nonzero() > MAX_PARTNERS:
                is_close &= is_close.cumsum(1) <= MAX_PARTNERS
            pairs.append(is_close.nonzero() + start)
    found = order[torch.cat(pairs)].sort(1).values
    return found[(found[:, 0] * len(y) + found[:, 1]).argsort()]


def _squared_distances(x: Features, y: Float[Tensor, "others dims"]) -> Float[Tensor, "samples others"]:
    """Return |x - y|^2: exact in few dimensions, where distances can be tiny, otherwise by a matrix product."""
    if x.shape[1] <= EXACT_DIMS:
        return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist").square_()
    return torch.addmm(y.square().sum(1), x, y.T, alpha=-2).add_(x.square().sum(1, keepdim=True))


def _first_component(x: Features) -> Float[Tensor, " dims"]:
    sample = x[subsample_rows(len(x), MAX_REFERENCES)]
    sample = sample - sample.mean(0)
    return torch.linalg.eigh(sample.T @ sample).eigenvectors[:, -1]
