"""What became of labels, against a loop that asks of each sample what happened to it."""

from collections import Counter

import pytest
import torch
from hypothesis import given

from permll.evaluation import correction
from permll.evaluation.correction import CorrectionCounts
from tests.helpers.evaluation_strategies import Relabeled, relabeled


def fate(given: int, corrected: int, clean: int) -> str:
    if given == clean:
        return "kept" if corrected == given else "false_positives"
    if corrected == clean:
        return "true_positives"
    return "missed" if corrected == given else "miscorrected"


def measure(sample: Relabeled) -> correction.Correction:
    return correction.measure_correction(sample.given, sample.corrected, sample.clean, sample.num_classes)


@given(relabeled())
def test_fates_are_the_loops(sample: Relabeled) -> None:
    rows = list(zip(sample.given.tolist(), sample.corrected.tolist(), sample.clean.tolist(), strict=True))
    found = measure(sample)
    assert Counter(found.total._asdict()) == Counter(fate(*row) for row in rows)
    for label, fates in enumerate(found.by_class):
        assert Counter(fates._asdict()) == Counter(fate(*row) for row in rows if row[2] == label)


@given(relabeled())
def test_counts_sum_to_n_over_fates_and_over_classes(sample: Relabeled) -> None:
    found = measure(sample)
    n = len(sample.given)
    assert sum(found.total) == found.total.samples == n
    assert sum(fates.samples for fates in found.by_class) == n
    assert CorrectionCounts(*map(sum, zip(*found.by_class, strict=True))) == found.total
    assert len(found.by_class) == sample.num_classes
    assert found.total.right_before + found.total.wrong == n


@given(relabeled())
def test_what_is_derived_is_what_the_labels_say(sample: Relabeled) -> None:
    total = measure(sample).total
    wrong, changed = sample.given != sample.clean, sample.corrected != sample.given
    assert total.wrong == wrong.sum()
    assert total.changed == changed.sum()
    assert total.right_before == (sample.given == sample.clean).sum()
    assert total.right_after == (sample.corrected == sample.clean).sum()
    right_now = (sample.corrected == sample.clean).double()
    for share, of in ((total.precision, changed), (total.recall, wrong)):
        assert share == pytest.approx(float(right_now[of].mean())) if of.any() else share is None


@given(relabeled())
def test_without_a_change_nothing_is_corrected_and_with_the_truth_everything_is(sample: Relabeled) -> None:
    untouched = measure(sample._replace(corrected=sample.given)).total
    assert (untouched.changed, untouched.precision, untouched.right_after) == (0, None, untouched.right_before)
    perfect = measure(sample._replace(corrected=sample.clean)).total
    assert (perfect.right_after, perfect.false_positives, perfect.missed) == (len(sample.given), 0, 0)
    assert perfect.recall in (None, 1.0)


@given(relabeled())
def test_beliefs_and_the_classes_they_favour_are_one(sample: Relabeled) -> None:
    beliefs = torch.nn.functional.one_hot(sample.corrected, sample.num_classes).float()
    assert correction.measure_correction(sample.given, beliefs, sample.clean) == measure(sample)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_classes_are_counted_from_all_three_label_vectors(place: int) -> None:
    vectors = [torch.tensor([0, 1]) for _ in range(3)]
    vectors[place] = torch.tensor([0, 4])
    assert len(correction.measure_correction(*vectors).by_class) == 5


def test_given_labels_outside_the_classes_are_refused() -> None:
    labels = torch.tensor([0, 1, 2])
    with pytest.raises(ValueError, match=r"given labels lie outside 0\.\.1 at 1 position \(2\)"):
        correction.measure_correction(labels, torch.eye(3)[:, :2], labels.clamp_max(1))
    with pytest.raises(ValueError, match=r"corrected labels lie outside 0\.\.1 at 1 position \(2\)"):
        correction.measure_correction(labels.clamp_max(1), labels, labels.clamp_max(1), num_classes=2)


def test_numbers_hold_the_counts_of_each_class() -> None:
    given, corrected, clean = torch.tensor([0, 1, 1, 2]), torch.tensor([0, 0, 2, 1]), torch.tensor([0, 0, 0, 2])
    assert correction.measure_correction(given, corrected, clean).numbers() == {
        "samples": 4,
        "wrong": 2,
        "changed": 3,
        "right_before": 2,
        "right_after": 2,
        "accuracy_before": 0.5,
        "accuracy_after": 0.5,
        "true_positives": 1,
        "miscorrected": 1,
        "missed": 0,
        "false_positives": 1,
        "kept": 1,
        "precision": 1 / 3,
        "recall": 0.5,
        "samples_by_class": [3, 0, 1],
        "right_before_by_class": [1, 0, 1],
        "right_after_by_class": [2, 0, 0],
    }
