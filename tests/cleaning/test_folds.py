"""Folds of the cross-validation: stratified, with groups on one side."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permll.cleaning.cross_validation import cross_validate
from permll.cleaning.folds import TRAIN_ONLY, assign_folds, linked_groups
from permll.data.loading import load
from permll.training.recipe import EstimatorSection

Rows = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.booleans()), min_size=1, max_size=60)


@given(Rows, st.integers(2, 6), st.integers(0, 5))
def test_folds_are_balanced_and_do_not_split_groups(rows: list[tuple[int, int, bool]], folds: int, seed: int) -> None:
    labels, groups, train_only = (list(column) for column in zip(*rows, strict=True))
    fold = assign_folds(labels, folds, seed, groups=groups, train_only=train_only)
    assert ((fold == TRAIN_ONLY) == np.array(train_only)).all()
    members: dict[int, list[int]] = {}
    for row, group in enumerate(groups):
        if not train_only[row]:
            members.setdefault(group, []).append(row)
    sizes = np.zeros((4, folds), int)
    for same in members.values():
        assert len(set(fold[same].tolist())) == 1
        classes = [labels[row] for row in same]
        sizes[min(set(classes), key=lambda k: (-classes.count(k), k)), fold[same[0]]] += 1
    used = min(folds, len(members))
    assert set(fold.tolist()) - {TRAIN_ONLY} == set(range(used))
    for counts in (*sizes, sizes.sum(0)):
        assert np.ptp(counts[:used], axis=None) <= 1 if used else True


def test_each_class_with_two_rows_is_always_trained_on() -> None:
    labels = np.repeat(np.arange(30), 2)
    fold = assign_folds(labels, 5, seed=3)
    for number in range(5):
        assert set(labels[fold != number]) == set(range(30))


def test_seed_determines_the_folds() -> None:
    labels = np.arange(40) % 2
    first, again, other = (assign_folds(labels, 5, seed) for seed in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize("labels", [[], [0]])
def test_tiny_data(labels: list[int]) -> None:
    assert assign_folds(labels, 5, 0).tolist() == [0] * len(labels)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=15))
def test_linked_groups_are_components(keys: list[tuple[int, int]]) -> None:
    """Rows are linked by an equal key of either kind; slowly: numbers spread until nothing changes."""
    numbers = list(range(len(keys)))
    for _ in keys:
        for i, one in enumerate(keys):
            for j, two in enumerate(keys):
                if one[0] == two[0] or one[1] == two[1]:
                    numbers[i] = numbers[j] = min(numbers[i], numbers[j])
    groups = linked_groups([one for one, _ in keys], [two for _, two in keys])
    for i in range(len(keys)):
        for j in range(len(keys)):
            assert (groups[i] == groups[j]) == (numbers[i] == numbers[j])


def test_cross_validation_keeps_groups_and_duplicates_together() -> None:
    x = np.arange(60, dtype=np.float32)[:, None] // 2  # pairs of equal samples
    groups = [f"patient {row % 12}" for row in range(60)]
    data = load(x, labels=np.arange(60) % 3, groups=groups)
    fold = cross_validate(data, EstimatorSection(name="logistic_regression", folds=3), 0).fold
    for keys in (groups, x[:, 0].tolist()):
        assert all(len(set(fold[[row for row in range(60) if keys[row] == key]].tolist())) == 1 for key in set(keys))
    assert fold.unique().tolist() == [0, 1, 2]
