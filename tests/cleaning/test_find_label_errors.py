"""``find_label_errors``: label issues from predicted probabilities."""

import numpy as np
import pytest

from permll.cleaning.find_label_errors import find_label_errors


def noisy(rows: int = 600, classes: int = 3, rate: float = 0.1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return labels, probabilities of the true classes, and a mask of wrong labels."""
    rng = np.random.default_rng(0)
    clean = rng.integers(0, classes, rows)
    p = rng.dirichlet(np.ones(classes), rows) * 0.2 + 0.8 * np.eye(classes)[clean]
    wrong = rng.random(rows) < rate
    return np.where(wrong, (clean + 1) % classes, clean), p, wrong


def test_find_label_errors_flags_wrong_labels() -> None:
    labels, p, wrong = noisy()
    found = find_label_errors(labels, p)
    assert (found.is_issue == wrong).mean() > 0.99
    assert np.array_equal(found.proposed_labels[found.is_issue], p.argmax(1)[found.is_issue])
    assert found.metadata["noise"]["low"] <= wrong.mean() <= found.metadata["noise"]["high"]


def test_find_label_errors_takes_class_names() -> None:
    labels, p, _ = noisy()
    words = np.array(["cat", "dog", "owl"])[labels]
    found = find_label_errors(words.tolist(), p, ids=[f"id-{i}" for i in range(len(p))])
    assert found.classes == ("cat", "dog", "owl")
    assert np.array_equal(found.is_issue, find_label_errors(labels, p).is_issue)
    assert found.ids[5] == "id-5"


def test_find_label_errors_takes_class_without_labels() -> None:
    labels, p, _ = noisy()
    labels[labels == 2] = 0
    found = find_label_errors(labels, p)
    assert found.classes == ("0", "1", "2")


@pytest.mark.parametrize(
    ("labels", "p", "sentence"),
    [
        ([0, 1], [[0.5, 0.5]], "pred_probs has 1 rows, but there are 2 labels"),
        ([0, 1], [[2.0, -1.0], [0.5, 0.5]], "apply softmax to logits first"),
        ([0, 1], [[float("nan"), 1.0], [0.5, 0.5]], "apply softmax to logits first"),
        ([0, 1], [0.5, 0.5], "with c >= 2"),
        (["a", "b", "c"], [[0.5, 0.5]] * 3, "2 columns, but the labels have 3 classes"),
        ([0, 5], [[0.5, 0.25, 0.25]] * 2, "labels must be in 0..2"),
    ],
)
def test_find_label_errors_refuses_bad_input(labels: list[object], p: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        find_label_errors(labels, p)  # type: ignore[arg-type]
