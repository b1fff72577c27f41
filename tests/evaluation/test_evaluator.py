"""Metrics of predictions and labels: contents, JSON, and errors for invalid input."""

import json
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from torch import Tensor

from permll import evaluation
from permll.evaluation import accuracy, calibration, correction, detection, evaluate_labels, evaluate_predictions
from tests.helpers.evaluation_strategies import CorrectionCase, PredictionCase, correction_cases, prediction_cases


@given(prediction_cases())
def test_evaluate_predictions_combines_metrics(sample: PredictionCase) -> None:
    metrics = evaluate_predictions(*sample)
    top5 = {"top5": accuracy.top_k_accuracy(*sample, 5)} if sample.p.shape[1] > 5 else {}
    assert metrics == {
        "accuracy": accuracy.accuracy(*sample),
        **top5,
        "balanced_accuracy": accuracy.balanced_accuracy(*sample),
        "ece": calibration.expected_calibration_error(*sample),
        "nll": calibration.negative_log_likelihood(*sample),
        "brier": calibration.brier_score(*sample),
    }
    assert json.loads(json.dumps(metrics, allow_nan=False)) == metrics


@given(correction_cases())
def test_evaluate_labels_combines_metrics(sample: CorrectionCase) -> None:
    labels = sample.given, sample.corrected, sample.clean
    quality = torch.linspace(0, 1, len(sample.given))
    metrics = evaluate_labels(sample.given, sample.corrected, quality, sample.clean, sample.num_classes)
    corrected = correction.measure_correction(*labels, sample.num_classes).to_dict()
    detected = detection.measure_detection(
        quality, sample.given != sample.clean, sample.given != sample.corrected
    ).to_dict()
    assert metrics == {
        **{f"correction_{name}": value for name, value in corrected.items()},
        **{f"detection_{name}": value for name, value in detected.items()},
    }
    assert json.loads(json.dumps(metrics, allow_nan=False)) == metrics


def test_evaluate_labels_accepts_probabilities() -> None:
    given, clean, class_probs = torch.randint(4, (50,)), torch.randint(4, (50,)), torch.rand(50, 4)
    quality = torch.rand(50)
    soft = evaluate_labels(given, class_probs, quality, clean)
    assert soft == evaluate_labels(given, class_probs.argmax(1), quality, clean, num_classes=4)


def test_evaluate_labels_without_wrong_labels() -> None:
    labels = torch.tensor([0, 1])
    metrics = evaluate_labels(labels, labels, torch.tensor([0.5, 0.5]), labels)
    assert metrics["detection_auroc"] is metrics["detection_recall"] is metrics["correction_recall"] is None
    assert metrics["correction_accuracy_after"] == 1.0


def test_evaluate_predictions_of_one_sample() -> None:
    assert evaluate_predictions(torch.tensor([[0.25, 0.75]]), torch.tensor([1]))["accuracy"] == 1.0


P, Y, Q = torch.tensor([[0.5, 0.5], [0.25, 0.75]]), torch.tensor([0, 1]), torch.tensor([0.5, 0.5])


@pytest.mark.parametrize(
    ("metric", "arguments", "message"),
    [
        (
            evaluate_predictions,
            (P, torch.tensor([0, 2])),
            r"must be in 0\.\.1, but 1 position \(1\) is not: number the",
        ),
        (evaluate_predictions, (P, torch.tensor([-1, 0])), r"labels must be in 0\.\.1, but 1 position \(0\) is not"),
        (evaluate_predictions, (P, Y[:1]), "probabilities has 2 entries, but labels has 1: give one entry per sample"),
        (evaluate_predictions, (P, Y.double()), r"labels must be integers of shape \(N,\), N > 0; got float64"),
        (evaluate_predictions, (P, Y.bool()), r"labels must be integers .* got bool of shape \(2,\)"),
        (evaluate_predictions, (P, Y[:, None]), r"labels must be integers .* got int64 of shape \(2, 1\)"),
        (evaluate_predictions, (P[:0], Y[:0]), r"labels must be integers .* N > 0; got int64 of shape \(0,\)"),
        (evaluate_predictions, (Y, Y), r"probabilities must be floats of shape \(N, c\), one column per class"),
        (evaluate_predictions, (P.log() * torch.inf, Y), r"are NaN or infinite in 2 rows \(0, 1\): check the learn"),
        (evaluate_predictions, (P - 1, Y), r"are negative or do not sum to 1 in 2 rows \(0, 1\): pass softmax"),
        (evaluate_predictions, (torch.tensor([[1.5, -0.5], [0.5, 0.5]]), Y), r"are negative .* in 1 row \(0\)"),
        (evaluate_predictions, (P * 1.01, Y), r"are negative or do not sum to 1 in 2 rows"),
        (accuracy.top_k_accuracy, (P, Y, 3), r"k must lie in 1\.\.2, the number of classes; got 3"),
        (accuracy.top_k_accuracy, (P, Y, 0), r"k must lie in 1\.\.2, the number of classes; got 0"),
        (accuracy.accuracy, (Y - 1, Y), r"predictions must be at least 0, but 1 position \(0\) is not: number"),
        (evaluate_labels, (Y, P, Q, Y, 3), "corrected labels have 2 columns, but num_classes is 3"),
        (evaluate_labels, (Y, Y, Q, Y[:1]), "given has 2 entries, but clean has 1: give one entry per sample"),
        (evaluate_labels, (Y, Y, Q + 1, Y), r"quality must lie in \[0, 1\], .* does not at 2 positions \(0, 1\)"),
        (evaluate_labels, (Y, Y, Q * torch.nan, Y), r"quality must lie in \[0, 1\], .* does not at 2 positions"),
        (evaluate_labels, (Y, Y, Y, Y), r"quality must be floats of shape \(N,\), N > 0; got int64 of shape \(2,\)"),
        (evaluate_labels, (Y, Y, Q, Y - 1), r"clean labels must be at least 0, but 1 position \(0\) is not"),
        (evaluate_labels, (Y - 1, Y, Q, Y), r"given labels must be at least 0, but 1 position \(0\) is not"),
        (detection.measure_detection, (Q, Y), r"wrong must be booleans of shape \(N,\), N > 0; got int64"),
        (detection.flag_score, (Y.bool(), Y), "wrong must be booleans"),
    ],
)
def test_metrics_refuse_invalid_input(
    metric: Callable[..., object], arguments: tuple[Tensor, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        metric(*arguments)


def test_evaluation_public_names() -> None:
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
