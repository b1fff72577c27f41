"""Encoding of labels, validation of inputs, and error messages."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from permll.data.inputs import Images, Items, Table, Texts, Vectors
from permll.data.labels import encode_class_numbers, encode_labels, is_missing, ordered_categories
from permll.utils.messages import did_you_mean, format_list

texts = st.text(min_size=1).filter(lambda word: word.strip())


@given(
    st.one_of(
        st.lists(texts, min_size=1),
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1),
        st.lists(st.booleans(), min_size=1),
    )
)
def test_encoded_labels_keep_their_names(values: list) -> None:
    labels, classes = encode_labels(values)
    assert [classes[label] for label in labels.tolist()] == [str(value) for value in values]
    if not isinstance(values[0], bool):  # True and False are two classes, present or not
        assert list(classes) == [str(value) for value in sorted(set(values))]


@given(st.lists(texts, min_size=1, unique=True), st.data())
def test_classes_encode_other_texts(train: list[str], data: st.DataObject) -> None:
    _, classes = encode_labels(train)
    test = data.draw(st.lists(st.sampled_from(train), min_size=1))
    labels, same = encode_labels(test, classes)
    assert same == classes
    assert [classes[label] for label in labels.tolist()] == test


@given(st.lists(st.integers(-9, 20), min_size=1), st.data())
def test_classes_encode_other_numbers(train: list[int], data: st.DataObject) -> None:
    _, classes = encode_labels(train)
    test = data.draw(st.lists(st.sampled_from(train), min_size=1))
    labels, _ = encode_labels(test, classes)
    assert [int(classes[label]) for label in labels.tolist()] == test


@pytest.mark.parametrize(
    "values",
    [
        [2, 0, 2],
        (2.0, 0.0, 2.0),
        np.array([2, 0, 2], np.uint8),
        np.array([2, 0, 2], np.float16),
        np.array([2, 0, 2], ">i4"),
        torch.tensor([2.0, 0.0, 2.0], requires_grad=True),
        torch.tensor([2, 0, 2], dtype=torch.bfloat16),
        [torch.tensor(2), torch.tensor(0), torch.tensor(2)],
        [np.int64(2), np.int64(0), np.int64(2)],
        np.array([2, 0, 2], dtype=object),
    ],
    ids=lambda values: type(values).__name__,
)
def test_encode_labels_accepts_numbers_of_any_type(values) -> None:
    assert encode_labels(values)[0].tolist() == [1, 0, 1]
    assert encode_labels(values)[1] == ("0", "2")
    assert encode_labels(values, ["a", "b", "c"])[0].tolist() == [2, 0, 2]


def test_encode_labels_accepts_text_of_any_type() -> None:
    for values in (["b", "ä"], np.array(["b", "ä"]), [b"b", "ä".encode()], np.array([b"b", "ä".encode()])):
        assert encode_labels(values)[1] == ("b", "ä")
    assert encode_labels(["a", "a\0"])[1] == ("a", "a\0")  # NumPy strings would lose the end


def test_booleans_are_classes() -> None:
    assert encode_labels([True, False])[1] == ("False", "True")
    labels, classes = encode_labels([True, False, True], ["no", "yes"])
    assert [classes[label] for label in labels.tolist()] == ["yes", "no", "yes"]


def test_numbers_beyond_int64_stay_distinct() -> None:
    assert encode_labels(np.array([2**63, 2**64 - 1], np.uint64))[1] == (str(2**63), str(2**64 - 1))


def test_class_numbers_index_classes_named_by_digits() -> None:
    labels, classes = encode_class_numbers([0, 1, 2], ["1", "10", "2"])
    assert (labels.tolist(), classes) == ([0, 1, 2], ("1", "10", "2"))
    assert encode_labels([1, 10, 2], ["1", "10", "2"])[0].tolist() == [0, 1, 2]


class NAType:
    """Like the one of pandas, whose comparison with itself is neither true nor false."""

    def __ne__(self, other: object) -> bool:
        raise TypeError("boolean value of NA is ambiguous")


@pytest.mark.parametrize(
    "value", [None, float("nan"), np.float32("nan"), "", "  ", NAType()], ids=lambda value: type(value).__name__
)
def test_missing_labels(value: object) -> None:
    assert is_missing(value)
    with pytest.raises(ValueError, match=r"labels are missing in 1 row \(1\): fill them in"):
        encode_labels(["a", value, "b"])


@pytest.mark.parametrize(
    ("values", "classes", "message"),
    [
        ([1, "a", 2], None, r"labels mix text and numbers: text in 1 row \(1\); write all of them in one way"),
        (["a", "b", 3], None, r"mix text and numbers: numbers in 1 row \(2\)"),
        ([1, 2, True], None, r"mix numbers and booleans: booleans in 1 row \(2\)"),
        ([1.0, 2.5], None, r"got fractions or huge numbers in 1 row \(1\)"),
        ([1.0, float("inf")], None, r"got fractions or huge numbers in 1 row \(1\)"),
        ([1.0, 1e300], None, r"got fractions or huge numbers in 1 row \(1\)"),
        ([1.0, float("nan")], None, r"missing in 1 row \(1\)"),
        (np.array([np.nan, 1]), None, r"missing in 1 row \(0\)"),
        ([2**70, 1], None, r"too large for 64 bits: write them as text"),
        ([], None, r"one label per sample, got shape \(0,\)"),
        (np.eye(3), None, r"one label per sample, got shape \(3, 3\)"),
        ([[0, 1], [1, 0]], None, r"text or integers, got list in 2 rows \(0, 1\)"),
        (np.array(["2020-01-01"], "datetime64[D]"), None, r"text or integers, got date in 1 row"),
        ("abc", None, r"list of one label per sample, got 'abc'"),
        (5, None, r"list of one label per sample, got 5"),
        ([0, 3], ["a", "b"], r"must be in 0..1, but 1 row \(1\) is not"),
        ([0, -1], ["a", "b"], r"must be in 0..1, but 1 row \(1\) is not"),
        (["a", "c"], ["a", "b"], r"one of the 2 classes; unknown labels in 1 row \(1: c\)"),
        ([7, 1], ["1", "2"], r"one of the 2 classes; unknown labels in 1 row \(0: 7\)"),
        ([0, 1], ["a", "a"], r"class names must be unique; repeated: 1 class \(a\)"),
        ([0, 1], "ab", r"classes must be a list of names, got the text 'ab'"),
        ([0, 1], [], r"classes must be a list of names, got an empty list"),
    ],
)
def test_encode_labels_rejects_invalid_labels(values, classes, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        encode_labels(values, classes)
    assert "\n" not in str(caught.value)


def test_label_errors_name_ids() -> None:
    with pytest.raises(ValueError, match=r"missing in 1 image \(b.png\)"):
        encode_labels(["x", None], ids=["a.png", "b.png"], noun="image")
    with pytest.raises(ValueError, match=r"must be 'x', the only class; unknown labels in 1 image \(b.png: y\)"):
        encode_labels(["x", "y"], ["x"], ids=["a.png", "b.png"], noun="image")
    with pytest.raises(ValueError, match=r"class numbers in 0..1, but they are text"):
        encode_class_numbers(["x"], ["x", "y"])


def test_format_list_is_short_and_on_one_line() -> None:
    phrase = format_list(["two\nlines", "x" * 500, *range(98)], "entry")
    assert phrase.startswith("100 entries (two\\nlines, xxx")
    assert phrase.endswith("..., 0, 1, 2, 3, 4, 5, 6, 7, ...)")
    assert "\n" not in phrase
    assert len(phrase) < 200
    assert format_list(["a", "b"], "class") == "2 classes (a, b)"
    assert format_list(["a", "b"], "key") == "2 keys (a, b)"


def test_did_you_mean_ignores_case() -> None:
    assert did_you_mean("specie", ["Island", "Species"]) == ", did you mean Species?"
    assert did_you_mean("LABEL", ["label", "id"]) == ", did you mean label?"
    assert did_you_mean("wing", ["label", "id"]) == ""


def test_inputs_reject_invalid_values() -> None:
    with pytest.raises(ValueError, match=r"images must be uint8 \(N, C, H, W\), got torch.float32"):
        Images(torch.zeros(2, 3, 4, 4))
    with pytest.raises(ValueError, match=r"vectors must be float32 \(N, F\), got torch.float64 \(2, 3\)"):
        Vectors(torch.zeros(2, 3, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"features must have one entry for each of 3 columns, got \(2,\)"):
        Vectors(torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"columns of a table must have one length, got \[1, 2\]"):
        Table({"a": np.zeros(1), "b": np.zeros(2)})
    with pytest.raises(TypeError, match="texts must be encoded"):
        Texts(("a",)).batch(torch.tensor([0]))
    items = Items([(torch.zeros(2), 0), (torch.zeros(3), 1)], torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=r"items of list differ in size, 2 shapes \(\(2,\), \(3,\)\): resize them"):
        items.batch(torch.tensor([0, 1]))


def test_vectors_take_keeps_features() -> None:
    vectors = Vectors(torch.arange(6.0).reshape(2, 3), torch.tensor([0, 0, 1]))
    assert vectors.take(torch.tensor([1])).features.tolist() == [0, 0, 1]


def test_ordered_categories() -> None:
    sizes = pd.Categorical(["b", None, "a"], categories=["b", "a", "c"], ordered=True)
    for values in (sizes, pd.Series(sizes), pl.Series(["b", None, "a"], dtype=pl.Enum(["b", "a", "c"]))):
        assert ordered_categories(values) == (["b", None, "a"], ("b", "a", "c"))
    assert ordered_categories(pd.Categorical([2, 1], categories=[2, 1], ordered=True)) == (["2", "1"], ("2", "1"))
    for values in (sizes.as_unordered(), pd.Series(["b", "a"]), ["b", "a"], np.array([1, 2]), None):
        assert ordered_categories(values) is None
