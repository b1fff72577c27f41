"""The judge: the only one who sees clean labels. The loop hands it predictions; nothing goes back."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol

from torch import Tensor

from permll.data.dataset import LabeledData
from permll.evaluation.accuracy import accuracy
from permll.evaluation.evaluate import evaluate_labels, evaluate_predictions
from permll.evaluation.protocol import NUMBERS, choose_from_rows


class Judged(Protocol):
    """What the judge asks of a method."""

    def labels_and_quality(self, predict_logits: Callable[..., Tensor]) -> tuple[Tensor, Tensor]:
        """Return what it believes the labels to be (N, c), and how far the given ones (N,)."""


class Evaluator:
    """Measures a training from outside.

    Args:
        test: data with clean labels, or None.
        validation: data with noisy labels, or None.
        clean: the true labels (N,) of the training data, where they are known.
        clean_validation: those of the validation data.
        validation_is_clean: the labels of ``validation`` itself are the true ones: what an epoch is chosen by them is
            an oracle's choice.
    """

    def __init__(
        self,
        test: LabeledData | None = None,
        validation: LabeledData | None = None,
        clean: Tensor | None = None,
        clean_validation: Tensor | None = None,
        validation_is_clean: bool = False,
    ) -> None:
        self.test, self.validation, self.clean, self.clean_validation = test, validation, clean, clean_validation
        self.validation_is_clean = validation_is_clean

    def evaluate(
        self,
        method: Judged,
        predict: Callable[[LabeledData], Tensor],
        predict_logits: Callable[..., Tensor],
        train: LabeledData,
    ) -> dict[str, Any]:
        """Return the numbers of an epoch, those that clean labels went into included."""
        found: dict[str, Any] = {}
        predict_logits = cache(predict_logits)  # labels and their quality ask for the same
        if self.test is not None:
            numbers = evaluate_predictions(predict(self.test), self.test.labels)
            found |= {f"test_{name}": value for name, value in numbers.items()}
        if self.validation is not None:
            probabilities = predict(self.validation)
            if not self.validation_is_clean:
                found["noisy_validation_accuracy"] = accuracy(probabilities, self.validation.labels)
            if self.clean_validation is not None:
                found["clean_validation_accuracy"] = accuracy(probabilities, self.clean_validation)
        if self.clean is not None:
            corrected, quality = method.labels_and_quality(predict_logits)
            found |= evaluate_labels(train.labels, corrected.cpu(), quality.cpu(), self.clean)
        return found

    def summarize(self, metrics: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the numbers to report of a finished run, and which of them an oracle chose."""
        if self.test is None:
            unknown = dict.fromkeys(NUMBERS)  # only test data give them
            return {**unknown, "oracle": [], "final": dict(metrics[-1])}
        chosen = choose_from_rows(metrics)
        return {**chosen.numbers(), "oracle": sorted(chosen.oracle), "final": dict(metrics[-1])}
