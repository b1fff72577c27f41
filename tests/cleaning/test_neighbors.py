"""Nearest neighbors against a slow search."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from permll.cleaning.similar_samples import nearest_rows


@given(st.integers(2, 30), st.integers(1, 6), st.integers(1, 10), st.integers(0, 1000))
def test_nearest_rows_equals_slow_search(rows: int, width: int, count: int, seed: int) -> None:
    features = torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))
    neighbors = nearest_rows(features, range(rows), count)
    assert neighbors.shape == (rows, min(count, rows - 1))
    for row in range(rows):
        similarity = torch.nn.functional.cosine_similarity(features[row : row + 1], features)
        others = sorted((float(similarity[other]), other) for other in range(rows) if other != row)[::-1]
        best = [value for value, _ in others[: neighbors.shape[1]]]
        assert torch.allclose(similarity[neighbors[row]], torch.tensor(best), atol=1e-5)
        assert row not in neighbors[row].tolist()
