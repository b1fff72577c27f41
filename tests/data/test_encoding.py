"""Encoders of tables and texts."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from permll.data import Images, LabeledData, Table, Texts, Vectors
from permll.data.encoding import TableEncoder, TextEncoder, encode, from_arrays

numbers = st.one_of(st.just(float("nan")), st.floats(allow_nan=False, allow_infinity=False))
words = st.sampled_from(["", "red", "blue", "grün", "a\0", "\N{SNOWMAN}"])


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Draw up to four columns of up to twelve rows."""
    count = draw(st.integers(1, 12))
    columns: dict[str, np.ndarray] = {}
    for k in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            columns[f"n{k}"] = np.array(draw(st.lists(numbers, min_size=count, max_size=count)))
        else:
            columns[f"w{k}"] = np.array(draw(st.lists(words, min_size=count, max_size=count)), dtype=object)
    return Table(columns)


@given(tables(), st.integers(1, 3))
def test_table_vectors_are_finite_and_survive_saving(table: Table, max_categories: int) -> None:
    encoder = TableEncoder.fit(table, max_categories=max_categories)
    vectors = encoder(table)
    assert vectors.values.isfinite().all()
    assert vectors.features is not None
    assert vectors.features.unique().tolist() == list(range(len(table.columns)))
    again = from_arrays(encoder.to_arrays())
    assert again == encoder
    assert torch.equal(again(table).values, vectors.values)
    backwards = Table(dict(reversed(table.columns.items())))  # the order of columns does not matter
    assert torch.equal(encoder(backwards).values, vectors.values)


@given(
    st.lists(
        st.lists(st.sampled_from(["ab", "cd", "ef", "gh", "ß!"]), max_size=6).map(" ".join), min_size=1, max_size=9
    )
)
def test_text_vectors_have_one_norm_and_survive_saving(texts: list[str]) -> None:
    if not any(word in text for text in texts for word in ("ab", "cd", "ef", "gh")):
        with pytest.raises(ValueError, match="no words of two letters"):
            TextEncoder.fit(Texts(tuple(texts)))
        return
    encoder = TextEncoder.fit(Texts(tuple(texts)))
    values = encoder(Texts(tuple(texts))).values
    assert values.isfinite().all()
    has_known_word = torch.tensor([any(word in encoder.words for word in text.split()) for text in texts])
    torch.testing.assert_close(values.norm(dim=1), has_known_word * values.shape[1] ** 0.5, rtol=1e-5, atol=0)
    again = from_arrays(encoder.to_arrays())
    assert torch.equal(again(Texts(tuple(texts))).values, values)


def test_numbers_are_standardized_with_median_for_empty_cells() -> None:
    raw = np.array([1.0, 2.0, np.nan, 9.0, 100.0])
    vectors = TableEncoder.fit(Table({"x": raw}))(Table({"x": raw}))
    filled = np.array([1, 2, 5.5, 9, 100])
    expected = (filled - filled.mean()) / filled.std()
    np.testing.assert_allclose(vectors.values[:, 0], expected, rtol=1e-6)
    assert vectors.values[:, 1].tolist() == [0, 0, 1, 0, 0]
    assert vectors.features.tolist() == [0, 0]


def test_unseen_values_are_encoded() -> None:
    table = Table({"x": np.array([1.0, 3.0]), "c": np.array(["u", "v"], dtype=object)})
    encoder = TableEncoder.fit(table)
    new = encoder(Table({"x": np.array([np.nan, 1e300]), "c": np.array(["w", ""], dtype=object)}))
    assert new.values[:, 1:].tolist() == [[0, 0], [0, 0]]
    assert new.values[0, 0] == 0  # the median, without an indicator column
    assert new.values.isfinite().all()


def test_rare_categories_share_one_column() -> None:
    column = np.array(["c"] * 3 + ["a"] * 2 + ["b"] * 2 + ["", "d"], dtype=object)
    encoder = TableEncoder.fit(Table({"k": column}), max_categories=2)
    vectors = encoder(Table({"k": np.array(["a", "b", "c", "d", "", "never"], dtype=object)}))
    assert vectors.values.tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0], [0, 0, 1], [0, 0, 1], [0, 0, 1]]
    assert vectors.features.tolist() == [0, 0, 0]


def test_extreme_and_constant_columns_stay_finite() -> None:
    table = Table({"huge": np.array([1e300, -1e300, 0.0]), "same": np.full(3, 1e8), "empty": np.full(3, np.nan)})
    values = TableEncoder.fit(table)(table).values
    assert values.isfinite().all()
    np.testing.assert_allclose(values[:, 0], [1.5**0.5, -(1.5**0.5), 0], rtol=1e-6)
    assert values[:, 1].tolist() == [0, 0, 0]
    assert values[:, 2:].tolist() == [[0, 1]] * 3


def test_encoders_survive_npz_file(tmp_path: Path) -> None:
    texts = Texts(("ein roter Apfel", "eine grüne Birne", "ein Apfel"))
    table = Table({"x": np.array([0.1, np.nan]), "c": np.array(["ü", ""], dtype=object)})
    for encoder, inputs in ((TextEncoder.fit(texts), texts), (TableEncoder.fit(table), table)):
        save_file(encoder.to_arrays(), tmp_path / "a.safetensors")
        np.savez(tmp_path / "a.npz", **encoder.to_arrays())
        with np.load(tmp_path / "a.npz", allow_pickle=False) as file:
            for arrays in (load_file(tmp_path / "a.safetensors"), dict(file)):
                assert torch.equal(from_arrays(arrays)(inputs).values, encoder(inputs).values)


