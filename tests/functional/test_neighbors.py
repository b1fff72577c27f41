"""Neighbor votes against plain loops, and what random neighbors change."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from permll.functional import neighbors
from permll.functional.label_errors import find_errors
from permll.functional.neighbors import NUM_NEIGHBORS, WEIGHT, add_votes
from permll.functional.neighbors import neighbor_votes as votes_of


def slow_votes(x: list[list[float]], labels: list[int], classes: int) -> list[list[float]]:
    rows = []
    for i, one in enumerate(x):
        similarities = []
        for j, other in enumerate(x):
            if i != j:
                norm = math.hypot(*one) * math.hypot(*other)
                similarities.append((sum(a * b for a, b in zip(one, other, strict=True)) / norm, labels[j]))
        votes = [0.0] * classes
        for similarity, label in sorted(similarities, reverse=True)[:NUM_NEIGHBORS]:
            votes[label] += max(similarity, 0)
        rows.append([vote / max(sum(votes), 1e-30) for vote in votes])
    return rows


@given(st.integers(0, 2**31), st.integers(2, 4), st.integers(2, 30))
def test_votes_match_loops(seed: int, classes: int, rows: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 3, generator=generator)
    labels = torch.randint(classes, (rows,), generator=generator)
    expected = slow_votes(x.tolist(), labels.tolist(), classes)
    votes = votes_of(x, labels, classes)
    assert_close(votes, torch.tensor(expected), rtol=1e-4, atol=1e-5)
    log_p = torch.randn(rows, classes, generator=generator, dtype=torch.float64).log_softmax(1)
    result = add_votes(log_p, votes, labels).tolist()
    frequencies = [labels.tolist().count(k) / rows for k in range(classes)]
    for i in range(rows):
        scores = [
            math.exp(log_p[i, k])
            * (((NUM_NEIGHBORS * votes[i, k] + pi) / ((NUM_NEIGHBORS + 1) * pi)) ** WEIGHT if pi else 1.0)
            for k, pi in enumerate(frequencies)
        ]
        for k in range(classes):
            assert math.exp(result[i][k]) == pytest.approx(float(scores[k] / sum(scores)), rel=1e-4)


def test_own_label_does_not_count() -> None:
    x = torch.eye(3) + 0.1
    labels = torch.tensor([0, 1, 1])
    assert_close(votes_of(x, labels, 2)[0], torch.tensor([0.0, 1.0]))
    assert_close(votes_of(x, 1 - labels, 2)[0], torch.tensor([1.0, 0.0]))


def test_neighbors_are_searched_in_blocks_and_among_references(monkeypatch: pytest.MonkeyPatch) -> None:
    x, labels = torch.randn(50, 4, generator=torch.Generator().manual_seed(0)), torch.arange(50) % 3
    whole = votes_of(x, labels, 3)
    module = neighbors
    monkeypatch.setattr(module, "BLOCK_SIZE", 100)
    assert_close(votes_of(x, labels, 3), whole)
    monkeypatch.setattr(module, "MAX_REFERENCES", 20)
    fewer = votes_of(x, labels, 3)
    assert_close(fewer.sum(1), torch.ones(50))
    assert not torch.allclose(fewer, whole)


def test_votes_improve_a_poor_classifier() -> None:
    """The classifier knows nothing about the samples, whose features separate the classes."""
    generator = torch.Generator().manual_seed(0)
    truth = torch.arange(600) % 3
    x = 3 * torch.eye(3)[truth] + torch.randn(600, 3, generator=generator)
    wrong = torch.rand(600, generator=generator) < 0.2
    labels = torch.where(wrong, (truth + 1) % 3, truth)
    log_p = (0.4 * torch.eye(3)[truth] + torch.rand(600, 3, generator=generator)).log_softmax(1)
    quality = find_errors(add_votes(log_p, votes_of(x, labels, 3), labels), labels).quality
    alone = find_errors(log_p, labels).quality
    assert quality[wrong].mean() / quality[~wrong].mean() < alone[wrong].mean() / alone[~wrong].mean()
