"""Accuracy metrics against scikit-learn, and against loops for ties."""

import pytest
import torch
from hypothesis import assume, given
from sklearn import metrics

from permll.evaluation.accuracy import accuracy, balanced_accuracy, top_k_accuracy
from tests.helpers.evaluation_strategies import PredictionCase, prediction_cases


def argmax(row: list[float]) -> int:
    return row.index(max(row))


@given(prediction_cases())
def test_accuracy_matches_loop_and_sklearn(sample: PredictionCase) -> None:
    hits = [argmax(row) == y for row, y in zip(sample.p.tolist(), sample.y.tolist(), strict=True)]
    assert accuracy(sample.p, sample.y) == sum(hits) / len(hits)
    assert accuracy(sample.p, sample.y) == metrics.accuracy_score(sample.y, sample.p.argmax(1))


@given(prediction_cases())
def test_accuracy_of_scores_equals_accuracy_of_classes(sample: PredictionCase) -> None:
    classes = sample.p.argmax(1)
    assert accuracy(classes, sample.y) == accuracy(sample.p.log(), sample.y)
    assert balanced_accuracy(classes, sample.y) == balanced_accuracy(sample.p, sample.y)


@given(prediction_cases())
def test_top_k_accuracy_matches_sorted_rows(sample: PredictionCase) -> None:
    c = sample.p.shape[1]
    ranks = [
        sorted(range(c), key=lambda j, row=row: (-row[j], j)).index(y)
        for row, y in zip(sample.p.tolist(), sample.y.tolist(), strict=True)
    ]
    for k in range(1, c + 1):
        assert top_k_accuracy(sample.p, sample.y, k) == sum(rank < k for rank in ranks) / len(ranks)


@given(prediction_cases())
def test_top_k_accuracy_extremes(sample: PredictionCase) -> None:
    assert top_k_accuracy(sample.p, sample.y, 1) == accuracy(sample.p, sample.y)
    assert top_k_accuracy(sample.p, sample.y, sample.p.shape[1]) == 1.0


def test_top_k_accuracy_matches_sklearn_without_ties() -> None:
    p, y = torch.randn(200, 20).softmax(1), torch.randint(20, (200,))
    expected = metrics.top_k_accuracy_score(y, p, k=5, labels=range(20))
    assert 0 < expected < 1
    assert top_k_accuracy(p, y) == pytest.approx(expected, abs=1e-12)


@given(prediction_cases())
def test_balanced_accuracy_matches_sklearn(sample: PredictionCase) -> None:
    classes = sample.p.argmax(1)
    assume(set(classes.tolist()) <= set(sample.y.tolist()))  # sklearn warns of predicted classes without samples
    assume(len(sample.y.unique()) > 1)  # and of a single class
    expected = metrics.balanced_accuracy_score(sample.y, classes)
    assert balanced_accuracy(sample.p, sample.y) == pytest.approx(expected, abs=1e-12)


@given(prediction_cases())
def test_balanced_accuracy_matches_loop(sample: PredictionCase) -> None:
    right, recalls = sample.p.argmax(1) == sample.y, []
    for label in set(sample.y.tolist()):
        hits = right[sample.y == label].tolist()
        recalls.append(sum(hits) / len(hits))
    assert balanced_accuracy(sample.p, sample.y) == pytest.approx(sum(recalls) / len(recalls), abs=1e-12)
