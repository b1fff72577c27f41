"""All the numbers of one evaluation under flat names: one line of metrics.jsonl."""

from collections.abc import Mapping
from typing import TypeVar

from jaxtyping import Float, Int
from torch import Tensor

from permll.evaluation import calibration
from permll.evaluation.accuracy import accuracy, balanced_accuracy, top_k
from permll.evaluation.correction import NAMES, measure_correction
from permll.evaluation.detection import measure_detection
from permll.evaluation.validation import Outputs, read_answers, read_probabilities, same_length

Value = TypeVar("Value")


def evaluate_predictions(
    probabilities: Float[Tensor, "samples classes"], labels: Int[Tensor, " samples"]
) -> dict[str, float]:
    """Return accuracy, balanced accuracy, calibration error, likelihood and Brier score; top 5 if there are more.

    Examples:
        >>> import torch
        >>> evaluate_predictions(torch.tensor([[0.75, 0.25], [0.75, 0.25]]), torch.tensor([0, 1]))
        {'accuracy': 0.5, 'balanced_accuracy': 0.5, 'ece': 0.25, 'nll': 0.836..., 'brier': 0.625}
    """
    read_probabilities(probabilities, labels)  # here, so that nothing is measured of what is no probability
    found = {"accuracy": accuracy(probabilities, labels)}
    if probabilities.shape[1] > 5:
        found["top5"] = top_k(probabilities, labels, 5)
    return {
        **found,
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
) -> dict[str, float | int | list[int] | None]:
    """Return what became of the labels (``correction_...``) and how well the wrong ones were found (``detection_...``).

    The labels that were changed count as the flagged ones.

    Args:
        given: (N,) labels as they came.
        corrected: (N,) labels after the correction, or (N, c) beliefs, of which the largest is taken.
        quality: (N,) in [0, 1], low = suspect.
        clean: (N,) labels as they should be.
        num_classes: c; by default the width of the beliefs, or one more than the highest class there is.

    Examples:
        >>> import torch
        >>> given, clean = torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1])
        >>> found = evaluate_labels(given, clean, torch.tensor([0.8, 0.1, 0.9]), clean)
        >>> found["correction_accuracy_before"], found["correction_accuracy_after"], found["detection_auroc"]
        (0.6666666666666666, 1.0, 1.0)
    """
    same_length(given=given, corrected=corrected, quality=quality, clean=clean)
    new, truth, width = read_answers(corrected, clean, num_classes, NAMES)
    given = given.cpu()
    correction = measure_correction(given, new, truth, num_classes if corrected.ndim == 1 else width)
    detection = measure_detection(quality, given != truth, given != new)
    return {**_prefixed("correction", correction.numbers()), **_prefixed("detection", detection.numbers())}


def _prefixed(prefix: str, numbers: Mapping[str, Value]) -> dict[str, Value]:
    return {f"{prefix}_{name}": value for name, value in numbers.items()}
