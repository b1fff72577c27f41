"""Which epoch is reported: the last, the best by what a user has, and, marked, the best by what only an oracle has."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permll.evaluation.protocol import Choice, Protocol, choose_epochs, choose_from_rows

# Few values, so that epochs tie.
ACCURACY = st.one_of(st.none(), st.sampled_from([0.0, 0.25, 0.5, 0.75]))
RUNS = st.lists(st.tuples(ACCURACY, ACCURACY, ACCURACY), min_size=1, max_size=12).filter(
    lambda run: any(test is not None for test, _, _ in run)
)
Run = list[tuple[float | None, float | None, float | None]]


def earliest_best(run: Run, column: int) -> Choice | None:
    best: tuple[float, Choice] | None = None
    for epoch, row in enumerate(run):
        test, value = row[0], row[column]
        if test is not None and value is not None and (best is None or value > best[0]):
            best = value, Choice(epoch, test)
    return best and best[1]


@given(RUNS)
def test_choices_are_the_loops(run: Run) -> None:
    test, noisy, clean = (list(column) for column in zip(*run, strict=True))
    found = choose_epochs(test, noisy, clean)
    assert found.best_test == earliest_best(run, 0)
    assert found.best_by_noisy_validation == earliest_best(run, 1)
    assert found.best_by_clean_validation == earliest_best(run, 2)
    assert found.last == [Choice(epoch, row[0]) for epoch, row in enumerate(run) if row[0] is not None][-1]


@given(RUNS)
def test_no_choice_beats_the_best_test_and_memorisation_is_what_the_last_lost(run: Run) -> None:
    found = choose_epochs(*(list(column) for column in zip(*run, strict=True)))
    tests = [test for test, _, _ in run if test is not None]
    assert found.best_test.test == max(tests)
    assert found.memorization == max(tests) - tests[-1] >= 0
    assert all(value is None or value <= max(tests) for value in found.numbers().values())


@given(RUNS)
def test_rows_choose_as_series_do(run: Run) -> None:
    names = ("test_accuracy", "noisy_validation_accuracy", "clean_validation_accuracy")
    rows: list[dict[str, Any]] = [
        {"epoch": 10 + 2 * place} | {name: value for name, value in zip(names, row, strict=True) if value is not None}
        for place, row in enumerate(run)
    ]
    series = [list(column) for column in zip(*run, strict=True)]
    assert choose_from_rows(rows) == choose_epochs(*series, epochs=[row["epoch"] for row in rows])


def test_rows_may_call_their_numbers_otherwise() -> None:
    rows = [{"epoch": 0, "acc": 1, "val": 0.1}, {"epoch": 1, "acc": 0.5, "val": 0.2}]
    found = choose_from_rows(rows, test="acc", clean_validation="val")
    assert found == Protocol(Choice(1, 0.5), None, Choice(1, 0.5), Choice(0, 1.0))


def test_the_oracle_is_marked_and_the_rest_is_not() -> None:
    numbers = choose_epochs([0.9, 0.8], [0.1, 0.2], [0.2, 0.1]).numbers()
    assert {name for name in numbers if name in Protocol.oracle} == Protocol.oracle
    assert set(numbers) - Protocol.oracle == {"last", "best_by_noisy_validation"}
    assert numbers["best_by_noisy_validation"] == 0.8
    assert numbers["best_by_clean_validation"] == 0.9
    assert numbers["memorisation"] == pytest.approx(0.1)


def test_without_validation_there_is_no_choice_by_it() -> None:
    found = choose_epochs([0.5])
    assert found.best_by_noisy_validation is found.best_by_clean_validation is None
    assert choose_epochs([0.5], [None]).best_by_noisy_validation is None


@pytest.mark.parametrize(
    ("series", "epochs", "sentence"),
    [
        (([],), None, "no epoch has a test accuracy: evaluate the last one at least"),
        (([None, None],), None, "no epoch has a test accuracy"),
        (([0.5, math.nan],), None, "test is nan in epoch 1: give None for an epoch that was not measured"),
        (([0.5], [math.inf]), [7], "noisy_validation is inf in epoch 7"),
        (([0.5, 0.5], [0.5]), None, "noisy_validation has 1 values for 2 epochs: give one each"),
        (([0.5, 0.5],), [3, 3], "epoch 3 comes after epoch 3: give each epoch once, in rising order"),
    ],
)
def test_series_that_do_not_fit_are_refused(series: Any, epochs: list[int] | None, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        choose_epochs(*series, epochs=epochs)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"test_accuracy": 0.5}, "row 0 has epoch None: every row needs the whole number of its epoch"),
        ({"epoch": 3, "test_accuracy": "0.5"}, "test_accuracy is '0.5' in epoch 3: it must be a number, or left out"),
    ],
)
def test_rows_that_cannot_be_read_are_refused(row: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        choose_from_rows([row])
