"""Reported epochs: last, best by noisy validation, and the oracle choices."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permll.evaluation.protocol import EpochChoice, ReportedEpochs, select_epochs, select_from_metrics

# Few values, for ties.
ACCURACY = st.one_of(st.none(), st.sampled_from([0.0, 0.25, 0.5, 0.75]))
RUNS = st.lists(st.tuples(ACCURACY, ACCURACY, ACCURACY), min_size=1, max_size=12).filter(
    lambda run: any(test is not None for test, _, _ in run)
)
Run = list[tuple[float | None, float | None, float | None]]


def earliest_best(run: Run, column: int) -> EpochChoice | None:
    best: tuple[float, EpochChoice] | None = None
    for epoch, row in enumerate(run):
        test, value = row[0], row[column]
        if test is not None and value is not None and (best is None or value > best[0]):
            best = value, EpochChoice(epoch, test)
    return best and best[1]


@given(RUNS)
def test_selected_epochs_match_loop(run: Run) -> None:
    test, noisy, clean = (list(column) for column in zip(*run, strict=True))
    reported = select_epochs(test, noisy, clean)
    assert reported.best_test == earliest_best(run, 0)
    assert reported.best_by_noisy_validation == earliest_best(run, 1)
    assert reported.best_by_clean_validation == earliest_best(run, 2)
    assert reported.last == [EpochChoice(epoch, row[0]) for epoch, row in enumerate(run) if row[0] is not None][-1]


@given(RUNS)
def test_best_test_bounds_choices_and_memorization(run: Run) -> None:
    reported = select_epochs(*(list(column) for column in zip(*run, strict=True)))
    tests = [test for test, _, _ in run if test is not None]
    assert reported.best_test.test == max(tests)
    assert reported.memorization == max(tests) - tests[-1] >= 0
    assert all(value is None or value <= max(tests) for value in reported.to_dict().values())


@given(RUNS)
def test_select_from_metrics_equals_select_epochs(run: Run) -> None:
    names = ("test_accuracy", "noisy_validation_accuracy", "clean_validation_accuracy")
    metrics: list[dict[str, Any]] = [
        {"epoch": 10 + 2 * i} | {name: value for name, value in zip(names, row, strict=True) if value is not None}
        for i, row in enumerate(run)
    ]
    series = [list(column) for column in zip(*run, strict=True)]
    assert select_from_metrics(metrics) == select_epochs(*series, epochs=[entry["epoch"] for entry in metrics])


def test_select_from_metrics_converts_integers() -> None:
    metrics = [
        {"epoch": 0, "test_accuracy": 1, "clean_validation_accuracy": 0.1},
        {"epoch": 1, "test_accuracy": 0.5, "clean_validation_accuracy": 0.2},
    ]
    last, best = EpochChoice(1, 0.5), EpochChoice(0, 1.0)
    assert select_from_metrics(metrics) == ReportedEpochs(last, None, last, best)


def test_oracle_names_use_clean_labels() -> None:
    accuracies = select_epochs([0.9, 0.8], [0.1, 0.2], [0.2, 0.1]).to_dict()
    assert {name for name in accuracies if name in ReportedEpochs.oracle} == ReportedEpochs.oracle
    assert set(accuracies) - ReportedEpochs.oracle == {"last", "best_by_noisy_validation"}
    assert accuracies["best_by_noisy_validation"] == 0.8
    assert accuracies["best_by_clean_validation"] == 0.9
    assert accuracies["memorization"] == pytest.approx(0.1)


def test_missing_validation_gives_none() -> None:
    reported = select_epochs([0.5])
    assert reported.best_by_noisy_validation is reported.best_by_clean_validation is None
    assert select_epochs([0.5], [None]).best_by_noisy_validation is None


@pytest.mark.parametrize(
    ("series", "epochs", "message"),
    [
        (([],), None, "no epoch has a test accuracy: evaluate at least the last epoch"),
        (([None, None],), None, "no epoch has a test accuracy"),
        (([0.5, math.nan],), None, "test is nan in epoch 1: give None for epochs without evaluation"),
        (([0.5], [math.inf]), [7], "noisy_validation is inf in epoch 7"),
        (([0.5, 0.5], [0.5]), None, "noisy_validation has 1 values for 2 epochs: give None"),
        (([0.5, 0.5],), [3, 3], "epoch 3 follows epoch 3: epochs must be unique and ascending"),
    ],
)
def test_select_epochs_refuses_invalid_series(series: Any, epochs: list[int] | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        select_epochs(*series, epochs=epochs)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"test_accuracy": 0.5}, "entry 0 of the metrics has epoch None: it must be an integer"),
        ({"epoch": 3, "test_accuracy": "0.5"}, "test_accuracy is '0.5' in epoch 3: it must be a number or absent"),
    ],
)
def test_select_from_metrics_refuses_invalid_entries(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        select_from_metrics([entry])
