"""Findings from probabilities that somebody has already."""

import numpy as np
import pytest

from permll.cleaning.label_errors import find_label_errors


def noisy(rows: int = 600, classes: int = 3, rate: float = 0.1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return labels, probabilities that know better, and which labels are wrong."""
    rng = np.random.default_rng(0)
    clean = rng.integers(0, classes, rows)
    p = rng.dirichlet(np.ones(classes), rows) * 0.2 + 0.8 * np.eye(classes)[clean]
    wrong = rng.random(rows) < rate
    return np.where(wrong, (clean + 1) % classes, clean), p, wrong


def test_wrong_labels_are_flagged_and_right_ones_are_not() -> None:
    labels, p, wrong = noisy()
    found = find_label_errors(labels, p)
    assert (found.flagged == wrong).mean() > 0.99
    assert np.array_equal(found.proposed[found.flagged], p.argmax(1)[found.flagged])
    assert found.metadata["noise"]["low"] <= wrong.mean() <= found.metadata["noise"]["high"]


def test_labels_in_words_are_those_of_the_columns() -> None:
    labels, p, _ = noisy()
    words = np.array(["cat", "dog", "owl"])[labels]
    found = find_label_errors(words.tolist(), p, ids=[f"id-{i}" for i in range(len(p))])
    assert found.classes == ("cat", "dog", "owl")
    assert np.array_equal(found.flagged, find_label_errors(labels, p).flagged)
    assert found.ids[5] == "id-5"


def test_a_class_that_nobody_was_given_may_be_proposed() -> None:
    labels, p, _ = noisy()
    labels[labels == 2] = 0
    found = find_label_errors(labels, p)
    assert found.classes == ("0", "1", "2")


@pytest.mark.parametrize(
    ("labels", "p", "sentence"),
    [
        ([0, 1], [[0.5, 0.5]], "there are 1 rows of pred_probs and 2 labels"),
        ([0, 1], [[2.0, -1.0], [0.5, 0.5]], "take softmax first"),
        ([0, 1], [[float("nan"), 1.0], [0.5, 0.5]], "take softmax first"),
        ([0, 1], [0.5, 0.5], "two columns or more"),
        (["a", "b", "c"], [[0.5, 0.5]] * 3, "2 columns, but the labels have 3 classes"),
        ([0, 5], [[0.5, 0.25, 0.25]] * 2, "labels must be in 0..2"),
    ],
)
def test_what_cannot_be_is_refused(labels: list[object], p: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        find_label_errors(labels, p)  # type: ignore[arg-type]
