"""Accuracies against scikit-learn, and against loops where scikit-learn has no word on ties."""

import math

import pytest
import torch
from hypothesis import assume, given
from sklearn import metrics

from permll.evaluation import accuracy as measured
from tests.helpers.evaluation_strategies import Predicted, predicted


def first_largest(row: list[float]) -> int:
    return row.index(max(row))


@given(predicted())
def test_accuracy_is_the_share_of_rows_whose_first_largest_is_the_label(sample: Predicted) -> None:
    hits = [first_largest(row) == y for row, y in zip(sample.p.tolist(), sample.y.tolist(), strict=True)]
    assert measured.accuracy(sample.p, sample.y) == sum(hits) / len(hits)
    assert measured.accuracy(sample.p, sample.y) == metrics.accuracy_score(sample.y, sample.p.argmax(1))


@given(predicted())
def test_scores_and_the_classes_they_predict_measure_the_same(sample: Predicted) -> None:
    classes, c = sample.p.argmax(1), sample.p.shape[1]
    assert measured.accuracy(classes, sample.y) == measured.accuracy(sample.p.log(), sample.y)
    assert measured.by_class(classes, sample.y, c) == measured.by_class(sample.p, sample.y)
    assert torch.equal(measured.confusion_matrix(classes, sample.y, c), measured.confusion_matrix(sample.p, sample.y))


@given(predicted())
def test_top_k_is_the_place_of_the_label_in_the_sorted_row(sample: Predicted) -> None:
    c = sample.p.shape[1]
    places = [
        sorted(range(c), key=lambda j, row=row: (-row[j], j)).index(y)
        for row, y in zip(sample.p.tolist(), sample.y.tolist(), strict=True)
    ]
    for k in range(1, c + 1):
        assert measured.top_k(sample.p, sample.y, k) == sum(place < k for place in places) / len(places)


@given(predicted())
def test_top_1_is_accuracy_and_top_c_is_certain(sample: Predicted) -> None:
    assert measured.top_k(sample.p, sample.y, 1) == measured.accuracy(sample.p, sample.y)
    assert measured.top_k(sample.p, sample.y, sample.p.shape[1]) == 1.0


def test_top_5_is_scikit_learns_without_ties() -> None:
    p, y = torch.randn(200, 20).softmax(1), torch.randint(20, (200,))
    expected = metrics.top_k_accuracy_score(y, p, k=5, labels=range(20))
    assert 0 < expected < 1
    assert measured.top_k(p, y) == pytest.approx(expected, abs=1e-12)


@given(predicted())
def test_each_class_is_scikit_learns(sample: Predicted) -> None:
    c = sample.p.shape[1]
    expected = metrics.precision_recall_fscore_support(
        sample.y, sample.p.argmax(1), labels=range(c), zero_division=math.nan
    )
    got = measured.by_class(sample.p, sample.y)
    assert [score.label for score in got] == list(range(c))
    for score, (precision, recall, f1, support) in zip(got, zip(*expected, strict=True), strict=True):
        assert score.support == support
        for value, other in ((score.precision, precision), (score.recall, recall), (score.f1, f1)):
            assert value is None if math.isnan(other) else value == pytest.approx(other, abs=1e-12)


def test_what_a_class_lacks_is_none() -> None:
    never_seen = measured.by_class(torch.tensor([0, 1, 2]), torch.tensor([0, 1, 1]), num_classes=4)
    assert (never_seen[2].recall, never_seen[2].precision, never_seen[2].f1) == (None, 0.0, 0.0)
    assert never_seen[3] == measured.ClassScore(3, 0, 0, 0, None, None, None)
    never_said = measured.by_class(torch.tensor([0, 0]), torch.tensor([0, 1]))[1]
    assert (never_said.recall, never_said.precision, never_said.f1) == (0.0, None, 0.0)


@given(predicted())
def test_balanced_accuracy_is_scikit_learns(sample: Predicted) -> None:
    classes = sample.p.argmax(1)
    assume(set(classes.tolist()) <= set(sample.y.tolist()))  # scikit-learn warns of predictions that no label has
    assume(len(sample.y.unique()) > 1)  # and of a single label
    expected = metrics.balanced_accuracy_score(sample.y, classes)
    assert measured.balanced_accuracy(sample.p, sample.y) == pytest.approx(expected, abs=1e-12)


@given(predicted())
def test_balanced_accuracy_is_the_mean_over_the_classes_with_samples(sample: Predicted) -> None:
    right, recalls = sample.p.argmax(1) == sample.y, []
    for label in set(sample.y.tolist()):
        own = right[sample.y == label].tolist()
        recalls.append(sum(own) / len(own))
    assert measured.balanced_accuracy(sample.p, sample.y) == pytest.approx(sum(recalls) / len(recalls), abs=1e-12)


@given(predicted())
def test_confusion_matrix_is_scikit_learns(sample: Predicted) -> None:
    labels = list(range(sample.p.shape[1]))
    expected = metrics.confusion_matrix(sample.y, sample.p.argmax(1), labels=labels)
    got = measured.confusion_matrix(sample.p, sample.y)
    assert got.tolist() == expected.tolist()
    assert int(got.trace()) / len(sample.y) == measured.accuracy(sample.p, sample.y)


def test_classes_are_counted_from_predictions_and_labels_alike() -> None:
    assert measured.confusion_matrix(torch.tensor([2, 0]), torch.tensor([0, 0])).shape == (3, 3)
    assert measured.confusion_matrix(torch.tensor([0, 0]), torch.tensor([2, 0])).shape == (3, 3)
    assert measured.confusion_matrix(torch.tensor([0]), torch.tensor([0]), num_classes=5).shape == (5, 5)
