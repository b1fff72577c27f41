"""Folds of the cross-validation: stratified, with groups on one side."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permll.cleaning.folds import TRAIN_ONLY, assign_folds

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
