"""One line of metrics: what is in it, that JSON can hold it, and what is said of input that cannot be measured."""

import json
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from torch import Tensor

from permll import evaluation
from permll.evaluation import accuracy, calibration, correction, detection, evaluate_labels, evaluate_predictions
from tests.helpers.evaluation_strategies import Predicted, Relabeled, predicted, relabeled


@given(predicted())
def test_predictions_have_the_numbers_of_their_rooms(sample: Predicted) -> None:
    found = evaluate_predictions(*sample)
    top5 = {"top5": accuracy.top_k(*sample, 5)} if sample.p.shape[1] > 5 else {}
    assert found == {
        "accuracy": accuracy.accuracy(*sample),
        **top5,
        "balanced_accuracy": accuracy.balanced_accuracy(*sample),
        "ece": calibration.expected_calibration_error(*sample),
        "nll": calibration.negative_log_likelihood(*sample),
        "brier": calibration.brier_score(*sample),
    }
    assert json.loads(json.dumps(found, allow_nan=False)) == found


@given(relabeled())
def test_labels_have_the_numbers_of_both_rooms_and_json_holds_them(sample: Relabeled) -> None:
    labels = sample.given, sample.corrected, sample.clean
    quality = torch.linspace(0, 1, len(sample.given))
    found = evaluate_labels(sample.given, sample.corrected, quality, sample.clean, sample.num_classes)
    corrected = correction.measure_correction(*labels, sample.num_classes).numbers()
    detected = detection.measure_detection(
        quality, sample.given != sample.clean, sample.given != sample.corrected
    ).numbers()
    assert found == {
        **{f"correction_{name}": value for name, value in corrected.items()},
        **{f"detection_{name}": value for name, value in detected.items()},
    }
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_beliefs_give_the_line_of_the_classes_they_favour() -> None:
    given, clean, beliefs = torch.randint(4, (50,)), torch.randint(4, (50,)), torch.rand(50, 4)
    quality = torch.rand(50)
    soft = evaluate_labels(given, beliefs, quality, clean)
    assert soft == evaluate_labels(given, beliefs.argmax(1), quality, clean, num_classes=4)


def test_a_line_without_a_single_wrong_label_has_none_where_nothing_is_to_be_found() -> None:
    labels = torch.tensor([0, 1])
    found = evaluate_labels(labels, labels, torch.tensor([0.5, 0.5]), labels)
    assert found["detection_auroc"] is found["detection_recall"] is found["correction_recall"] is None
    assert found["correction_accuracy_after"] == 1.0


def test_one_sample_is_enough() -> None:
    assert evaluate_predictions(torch.tensor([[0.25, 0.75]]), torch.tensor([1]))["accuracy"] == 1.0


P, Y, Q = torch.tensor([[0.5, 0.5], [0.25, 0.75]]), torch.tensor([0, 1]), torch.tensor([0.5, 0.5])


@pytest.mark.parametrize(
    ("measure", "arguments", "sentence"),
    [
        (evaluate_predictions, (P, torch.tensor([0, 2])), r"labels lie outside 0\.\.1 at 1 position \(1\): number the"),
        (evaluate_predictions, (P, torch.tensor([-1, 0])), r"labels lie outside 0\.\.1 at 1 position \(0\)"),
        (evaluate_predictions, (P, Y[:1]), "probabilities has 2 entries, labels has 1: give one for each sample"),
        (evaluate_predictions, (P, Y.double()), r"labels must be whole numbers of shape \(N,\), N > 0; got float64"),
        (evaluate_predictions, (P, Y.bool()), r"labels must be whole numbers .* got bool of shape \(2,\)"),
        (evaluate_predictions, (P, Y[:, None]), r"labels must be whole numbers .* got int64 of shape \(2, 1\)"),
        (evaluate_predictions, (P[:0], Y[:0]), r"labels must be whole numbers .* N > 0; got int64 of shape \(0,\)"),
        (evaluate_predictions, (Y, Y), r"probabilities must be floats of shape \(N, c\), one column for each class"),
        (evaluate_predictions, (P.log() * torch.inf, Y), r"are NaN or infinite in 2 rows \(0, 1\): look at the learn"),
        (evaluate_predictions, (P - 1, Y), r"are negative, or do not sum to 1, in 2 rows \(0, 1\): give softmax"),
        (evaluate_predictions, (torch.tensor([[1.5, -0.5], [0.5, 0.5]]), Y), r"are negative, .* in 1 row \(0\)"),
        (evaluate_predictions, (P * 1.01, Y), r"are negative, or do not sum to 1, in 2 rows"),
        (accuracy.top_k, (P, Y, 3), "k is 3, but there are 2 classes: take k from 1 to 2"),
        (accuracy.top_k, (P, Y, 0), "k is 0, but there are 2 classes"),
        (accuracy.accuracy, (Y - 1, Y), r"predictions lie below 0 at 1 position \(0\): number the classes from 0"),
        (accuracy.by_class, (P, Y, 3), "predictions have 2 columns, but num_classes is 3: drop one"),
        (evaluate_labels, (Y, Y, Q, Y[:1]), "given has 2 entries, clean has 1: give one for each sample"),
        (evaluate_labels, (Y, Y, Q + 1, Y), r"quality lies outside 0\.\.1, or is NaN, at 2 positions \(0, 1\): 0 is a"),
        (evaluate_labels, (Y, Y, Q * torch.nan, Y), r"quality lies outside 0\.\.1, or is NaN, at 2 positions"),
        (evaluate_labels, (Y, Y, Y, Y), r"quality must be floats of shape \(N,\), N > 0; got int64 of shape \(2,\)"),
        (evaluate_labels, (Y, Y, Q, Y - 1), r"clean labels lie below 0 at 1 position \(0\)"),
        (evaluate_labels, (Y - 1, Y, Q, Y), r"given labels lie below 0 at 1 position \(0\)"),
        (detection.measure_detection, (Q, Y), r"wrong must be true or false, of shape \(N,\), N > 0; got int64"),
        (detection.flag_score, (Y.bool(), Y), "wrong must be true or false"),
    ],
)
def test_input_that_cannot_be_measured_is_named(
    measure: Callable[..., object], arguments: tuple[Tensor, ...], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        measure(*arguments)


def test_the_names_of_the_room_are_there_before_they_are_used() -> None:
    assert evaluation.__all__ == [
        "accuracy",
        "calibration",
        "correction",
        "detection",
        "evaluate_labels",
        "evaluate_predictions",
        "protocol",
    ]
    assert all(getattr(evaluation, name) for name in evaluation.__all__)
