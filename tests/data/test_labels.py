"""Labels become numbers and names, bad ones a sentence; the kinds of inputs keep their promises."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from permll.data.inputs import Images, Items, Table, Texts, Vectors
from permll.data.labels import by_place, in_order, is_missing, name_classes
from permll.utils.messages import did_you_mean, format_list

texts = st.text(min_size=1).filter(lambda word: word.strip())


@given(
    st.one_of(
        st.lists(texts, min_size=1),
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1),
        st.lists(st.booleans(), min_size=1),
    )
)
def test_every_label_keeps_its_name(values: list) -> None:
    labels, classes = name_classes(values)
    assert [classes[label] for label in labels.tolist()] == [str(value) for value in values]
    if not isinstance(values[0], bool):  # True and False are two classes, present or not
        assert list(classes) == [str(value) for value in sorted(set(values))]


@given(st.lists(texts, min_size=1, unique=True), st.data())
def test_the_classes_of_one_set_serve_the_next(train: list[str], data: st.DataObject) -> None:
    _, classes = name_classes(train)
    test = data.draw(st.lists(st.sampled_from(train), min_size=1))
    labels, same = name_classes(test, classes)
    assert same == classes
    assert [classes[label] for label in labels.tolist()] == test


@given(st.lists(st.integers(-9, 20), min_size=1), st.data())
def test_the_classes_of_numbers_serve_the_next_set_too(train: list[int], data: st.DataObject) -> None:
    _, classes = name_classes(train)
    test = data.draw(st.lists(st.sampled_from(train), min_size=1))
    labels, _ = name_classes(test, classes)
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
def test_numbers_come_in_many_forms(values) -> None:
    assert name_classes(values)[0].tolist() == [1, 0, 1]
    assert name_classes(values)[1] == ("0", "2")
    assert name_classes(values, ["a", "b", "c"])[0].tolist() == [2, 0, 2]


def test_text_comes_in_many_forms() -> None:
    for values in (["b", "ä"], np.array(["b", "ä"]), [b"b", "ä".encode()], np.array([b"b", "ä".encode()])):
        assert name_classes(values)[1] == ("b", "ä")
    assert name_classes(["a", "a\0"])[1] == ("a", "a\0")  # NumPy's own text would lose the end


def test_truth_values_are_classes() -> None:
    assert name_classes([True, False])[1] == ("False", "True")
    labels, classes = name_classes([True, False, True], ["no", "yes"])
    assert [classes[label] for label in labels.tolist()] == ["yes", "no", "yes"]


def test_numbers_too_large_for_int64_are_told_apart() -> None:
    assert name_classes(np.array([2**63, 2**64 - 1], np.uint64))[1] == (str(2**63), str(2**64 - 1))


def test_places_are_places_even_where_names_are_digits() -> None:
    labels, classes = by_place([0, 1, 2], ["1", "10", "2"])
    assert (labels.tolist(), classes) == ([0, 1, 2], ("1", "10", "2"))
    assert name_classes([1, 10, 2], ["1", "10", "2"])[0].tolist() == [0, 1, 2]


class NAType:
    """As in pandas, whose comparison with itself is neither true nor false."""

    def __ne__(self, other: object) -> bool:
        raise TypeError("boolean value of NA is ambiguous")


@pytest.mark.parametrize(
    "value", [None, float("nan"), np.float32("nan"), "", "  ", NAType()], ids=lambda value: type(value).__name__
)
def test_what_counts_as_missing(value: object) -> None:
    assert is_missing(value)
    with pytest.raises(ValueError, match=r"labels are missing in 1 row \(1\): fill them in"):
        name_classes(["a", value, "b"])


@pytest.mark.parametrize(
    ("values", "classes", "message"),
    [
        ([1, "a", 2], None, r"labels mix text and numbers: text in 1 row \(1\); write them all in one way"),
        (["a", "b", 3], None, r"mix text and numbers: numbers in 1 row \(2\)"),
        ([1, 2, True], None, r"mix truth values and numbers: truth values in 1 row \(2\)"),
        ([1.0, 2.5], None, r"fractions or huge numbers in 1 row \(1\)"),
        ([1.0, float("inf")], None, r"fractions or huge numbers in 1 row \(1\)"),
        ([1.0, 1e300], None, r"fractions or huge numbers in 1 row \(1\)"),
        ([1.0, float("nan")], None, r"missing in 1 row \(1\)"),
        (np.array([np.nan, 1]), None, r"missing in 1 row \(0\)"),
        ([2**70, 1], None, r"too large to count with: write them as text"),
        ([], None, r"one label per sample, got shape \(0,\)"),
        (np.eye(3), None, r"one label per sample, got shape \(3, 3\)"),
        ([[0, 1], [1, 0]], None, r"text or whole numbers, got list in 2 rows \(0, 1\)"),
        (np.array(["2020-01-01"], "datetime64[D]"), None, r"text or whole numbers, got date in 1 row"),
        ("abc", None, r"list of one label per sample, got 'abc'"),
        (5, None, r"list of one label per sample, got 5"),
        ([0, 3], ["a", "b"], r"outside 0..1 in 1 row \(1\)"),
        ([0, -1], ["a", "b"], r"outside 0..1 in 1 row \(1\)"),
        (["a", "c"], ["a", "b"], r"none of the 2 classes in 1 row \(1: c\)"),
        ([7, 1], ["1", "2"], r"none of the 2 classes in 1 row \(0: 7\)"),
        ([0, 1], ["a", "a"], r"name of its own; named more than once: 1 class \(a\)"),
        ([0, 1], "ab", r"classes must be a list of names, got the text 'ab'"),
        ([0, 1], [], r"classes must be a list of names, got an empty one"),
    ],
)
def test_bad_labels_are_one_sentence(values, classes, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        name_classes(values, classes)
    assert "\n" not in str(caught.value)


def test_complaints_name_ids() -> None:
    with pytest.raises(ValueError, match=r"missing in 1 image \(b.png\)"):
        name_classes(["x", None], ids=["a.png", "b.png"], noun="image")
    with pytest.raises(ValueError, match=r"not 'x', the only class, in 1 image \(b.png: y\)"):
        name_classes(["x", "y"], ["x"], ids=["a.png", "b.png"], noun="image")
    with pytest.raises(ValueError, match=r"places 0..1 in the list of classes, but they are text"):
        by_place(["x"], ["x", "y"])


def test_lists_are_short_and_on_one_line() -> None:
    phrase = format_list(["two\nlines", "x" * 500, *range(98)], "entry")
    assert phrase.startswith("100 entries (two\\nlines, xxx")
    assert phrase.endswith("..., 0, 1, 2, 3, 4, 5, 6, 7, ...)")
    assert "\n" not in phrase
    assert len(phrase) < 200
    assert format_list(["a", "b"], "class") == "2 classes (a, b)"
    assert format_list(["a", "b"], "key") == "2 keys (a, b)"


def test_the_nearest_word_whatever_its_case() -> None:
    assert did_you_mean("specie", ["Island", "Species"]) == ", did you mean Species?"
    assert did_you_mean("LABEL", ["label", "id"]) == ", did you mean label?"
    assert did_you_mean("wing", ["label", "id"]) == ""


def test_inputs_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"images must be uint8 \(N, C, H, W\), got torch.float32"):
        Images(torch.zeros(2, 3, 4, 4))
    with pytest.raises(ValueError, match=r"vectors must be float32 \(N, F\), got torch.float64 \(2, 3\)"):
        Vectors(torch.zeros(2, 3, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"features must name one feature for each of 3 columns, got \(2,\)"):
        Vectors(torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"columns of one length, got \[1, 2\]"):
        Table({"a": np.zeros(1), "b": np.zeros(2)})
    with pytest.raises(TypeError, match="texts must be encoded"):
        Texts(("a",)).batch(torch.tensor([0]))
    items = Items([(torch.zeros(2), 0), (torch.zeros(3), 1)], torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=r"items of list differ in size, 2 shapes \(\(2,\), \(3,\)\): resize them"):
        items.batch(torch.tensor([0, 1]))


def test_vectors_take_their_features_along() -> None:
    vectors = Vectors(torch.arange(6.0).reshape(2, 3), torch.tensor([0, 0, 1]))
    for other in (vectors.take(torch.tensor([1])), vectors.to("cpu")):
        assert other.features.tolist() == [0, 0, 1]
    assert vectors.to("meta").features.device.type == "meta"


def test_ordered_categories_are_text_in_order() -> None:
    sizes = pd.Categorical(["b", None, "a"], categories=["b", "a", "c"], ordered=True)
    for values in (sizes, pd.Series(sizes), pl.Series(["b", None, "a"], dtype=pl.Enum(["b", "a", "c"]))):
        assert in_order(values) == (["b", None, "a"], ("b", "a", "c"))
    assert in_order(pd.Categorical([2, 1], categories=[2, 1], ordered=True)) == (["2", "1"], ("2", "1"))
    for values in (sizes.as_unordered(), pd.Series(["b", "a"]), ["b", "a"], np.array([1, 2]), None):
        assert in_order(values) is None
