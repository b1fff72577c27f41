"""Which epoch of a run is reported, and whether a user could have chosen it.

``last`` and ``best_by_noisy_validation`` need nothing but the labels that are given. The others look at clean labels:
an oracle chose them, and a table must say so.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

Series = Sequence[float | None]
NUMBERS = ("last", "best_by_noisy_validation", "best_by_clean_validation", "best_test", "memorisation")


class Choice(NamedTuple):
    """An epoch, and the test accuracy it had."""

    epoch: int
    test: float


@dataclass(frozen=True)
class Protocol:
    """The numbers a run may report. Where there was no such validation, its choice is None."""

    last: Choice
    best_by_noisy_validation: Choice | None
    best_by_clean_validation: Choice | None
    best_test: Choice

    # What only an oracle knows; printed with a mark.
    oracle: ClassVar[frozenset[str]] = frozenset({"best_by_clean_validation", "best_test", "memorisation"})

    @property
    def memorization(self) -> float:
        """Best test accuracy - last one: what was lost by learning the wrong labels by heart. Never negative."""
        return self.best_test.test - self.last.test

    def numbers(self) -> dict[str, float | None]:
        """Return what a table prints, by name; the names in ``oracle`` are to be marked.

        Examples:
            >>> numbers = choose_epochs([0.75, 0.5]).numbers()
            >>> [name + "*" * (name in Protocol.oracle) for name, value in numbers.items() if value is not None]
            ['last', 'best_test*', 'memorisation*']
        """
        choices = {
            "last": self.last,
            "best_by_noisy_validation": self.best_by_noisy_validation,
            "best_by_clean_validation": self.best_by_clean_validation,
            "best_test": self.best_test,
        }
        tests = {name: None if choice is None else choice.test for name, choice in choices.items()}
        return {**tests, "memorisation": self.memorization}


def choose_epochs(
    test: Series,
    noisy_validation: Series | None = None,
    clean_validation: Series | None = None,
    *,
    epochs: Sequence[int] | None = None,
) -> Protocol:
    """Return the reported numbers of a run from its accuracies, one for each epoch; among equals, the earliest epoch.

    An epoch that was not measured is None. A choice is made among the epochs that have a test accuracy, ``last`` too:
    its ``epoch`` says which one it is.

    Args:
        test: accuracies on the test set.
        noisy_validation: on held-out samples with the labels that are given.
        clean_validation: on held-out samples with clean labels.
        epochs: the numbers of the epochs, rising; by default 0, 1, 2, ...

    Examples:
        >>> found = choose_epochs([0.5, 0.9, 0.8, 0.7], noisy_validation=[0.4, 0.5, 0.6, 0.6])
        >>> found.last, found.best_by_noisy_validation, found.best_test
        (Choice(epoch=3, test=0.7), Choice(epoch=2, test=0.8), Choice(epoch=1, test=0.9))
        >>> found.best_by_clean_validation is None
        True
    """
    epochs = range(len(test)) if epochs is None else epochs
    series = {"test": test, "noisy_validation": noisy_validation, "clean_validation": clean_validation}
    _check(series, epochs)
    choices = [Choice(epoch, value) for epoch, value in zip(epochs, test, strict=True) if value is not None]
    if not choices:
        raise ValueError("no epoch has a test accuracy: evaluate the last one at least.")
    return Protocol(
        last=choices[-1],
        best_by_noisy_validation=_best(test, noisy_validation, epochs),
        best_by_clean_validation=_best(test, clean_validation, epochs),
        best_test=max(choices, key=lambda choice: choice.test),
    )


def choose_from_rows(
    rows: Iterable[Mapping[str, object]],
    *,
    test: str = "test_accuracy",
    noisy_validation: str = "noisy_validation_accuracy",
    clean_validation: str = "clean_validation_accuracy",
) -> Protocol:
    """Return the reported numbers from the lines of metrics.jsonl, each with its ``epoch`` and what was measured.

    Args:
        rows: one for each epoch, in order.
        test: what the test accuracy is called.
        noisy_validation: what the accuracy on held-out given labels is called.
        clean_validation: what the accuracy on held-out clean labels is called.

    Examples:
        >>> choose_from_rows([{"epoch": 1, "loss": 2.3}, {"epoch": 2, "test_accuracy": 0.5}]).last
        Choice(epoch=2, test=0.5)
    """
    rows = list(rows)
    epochs = [_whole(row.get("epoch"), place) for place, row in enumerate(rows)]
    series = [
        [_number(row.get(name), name, epoch) for epoch, row in zip(epochs, rows, strict=True)]
        for name in (test, noisy_validation, clean_validation)
    ]
    return choose_epochs(*series, epochs=epochs)


def _best(test: Series, validation: Series | None, epochs: Sequence[int]) -> Choice | None:
    """Return the epoch of highest validation; ``max`` keeps the first of equals."""
    if validation is None:
        return None
    measured = [
        (value, Choice(epoch, score))
        for epoch, score, value in zip(epochs, test, validation, strict=True)
        if score is not None and value is not None
    ]
    return max(measured, key=lambda pair: pair[0])[1] if measured else None


def _check(series: Mapping[str, Series | None], epochs: Sequence[int]) -> None:
    for earlier, later in itertools.pairwise(epochs):
        if later <= earlier:
            raise ValueError(f"epoch {later} comes after epoch {earlier}: give each epoch once, in rising order.")
    for name, values in series.items():
        if values is None:
            continue
        if len(values) != len(epochs):
            raise ValueError(
                f"{name} has {len(values)} values for {len(epochs)} epochs: give one each, None where not measured."
            )
        for epoch, value in zip(epochs, values, strict=True):
            if value is not None and not math.isfinite(value):
                raise ValueError(f"{name} is {value} in epoch {epoch}: give None for an epoch that was not measured.")


def _whole(value: object, place: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"row {place} has epoch {value!r}: every row needs the whole number of its epoch.")
    return value


def _number(value: object, name: str, epoch: int) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"{name} is {value!r} in epoch {epoch}: it must be a number, or left out.")
    return float(value)
