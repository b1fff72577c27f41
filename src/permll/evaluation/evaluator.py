"""``Evaluator``: the metrics of a training run, including those that need clean labels.

The trainer passes predictions to the evaluator; clean labels never reach the trainer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from jaxtyping import Float, Int
from torch import Tensor

from permll.data.dataset import LabeledData
from permll.evaluation import calibration
from permll.evaluation.accuracy import accuracy, balanced_accuracy, top_k_accuracy
from permll.evaluation.correction import INPUT_NAMES, Metrics, measure_correction
from permll.evaluation.detection import measure_detection
from permll.evaluation.protocol import REPORTED, select_from_metrics
from permll.evaluation.validation import Outputs, check_predictions, check_probabilities, check_same_length


class CorrectsLabels(Protocol):
    """Interface of a method for the evaluation of its labels."""

    def labels_and_quality(self, predict_logits: Callable[..., Tensor]) -> tuple[Tensor, Tensor]:
        """Return corrected labels (N, c) as probabilities, and the quality (N,) of the given labels."""


@dataclass(eq=False)
class Evaluator:
    """Computes the metrics of a training run.

    Args:
        test: test data with clean labels.
        validation: held-out data with given labels.
        clean: clean labels (N,) of the training data.
        clean_validation: clean labels of the validation data.
        validation_is_clean: whether the labels of ``validation`` are clean, so that selection by them is an oracle's.
    """

    test: LabeledData | None = None
    validation: LabeledData | None = None
    clean: Tensor | None = None
    clean_validation: Tensor | None = None
    validation_is_clean: bool = False

    def evaluate(
        self,
        method: CorrectsLabels,
        predict: Callable[[LabeledData], Tensor],
        predict_logits: Callable[..., Tensor],
        train: LabeledData,
    ) -> dict[str, Any]:
        """Return the metrics of an epoch."""
        metrics: dict[str, Any] = {}
        predict_logits = cache(predict_logits)  # shared by corrected labels and label quality
        if self.test is not None:
            metrics |= _add_prefix("test", evaluate_predictions(predict(self.test), self.test.labels))
        if self.validation is not None:
            probabilities = predict(self.validation)
            if not self.validation_is_clean:
                metrics["noisy_validation_accuracy"] = accuracy(probabilities, self.validation.labels)
            if self.clean_validation is not None:
                metrics["clean_validation_accuracy"] = accuracy(probabilities, self.clean_validation)
        if self.clean is not None:
            corrected, quality = method.labels_and_quality(predict_logits)
            metrics |= evaluate_labels(train.labels, corrected.cpu(), quality.cpu(), self.clean)
        return metrics

    def summarize(self, metrics: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the reported results of a finished run, and the names of the oracle results among them."""
        if self.test is None:
            return {**dict.fromkeys(REPORTED), "oracle": [], "final": dict(metrics[-1])}
        reported = select_from_metrics(metrics)
        return {**reported.to_dict(), "oracle": sorted(reported.oracle), "final": dict(metrics[-1])}


def evaluate_predictions(
    probabilities: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"]
) -> dict[str, float]:
    """Return accuracy, balanced accuracy, ECE, NLL and Brier score, and top-5 accuracy for more than 5 classes.

    Examples:
        >>> import torch
        >>> evaluate_predictions(torch.tensor([[0.75, 0.25], [0.75, 0.25]]), torch.tensor([0, 1]))
        {'accuracy': 0.5, 'balanced_accuracy': 0.5, 'ece': 0.25, 'nll': 0.836..., 'brier': 0.625}
    """
    check_probabilities(probabilities, labels)  # before accuracy, which accepts logits
    metrics = {"accuracy": accuracy(probabilities, labels)}
    if probabilities.shape[1] > 5:
        metrics["top5"] = top_k_accuracy(probabilities, labels, 5)
    return {
        **metrics,
        "balanced_accuracy": balanced_accuracy(probabilities, labels),
        "ece": calibration.expected_calibration_error(probabilities, labels),
        "nll": calibration.negative_log_likelihood(probabilities, labels),
        "brier": calibration.brier_score(probabilities, labels),
    }


def evaluate_labels(
    given: Int[Tensor, " samples"],
    corrected: Outputs,
    quality: Float[Tensor, " samples"],
    clean: Int[Tensor, " samples"],
    num_classes: int | None = None,
) -> Metrics:
    """Return the metrics of label correction (``correction_...``) and label-error detection (``detection_...``).

    Changed labels count as flagged.

    Args:
        given: (N,) labels before the correction.
        corrected: (N,) labels after the correction, or (N, c) class probabilities, whose argmax is used.
        quality: (N,) label quality in [0, 1], low = suspect.
        clean: (N,) clean labels.
        num_classes: c. Default: the number of columns of ``corrected``, or the highest class + 1.

    Examples:
        >>> import torch
        >>> given, clean = torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1])
        >>> metrics = evaluate_labels(given, clean, torch.tensor([0.8, 0.1, 0.9]), clean)
        >>> metrics["correction_accuracy_before"], metrics["correction_accuracy_after"], metrics["detection_auroc"]
        (0.6666666666666666, 1.0, 1.0)
    """
    check_same_length(given=given, corrected=corrected, quality=quality, clean=clean)
    after, truth, width = check_predictions(corrected, clean, num_classes, INPUT_NAMES)
    given = given.cpu()
    correction = measure_correction(given, after, truth, num_classes if corrected.ndim == 1 else width)
    detection = measure_detection(quality, given != truth, given != after)
    return _add_prefix("correction", correction.to_dict()) | _add_prefix("detection", detection.to_dict())


def _add_prefix(prefix: str, metrics: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{prefix}_{name}": value for name, value in metrics.items()}
