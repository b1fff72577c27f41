"""Outcomes of a label correction against a loop over samples."""

from collections import Counter

import pytest
import torch
from hypothesis import given

from permll.evaluation.correction import Correction, CorrectionCounts, measure_correction
from tests.helpers.evaluation_strategies import CorrectionCase, correction_cases


def outcome(given: int, corrected: int, clean: int) -> str:
    if given == clean:
        return "kept_correct" if corrected == given else "broken"
    if corrected == clean:
        return "fixed"
    return "missed" if corrected == given else "miscorrected"


def measure(sample: CorrectionCase) -> Correction:
    return measure_correction(sample.given, sample.corrected, sample.clean, sample.num_classes)


@given(correction_cases())
def test_correction_counts_match_loop(sample: CorrectionCase) -> None:
    rows = list(zip(sample.given.tolist(), sample.corrected.tolist(), sample.clean.tolist(), strict=True))
    result = measure(sample)
    assert Counter(result.total._asdict()) == Counter(outcome(*row) for row in rows)
    for label, counts in enumerate(result.by_class):
        assert Counter(counts._asdict()) == Counter(outcome(*row) for row in rows if row[2] == label)


@given(correction_cases())
def test_correction_counts_sum_to_num_samples(sample: CorrectionCase) -> None:
    result = measure(sample)
    n = len(sample.given)
    assert sum(result.total) == result.total.samples == n
    assert sum(counts.samples for counts in result.by_class) == n
    assert CorrectionCounts(*map(sum, zip(*result.by_class, strict=True))) == result.total
    assert len(result.by_class) == sample.num_classes
    assert result.total.right_before + result.total.wrong == n


@given(correction_cases())
def test_correction_properties_match_labels(sample: CorrectionCase) -> None:
    total = measure(sample).total
    wrong, changed = sample.given != sample.clean, sample.corrected != sample.given
    assert total.wrong == wrong.sum()
    assert total.changed == changed.sum()
    assert total.right_before == (sample.given == sample.clean).sum()
    assert total.right_after == (sample.corrected == sample.clean).sum()
    correct_after = (sample.corrected == sample.clean).double()
    for value, mask in ((total.precision, changed), (total.recall, wrong)):
        assert value == pytest.approx(float(correct_after[mask].mean())) if mask.any() else value is None


@given(correction_cases())
def test_correction_of_nothing_and_of_everything(sample: CorrectionCase) -> None:
    unchanged = measure(sample._replace(corrected=sample.given)).total
    assert (unchanged.changed, unchanged.precision, unchanged.right_after) == (0, None, unchanged.right_before)
    perfect = measure(sample._replace(corrected=sample.clean)).total
    assert (perfect.right_after, perfect.broken, perfect.missed) == (len(sample.given), 0, 0)
    assert perfect.recall in (None, 1.0)


@given(correction_cases())
def test_correction_accepts_probabilities(sample: CorrectionCase) -> None:
    class_probs = torch.nn.functional.one_hot(sample.corrected, sample.num_classes).float()
    assert measure_correction(sample.given, class_probs, sample.clean) == measure(sample)


@pytest.mark.parametrize("position", [0, 1, 2])
def test_correction_infers_num_classes_from_all_labels(position: int) -> None:
    vectors = [torch.tensor([0, 1]) for _ in range(3)]
    vectors[position] = torch.tensor([0, 4])
    assert len(measure_correction(*vectors).by_class) == 5


def test_correction_refuses_labels_outside_classes() -> None:
    labels = torch.tensor([0, 1, 2])
    with pytest.raises(ValueError, match=r"given labels must be in 0\.\.1, but 1 position \(2\) is not"):
        measure_correction(labels, torch.eye(3)[:, :2], labels.clamp_max(1))
    with pytest.raises(ValueError, match=r"corrected labels must be in 0\.\.1, but 1 position \(2\) is not"):
        measure_correction(labels.clamp_max(1), labels, labels.clamp_max(1), num_classes=2)


def test_correction_to_dict() -> None:
    given, corrected, clean = torch.tensor([0, 1, 1, 2]), torch.tensor([0, 0, 2, 1]), torch.tensor([0, 0, 0, 2])
    assert measure_correction(given, corrected, clean).to_dict() == {
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
