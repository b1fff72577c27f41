"""Rare classes, missing labels, and warnings about labels, for any source."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permll.data.readers import read

X = [[float(i)] for i in range(6)]
RARE = ["a", "b", "a", "c", "b", "a"]


def test_rare_classes_raise_by_default() -> None:
    with pytest.raises(ValueError, match=r"fewer than two samples in 1 class \(c: 3\): add some, or pass rare='drop'"):
        read(X, labels=RARE)
    with pytest.raises(ValueError, match=r"2 classes \(c: 3, d: none\)"):
        read(X, labels=RARE, classes=["a", "b", "c", "d"])


def test_rare_classes_can_be_dropped() -> None:
    data = read(X, labels=RARE, rare="drop", classes=["d", "c", "b", "a"])
    assert data.classes == ("b", "a")
    assert data.ids == ("0", "1", "2", "4", "5")
    assert [data.classes[label] for label in data.labels.tolist()] == ["a", "b", "a", "b", "a"]
    assert data.inputs.values.ravel().tolist() == [0, 1, 2, 4, 5]
    assert [(entry["what"], entry["names"]) for entry in data.metadata["left_out"]] == [
        ("class", ["d", "c"]),
        ("row", ["3"]),
    ]


def test_rare_classes_can_be_kept() -> None:
    data = read(X, labels=RARE, rare="keep", classes=["a", "b", "c", "d"])
    assert data.classes == ("a", "b", "c", "d")
    assert data.class_counts.tolist() == [3, 2, 1, 0]


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=30))
def test_dropping_rare_classes_keeps_other_rows(labels: list[str]) -> None:
    frequent = [i for i, label in enumerate(labels) if labels.count(label) > 1]
    if len({labels[i] for i in frequent}) < 2:
        with pytest.raises(ValueError, match="at least two classes are needed"):
            read([[0.0]] * len(labels), labels=labels, rare="drop")
        return
    data = read([[0.0]] * len(labels), labels=labels, rare="drop")
    assert data.ids == tuple(map(str, frequent))
    assert [data.classes[label] for label in data.labels.tolist()] == [labels[i] for i in frequent]


@pytest.mark.parametrize("rare", ["refuse", "drop", "keep"])
def test_one_class_raises(rare: str) -> None:
    with pytest.raises(ValueError, match="at least two classes are needed, but all labels are 'a'"):
        read(X, labels=["a"] * 6, rare=rare, classes=["a", "b"])


def test_minus_one_warns_or_raises() -> None:
    labels = [0, 1, -1, 1, 0, -1]
    with pytest.warns(UserWarning, match=r"-1 is read as a class in 2 rows \(2, 5\): pass no_label=-1") as caught:
        assert read(X, labels=labels).classes == ("-1", "0", "1")
    assert caught[0].filename == __file__
    assert read(X, labels=labels, no_label=()).classes == ("-1", "0", "1")
    assert read(X, labels=labels, no_label=-1).classes == ("0", "1")
    assert read(X, labels=[-1, 1, -1, 1, 1, 1]).classes == ("-1", "1")  # without 0


def test_similar_class_names_warn() -> None:
    with pytest.warns(UserWarning, match=r"may be the same: 1 group \('Cat ' and 'cat'\)") as caught:
        read(X, labels=["cat", "Cat ", "dog", "cat", "Cat ", "dog"])
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("labels", "no_label", "kept"),
    [
        ([1, 2, 9, 1, 2, 9], 9, "0134"),
        (["1", "2", "9", "1", "2", "9"], 9, "0134"),
        ([1, 2, 9, 1, 2, 9], "9", "0134"),
        (np.array([1, 2, 9, 1, 2, 9.0]), 9, "0134"),
        ([True, False, True, False, True, True], 1, "012345"),
        (["a", "b", None, "a", "b", ""], "", "0134"),
        (["a", "b", None, "a", "b", "?"], {"?", None}, "0134"),
    ],
)
def test_no_label_values(labels, no_label: object, kept: str) -> None:
    data = read(X, labels=labels, no_label=no_label)
    assert data.ids == tuple(kept)
    assert sum(entry["count"] for entry in data.metadata["left_out"]) == 6 - len(kept)


def test_left_out_count_is_complete() -> None:
    labels = ["a", "b"] * 10 + ["?"] * 5000
    (entry,) = read([[0.0]] * len(labels), labels=labels, no_label="?").metadata["left_out"]
    assert entry["count"] == 5000
    assert len(entry["names"]) == 1000
    assert entry["why"] == "no label ('?')"


def test_mixed_labels_are_named_by_id() -> None:
    with pytest.raises(ValueError, match=r"mix text and numbers: text in 1 row \(r3\)"):
        read(X, labels=[1, 2, 1, "a", 2, 1], ids=[f"r{i}" for i in range(6)])
