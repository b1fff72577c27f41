"""Near-duplicate pairs against a slow search of all pairs, and how many are found by chance."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from permll.functional.near_duplicates import (
    CHANCE,
    chance_ratio,
    close_pairs,
    intrinsic_dimension,
    near_duplicate_pairs,
    neighbor_distances,
    random_projection,
)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@given(rows=st.integers(2, 60), dims=st.integers(1, 8), scale=st.floats(0.1, 2), seed=st.integers(0, 50))
def test_close_pairs_are_those_of_a_slow_search(rows: int, dims: int, scale: float, seed: int) -> None:
    x, radius = normal(rows, dims, seed=seed), normal(rows, seed=seed + 1).abs() * scale
    slow = [
        (i, j)
        for i, j in itertools.combinations(range(rows), 2)
        if float((x[i] - x[j]).double().norm()) <= min(float(radius[i]), float(radius[j]))
    ]
    counts = np.bincount([i for pair in slow for i in pair], minlength=1)
    found = [tuple(pair) for pair in close_pairs(x, radius).tolist()]
    if counts.max() <= 20:
        assert found == slow
    else:
        assert set(found) <= set(slow)


def test_dense_cluster_is_connected_by_few_pairs() -> None:
    pairs = close_pairs(normal(2000, 3) * 1e-3, torch.ones(2000))
    assert len(pairs) <= 2000 * 20
    graph = coo_matrix((np.ones(len(pairs)), pairs.T.numpy()), shape=(2000, 2000))
    assert connected_components(graph, directed=False)[0] == 1


@pytest.mark.parametrize("dims", [3, 100])
def test_neighbor_distances_are_those_of_cdist(dims: int) -> None:
    x, references = normal(50, dims) + 3, torch.arange(0, 50, 2)
    all_distances = torch.cdist(x.double(), x[references].double())
    for row in range(0, 50, 2):
        all_distances[row, row // 2] = torch.inf  # itself
    torch.testing.assert_close(
        neighbor_distances(x, references, 4).double(), all_distances.sort(1).values[:, :4], atol=1e-3, rtol=1e-4
    )


@pytest.mark.parametrize("dims", [2, 5, 10])
def test_intrinsic_dimension_of_a_plane_in_space(dims: int) -> None:
    x = torch.rand(3000, dims, generator=torch.Generator().manual_seed(0)) @ normal(dims, 40)
    found = intrinsic_dimension(neighbor_distances(x, torch.arange(3000), 10))
    assert 0.75 * dims < found < 1.1 * dims  # at the border of a cube, distances grow faster


@pytest.mark.parametrize("dims", [1, 2, 3, 5])
def test_chance_is_as_stated(dims: int) -> None:
    """Count pairs that are closer than t by chance, for a t that makes them frequent enough to count."""
    x = torch.rand(4000, dims, generator=torch.Generator().manual_seed(0))
    distances = neighbor_distances(x, torch.arange(4000), 10)
    t = (0.05 / 9) ** (1 / dims)
    share = float((distances[:, 0] <= t * distances[:, -1]).double().mean())
    assert 0.03 < share < 0.07  # expected: 9 t^m = 0.05
    assert chance_ratio(float(dims), 10) == pytest.approx((CHANCE / 9) ** (1 / dims))


@pytest.mark.parametrize("dims", [2, 5, 20, 100, 300])
@pytest.mark.parametrize("seed", [0, 1])
def test_random_vectors_have_no_near_duplicates(dims: int, seed: int) -> None:
    assert len(near_duplicate_pairs(normal(3000, dims, seed=seed)).pairs) <= 2


@pytest.mark.parametrize("dims", [5, 20, 100, 300])
def test_planted_pairs_are_found(dims: int) -> None:
    x = normal(2000, dims) * (normal(2000, 1, seed=3) / 2).exp()  # of different density
    x[1000:1100] = x[:100] * (1 + 0.005 * normal(100, dims, seed=2))
    found = {tuple(pair) for pair in near_duplicate_pairs(x).pairs.tolist()}
    planted = {(k, 1000 + k) for k in range(100)}
    assert len(found & planted) >= 95
    assert len(found - planted) <= 2


def test_groups_larger_than_the_number_of_neighbors_are_found() -> None:
    x = normal(1500, 30)
    x[:40] = x[0] + 0.02 * normal(40, 30, seed=1)
    rows = near_duplicate_pairs(x).pairs.unique()
    assert set(range(40)) <= set(rows.tolist())
    assert len(rows) <= 42


def test_ratios_are_relative_to_the_smaller_scale() -> None:
    x = normal(300, 20)
    x[5] = x[9] + 0.01
    found = near_duplicate_pairs(x)
    distances = torch.cdist(x, x).fill_diagonal_(torch.inf).sort(1).values[:, 9]
    scale = distances.clamp_min(distances.median() / 4)[[5, 9]].min()
    assert found.pairs.tolist() == [[5, 9]]
    assert float(found.ratios[0]) == pytest.approx(float((x[5] - x[9]).norm() / scale), rel=1e-3)


def test_distances_to_references_only() -> None:
    x = torch.cat([normal(200, 10), normal(200, 10, seed=1) * 1e-3])  # the others are all close to each other
    pairs = near_duplicate_pairs(x, num_references=200).pairs
    assert (pairs >= 200).all(1).float().mean() > 0.95


@pytest.mark.parametrize("rows", [0, 1, 2, 19])
def test_few_rows_have_no_usual_distance(rows: int) -> None:
    assert near_duplicate_pairs(torch.zeros(rows, 3)).pairs.shape == (0, 2)


def test_equal_rows_do_not_fail() -> None:
    found = near_duplicate_pairs(torch.zeros(50, 3))
    assert found.pairs.shape[1] == 2


def test_random_projection_keeps_distances() -> None:
    x = normal(100, 500)
    z = random_projection(x, 64)
    assert z.shape == (100, 64)
    ratio = torch.pdist(z) / torch.pdist(x)
    assert 0.6 < float(ratio.min()) < float(ratio.max()) < 1.5
    assert random_projection(x, 500) is x