def test_text_dimensions_are_limited_by_data() -> None:
    texts = Texts(("red apple", "green apple", "red apple"))
    assert TextEncoder.fit(texts)(texts).values.shape == (3, 2)  # rank 2
    assert TextEncoder.fit(texts, dims=1)(texts).values.shape == (3, 1)
    assert TextEncoder.fit(texts)(Texts(("unknown words",))).values.tolist() == [[0, 0]]
    often = Texts(("red apple",) * 3 + ("green pear",))
    assert TextEncoder.fit(often, dims=1)(often).values.abs().ravel().tolist() == [
        1,
        1,
        1,
        0,
    ]  # zero, not normalized noise
    assert torch.equal(TextEncoder.fit(texts, seed=3)(texts).values, TextEncoder.fit(texts, seed=3)(texts).values)


def test_similar_texts_have_similar_vectors() -> None:
    texts = (
        "who wrote the book",
        "who wrote the play",
        "how far is the moon",
        "how far is the sun",
        "who is the author",
    )
    values = TextEncoder.fit(Texts(texts), dims=3)(Texts(texts)).values
    near = (values @ values.T).fill_diagonal_(-9).argmax(1)
    assert near[:4].tolist() == [1, 0, 3, 2]


def data(inputs) -> LabeledData:
    """Return inputs with arbitrary labels and ids."""
    labels = torch.arange(len(inputs)) % 2
    return LabeledData(inputs, labels, ("a", "b"), tuple(map(str, range(len(inputs)))))


def test_encode_fits_or_applies_encoder() -> None:
    train = data(Table({"x": np.array([0.0, 2.0])}))
    encoded, encoder = encode(train)
    assert encoded.inputs.values.tolist() == [[-1], [1]]
    assert (encoded.ids, encoded.classes) == (train.ids, train.classes)
    test, same = encode(data(Table({"x": np.array([4.0, 1.0])})), encoder=encoder)
    assert same is encoder
    assert test.inputs.values.tolist() == [[3], [0]]  # by the scale of the training rows
    texts, encoder = encode(data(Texts(("some words", "other words"))))
    assert isinstance(texts.inputs, Vectors)
    assert isinstance(encoder, TextEncoder)


def test_encode_returns_numeric_inputs_unchanged() -> None:
    for inputs in (Vectors(torch.zeros(2, 3)), Images(torch.zeros(2, 1, 4, 4, dtype=torch.uint8))):
        before = data(inputs)
        assert encode(before) == (before, None)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda t, _: t(Table({"y": np.zeros(2)})), ValueError, r"lacks 1 column \(x\) that the encoder was fitted on"),
        (lambda t, _: t(Table({"x": np.array(["a"])})), ValueError, r"'x' holds text, but it held numbers"),
        (lambda t, _: t(Table({"x": np.array([0, np.inf])})), ValueError, r"'x' holds infinity in 1 row \(1\)"),
        (lambda *_: TableEncoder.fit(Table({"x": np.array([np.inf])})), ValueError, r"'x' holds infinity in 1 row"),
        (lambda _, w: w(Table({"x": np.zeros(2)})), TypeError, r"fitted on texts and cannot encode Table of 1 column"),
        (
            lambda t, _: encode(data(Texts(("a", "b"))), encoder=t),
            TypeError,
            r"fitted on a table and cannot encode Texts",
        ),
        (lambda t, _: encode(data(Vectors(torch.zeros(2, 1))), encoder=t), TypeError, r"cannot encode Vectors of 1"),
        (lambda *_: from_arrays({"x": np.zeros(2)}), ValueError, r"the arrays are not an encoder"),
        (lambda *_: TextEncoder.fit(Texts(("a", "!"))), ValueError, r"no words of two letters or more"),
    ],
)
def test_encoder_rejects_other_inputs(call, error: type[Exception], message: str) -> None:
    table, texts = TableEncoder.fit(Table({"x": np.arange(3.0)})), TextEncoder.fit(Texts(("some words",)))
    with pytest.raises(error, match=message) as caught:
        call(table, texts)
    assert "\n" not in str(caught.value)


def test_categorical_column_rejects_numbers() -> None:
    encoder = TableEncoder.fit(Table({"c": np.array(["a", "b"])}))
    with pytest.raises(ValueError, match="'c' holds numbers, but it held text"):
        encoder(Table({"c": np.zeros(2)}))


def test_encoder_repr() -> None:
    assert repr(TableEncoder.fit(Table({"x": np.arange(3.0)}))) == "TableEncoder of 1 column"
    assert repr(TableEncoder.fit(Table({"x": np.arange(3.0), "c": np.array(["a", "b", "a"])}))) == (
        "TableEncoder of 2 columns"
    )
    assert repr(TextEncoder.fit(Texts(("some words", "other words")))) == "TextEncoder of 5 words in 2 dimensions"
