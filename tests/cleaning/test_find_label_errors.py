"""``find_label_errors``: label issues from predicted probabilities."""

from pathlib import Path

import numpy as np
import pytest
import torch

from permll.cleaning.find_label_errors import find_label_errors
from permll.data.labels import encode_labels
from permll.evaluation.detection import average_precision


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


def test_find_label_errors_reads_an_array_on_disk(tmp_path: Path) -> None:
    labels, p, _ = noisy()
    np.save(tmp_path / "p.npy", p.astype(np.float32))
    on_disk = np.load(tmp_path / "p.npy", mmap_mode="r")
    found, expected = find_label_errors(labels, on_disk), find_label_errors(labels, p.astype(np.float32))
    assert np.array_equal(found.label_quality, expected.label_quality)
    assert np.array_equal(found.conservative_confidence, expected.conservative_confidence)


def test_find_label_errors_counts_the_labels_of_neighbors() -> None:
    labels, p, wrong = noisy()
    truth = p.argmax(1)
    rng = np.random.default_rng(1)
    weak = rng.dirichlet(np.ones(3), len(p)) * 0.8 + 0.2 * np.eye(3)[truth]
    features = np.eye(3)[truth] + 0.3 * rng.normal(size=(len(p), 3))
    alone, found = find_label_errors(labels, weak), find_label_errors(labels, weak, features=features)
    wrong_ = torch.from_numpy(wrong)
    precision = [average_precision(torch.from_numpy(one.label_quality), wrong_) for one in (alone, found)]
    assert precision[1] > precision[0] + 0.1
    with pytest.raises(ValueError, match=r"features must have shape \(600, d\), one row per label; got \(3, 3\)\.$"):
        find_label_errors(labels, weak, features=np.eye(3))
    features[7] = np.nan
    with pytest.raises(ValueError, match="features of row 7 are NaN or infinite"):
        find_label_errors(labels, weak, features=features)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int16])
@pytest.mark.parametrize("offset", [0, 7])
def test_integer_labels_are_encoded_like_python_integers(dtype: type, offset: int) -> None:
    labels = np.array([3, 0, 3, 100], dtype) + dtype(offset)
    fast, slow = encode_labels(labels), encode_labels(labels.tolist())
    assert torch.equal(fast[0], slow[0])
    assert fast[1] == slow[1]


@pytest.mark.parametrize("labels", [np.arange(-128, 128, dtype=np.int8), np.array([2**63 + 1, 2**63], np.uint64)])
def test_extreme_integer_labels_are_encoded(labels: np.ndarray) -> None:
    encoded, names = encode_labels(labels)
    assert names == tuple(str(value) for value in sorted(labels.tolist()))
    assert [int(names[k]) for k in encoded] == labels.tolist()


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
