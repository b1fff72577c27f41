"""Which epoch of a run is reported, and whether the choice uses clean labels.

``last`` and ``best_by_noisy_validation`` need only the given labels. The other choices use clean labels: they are
oracle results, and tables must mark them.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, NamedTuple

Series = Sequence[float | None]
REPORTED = ("last", "best_by_noisy_validation", "best_by_clean_validation", "best_test", "memorization")


class EpochChoice(NamedTuple):
    """An epoch and its test accuracy."""

    epoch: int
    test: float


@dataclass(frozen=True)
class ReportedEpochs:
    """The epochs that a run may report; a choice is None without such validation data."""

    last: EpochChoice
    best_by_noisy_validation: EpochChoice | None
    best_by_clean_validation: EpochChoice | None
    best_test: EpochChoice

    # Results that use clean labels.
    oracle: ClassVar[frozenset[str]] = frozenset({"best_by_clean_validation", "best_test", "memorization"})

    @property
    def memorization(self) -> float:
        """Best minus last test accuracy: the loss due to memorization of wrong labels."""
        return self.best_test.test - self.last.test

    def to_dict(self) -> dict[str, float | None]:
        """Return the test accuracies under the names used in result.json; names in ``oracle`` must be marked.

        Examples:
            >>> accuracies = select_epochs([0.75, 0.5]).to_dict()
            >>> [name + "*" * (name in ReportedEpochs.oracle) for name, value in accuracies.items() if value]
            ['last', 'best_test*', 'memorization*']
        """
        choices = {field.name: getattr(self, field.name) for field in fields(self)}
        accuracies = {name: None if choice is None else choice.test for name, choice in choices.items()}
        return {**accuracies, "memorization": self.memorization}


def select_epochs(
    test: Series,
    noisy_validation: Series | None = None,
    clean_validation: Series | None = None,
    *,
    epochs: Sequence[int] | None = None,
) -> ReportedEpochs:
    """Select the reported epochs from accuracies per epoch; ties go to the earliest epoch.

    An accuracy is None for an epoch without evaluation. Only epochs with a test accuracy can be selected, also for
    ``last``.

    Args:
        test: accuracies on the test set.
        noisy_validation: accuracies on held-out samples with given labels.
        clean_validation: accuracies on held-out samples with clean labels.
        epochs: epoch numbers in ascending order. Default: 0, 1, 2, ...

    Examples:
        >>> reported = select_epochs([0.5, 0.9, 0.8, 0.7], noisy_validation=[0.4, 0.5, 0.6, 0.6])
        >>> reported.last, reported.best_by_noisy_validation
        (EpochChoice(epoch=3, test=0.7), EpochChoice(epoch=2, test=0.8))
        >>> reported.best_test, reported.best_by_clean_validation
        (EpochChoice(epoch=1, test=0.9), None)
    """
    epochs = range(len(test)) if epochs is None else epochs
    _check_series({"test": test, "noisy_validation": noisy_validation, "clean_validation": clean_validation}, epochs)
    choices = [EpochChoice(epoch, value) for epoch, value in zip(epochs, test, strict=True) if value is not None]
    if not choices:
        raise ValueError("no epoch has a test accuracy: evaluate at least the last epoch.")
    return ReportedEpochs(
        last=choices[-1],
        best_by_noisy_validation=_best_epoch(test, noisy_validation, epochs),
        best_by_clean_validation=_best_epoch(test, clean_validation, epochs),
        best_test=max(choices, key=lambda choice: choice.test),
    )


def select_from_metrics(metrics: Iterable[Mapping[str, object]]) -> ReportedEpochs:
    """Select the reported epochs from the entries of metrics.jsonl, in order.

    Examples:
        >>> select_from_metrics([{"epoch": 1, "loss": 2.3}, {"epoch": 2, "test_accuracy": 0.5}]).last
        EpochChoice(epoch=2, test=0.5)
    """
    metrics = list(metrics)
    epochs = [_check_epoch(entry.get("epoch"), index) for index, entry in enumerate(metrics)]
    series = [
        [_check_value(entry.get(name), name, epoch) for epoch, entry in zip(epochs, metrics, strict=True)]
        for name in ("test_accuracy", "noisy_validation_accuracy", "clean_validation_accuracy")
    ]
    return select_epochs(*series, epochs=epochs)


def _best_epoch(test: Series, validation: Series | None, epochs: Sequence[int]) -> EpochChoice | None:
    """Return the first epoch with the highest validation accuracy."""
    if validation is None:
        return None
    evaluated = [
        (value, EpochChoice(epoch, test_accuracy))
        for epoch, test_accuracy, value in zip(epochs, test, validation, strict=True)
        if test_accuracy is not None and value is not None
    ]
    return max(evaluated, key=lambda pair: pair[0])[1] if evaluated else None


def _check_series(series: Mapping[str, Series | None], epochs: Sequence[int]) -> None:
    for earlier, later in itertools.pairwise(epochs):
        if later <= earlier:
            raise ValueError(f"epoch {later} follows epoch {earlier}: epochs must be unique and ascending.")
    for name, values in series.items():
        if values is None:
            continue
        if len(values) != len(epochs):
            raise ValueError(
                f"{name} has {len(values)} values for {len(epochs)} epochs: give None for epochs without evaluation."
            )
        for epoch, value in zip(epochs, values, strict=True):
            if value is not None and not math.isfinite(value):
                raise ValueError(f"{name} is {value} in epoch {epoch}: give None for epochs without evaluation.")


def _check_epoch(value: object, index: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"entry {index} of the metrics has epoch {value!r}: it must be an integer.")
    return value


def _check_value(value: object, name: str, epoch: int) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"{name} is {value!r} in epoch {epoch}: it must be a number or absent.")
    return float(value)
