"""Encoders of tables and texts as vectors: fitted on training rows, applied to any, saved as plain arrays."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from permll.data.dataset import LabeledData
from permll.data.inputs import Inputs, Table, Texts, Vectors
from permll.utils.messages import format_list

Arrays = dict[str, NDArray[Any]]
_MAX_Z = 1e30  # keeps extreme outliers finite in float32
MAX_WORDS = 50_000
_SAVED_KEYS = {"add_indicator": "mark", "categories": "known", "has_other": "other"}  # attribute -> key in encoder.npz


class Encoder(Protocol):
    """Encodes inputs of one kind as vectors; ``takes`` is the kind: "images", "texts" or "table"."""

    @property
    def takes(self) -> str:
        """Return the kind of inputs."""
        ...

    def __call__(self, inputs: Any) -> Vectors:
        """Return the vectors."""
        ...

    def to_arrays(self) -> Arrays:
        """Return the state of the encoder as arrays without Python objects."""
        ...


def encode(data: LabeledData, encoder: Encoder | None = None) -> tuple[LabeledData, Encoder | None]:
    """Return ``data`` with vectors as inputs, and the encoder: the given one, or one fitted on ``data``.

    Images, vectors and items are returned unchanged, without an encoder.

    Examples:
        >>> ids, labels = ("a", "b", "c"), torch.tensor([0, 1, 0])
        >>> train = LabeledData(Table({"age": np.array([20.0, np.nan, 40.0])}), labels, ("no", "yes"), ids)
        >>> encoded, encoder = encode(train)
        >>> encoded.inputs.values.tolist()  # standardized; the empty cell is the median, with an indicator
        [[-1.22..., 0.0], [0.0, 1.0], [1.22..., 0.0]]
        >>> test, _ = encode(train.take([1]), encoder)
    """
    if encoder is None and isinstance(data.inputs, Table):
        encoder = TableEncoder.fit(data.inputs)
    elif encoder is None and isinstance(data.inputs, Texts):
        encoder = TextEncoder.fit(data.inputs)
    return (data, None) if encoder is None else (data.with_inputs(encoder(data.inputs)), encoder)


def from_arrays(arrays: Mapping[str, NDArray[Any]]) -> "TableEncoder | TextEncoder":
    """Return the encoder whose ``to_arrays`` was called."""
    kind = json.loads(arrays["about"].tobytes())["kind"] if "about" in arrays else None
    for encoder in (TableEncoder, TextEncoder):
        if encoder.takes == kind:
            return encoder.from_arrays(arrays)
    raise ValueError("the arrays are not an encoder: they were not made by to_arrays.")


# Not sklearn's StandardScaler, SimpleImputer and OneHotEncoder: a saved encoder must not be a pickle.
@dataclass(frozen=True)
class NumericColumn:
    """Encoding of a column of numbers: (x - mean) / scale, empty cells as the median, with an optional indicator."""

    name: str
    median: float
    mean: float
    scale: float
    add_indicator: bool

    @classmethod
    def fit(cls, name: str, column: NDArray[Any]) -> "NumericColumn":
        """Compute the statistics of a column."""
        _check_finite(name, column)
        is_empty = np.isnan(column)
        median = float(np.median(column[~is_empty])) if not is_empty.all() else 0.0
        filled = np.where(is_empty, median, column)
        largest = float(np.abs(filled).max()) or 1.0  # squares of huge numbers would overflow
        mean, std = float((filled / largest).mean() * largest), float((filled / largest).std() * largest)
        return cls(name, median, mean, std if std > 1e-12 * largest else 1.0, bool(is_empty.any()))

    def __call__(self, column: NDArray[Any]) -> NDArray[np.float32]:
        """Return (N, 1), or (N, 2) with the indicator of empty cells."""
        if column.dtype.kind not in "fiub":
            raise ValueError(f"column {self.name!r} holds text, but it held numbers when the encoder was fitted.")
        _check_finite(self.name, column)
        is_empty = np.isnan(column)
        with np.errstate(over="ignore"):
            z = np.clip((np.where(is_empty, self.median, column) - self.mean) / self.scale, -_MAX_Z, _MAX_Z)
        return np.stack([z, is_empty] if self.add_indicator else [z], 1).astype(np.float32)


@dataclass(frozen=True)
class CategoricalColumn:
    """One-hot encoding of a column of categories, with an optional column for all others."""

    name: str
    categories: tuple[str, ...]
    has_other: bool

    @classmethod
    def fit(cls, name: str, column: NDArray[Any], max_categories: int) -> "CategoricalColumn":
        """Keep the most frequent categories, ties by name."""
        counts = Counter(column.tolist())
        frequent = sorted(counts, key=lambda word: (-counts[word], word))
        return cls(name, tuple(sorted(frequent[:max_categories])), len(frequent) > max_categories)

    def __call__(self, column: NDArray[Any]) -> NDArray[np.float32]:
        """Return (N, categories + other) of 0 and 1."""
        if column.dtype.kind in "fiub":
            raise ValueError(f"column {self.name!r} holds numbers, but it held text when the encoder was fitted.")
        position = {word: i for i, word in enumerate(self.categories)}
        positions = np.array([position.get(word, len(position)) for word in column.tolist()], dtype=np.int64)
        return np.eye(len(position) + 1, dtype=np.float32)[positions][:, : len(position) + self.has_other]


@dataclass(frozen=True, repr=False)
class TableEncoder:
    """From ``Table`` to ``Vectors``, column by column; an empty category is a category."""

    takes: ClassVar[str] = "table"
    columns: tuple[NumericColumn | CategoricalColumn, ...]

    def __repr__(self) -> str:
        return f"TableEncoder of {len(self.columns)} column{'s' if len(self.columns) != 1 else ''}"

    @classmethod
    def fit(cls, table: Table, max_categories: int = 50) -> "TableEncoder":
        """Fit the encoding of each column to training rows.

        Examples:
            >>> table = Table({"size": np.array([1.0, 3.0]), "color": np.array(["red", "blue"])})
            >>> encoder = TableEncoder.fit(table)
            >>> vectors = encoder(Table({"size": np.array([2.0]), "color": np.array(["green"])}))
            >>> vectors.values.tolist(), vectors.features.tolist()  # green was not in the training rows
            ([[0.0, 0.0, 0.0]], [0, 1, 1])
        """
        columns: list[NumericColumn | CategoricalColumn] = []
        for name, column in table.columns.items():
            if column.dtype.kind in "fiub":
                columns.append(NumericColumn.fit(name, column.astype(np.float64)))
            else:
                columns.append(CategoricalColumn.fit(name, column, max_categories))
        return cls(tuple(columns))

    def __call__(self, inputs: Inputs) -> Vectors:
        """Return the vectors of a table with the same columns, in any order; other columns are ignored."""
        if not isinstance(inputs, Table):
            raise TypeError(f"the encoder was fitted on a table and cannot encode {inputs!r}.")
        missing = [column.name for column in self.columns if column.name not in inputs.columns]
        if missing:
            raise ValueError(f"the table lacks {format_list(missing, 'column')} that the encoder was fitted on.")
        blocks = [column(inputs.columns[column.name]) for column in self.columns]
        features = np.repeat(np.arange(len(blocks)), [block.shape[1] for block in blocks])
        return Vectors(torch.from_numpy(np.concatenate(blocks, 1)), torch.from_numpy(features))

    def to_arrays(self) -> Arrays:
        """Return the encoder as arrays."""
        columns = [
            {"numbers": isinstance(column, NumericColumn)}
            | {_SAVED_KEYS.get(name, name): value for name, value in vars(column).items()}
            for column in self.columns
        ]
        return {"about": json_to_array({"kind": self.takes, "columns": columns})}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "TableEncoder":
        """Return the saved encoder."""
        columns: list[NumericColumn | CategoricalColumn] = []
        names = {key: name for name, key in _SAVED_KEYS.items()}
        for saved in json.loads(arrays["about"].tobytes())["columns"]:
            is_numeric = saved.pop("numbers")
            values: dict[str, Any] = {names.get(key, key): value for key, value in saved.items()}
            if not is_numeric:
                values["categories"] = tuple(values["categories"])
            columns.append(NumericColumn(**values) if is_numeric else CategoricalColumn(**values))
        return cls(tuple(columns))


@dataclass(frozen=True, eq=False, repr=False)
class TextEncoder:
    """From ``Texts`` to ``Vectors``: tf-idf of words and bigrams, projected on the largest singular vectors (LSA).

    Args:
        words: V words and bigrams, sorted.
        idf: (V,) inverse document frequencies.
        components: (dims, V) right singular vectors of the training texts.
    """

    takes: ClassVar[str] = "texts"
    words: tuple[str, ...]
    idf: NDArray[np.float32]
    components: NDArray[np.float32]

    def __repr__(self) -> str:
        return f"TextEncoder of {len(self.words):,} words in {len(self.components)} dimensions"

    @classmethod
    def fit(cls, texts: Texts, dims: int = 256, seed: int = 0) -> "TextEncoder":
        """Fit vocabulary, idf and components to training texts; few texts or words give fewer dimensions."""
        from sklearn.utils.extmath import randomized_svd
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        vectorizer = tfidf_vectorizer(max_features=MAX_WORDS)
        try:
            tfidf = vectorizer.fit_transform(texts.texts)
        except ValueError:
            raise ValueError("the texts contain no words of two letters or more: nothing to encode.") from None
        with threadpool_limits(1):  # the same result on every machine
            _, singular, components = randomized_svd(tfidf, min(dims, *tfidf.shape), n_iter=5, random_state=seed)
        components = np.ascontiguousarray(components[singular > 1e-6 * singular[0]], dtype=np.float32)
        words = tuple(vectorizer.get_feature_names_out().tolist())
        return cls(words, vectorizer.idf_.astype(np.float32), components)

    @cached_property
    def _vectorizer(self) -> Any:
        vectorizer = tfidf_vectorizer(vocabulary={word: i for i, word in enumerate(self.words)})
        vectorizer.idf_ = self.idf
        return vectorizer

    def __call__(self, inputs: Inputs) -> Vectors:
        """Return vectors of norm sqrt(dims), so that coordinates have a variance near 1; 0 without a known word."""
        if not isinstance(inputs, Texts):
            raise TypeError(f"the encoder was fitted on texts and cannot encode {inputs!r}.")
        values = np.asarray(self._vectorizer.transform(inputs.texts) @ self.components.T, dtype=np.float32)
        norms = np.linalg.norm(values, axis=1, keepdims=True)
        norms[norms < 1e-4] = np.inf  # no known word, only rounding errors
        return Vectors(torch.from_numpy(values * (np.float32(values.shape[1]) ** 0.5 / norms)), scaled=True)

    def to_arrays(self) -> Arrays:
        """Return the encoder as arrays."""
        about = json_to_array({"kind": self.takes, "words": self.words})
        return {"about": about, "weights": self.idf, "directions": self.components}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "TextEncoder":
        """Return the saved encoder."""
        words = json.loads(arrays["about"].tobytes())["words"]
        return cls(tuple(words), np.asarray(arrays["weights"]), np.asarray(arrays["directions"]))


def _check_finite(name: str, column: NDArray[Any]) -> None:
    if rows := np.flatnonzero(np.isinf(column)).tolist():
        raise ValueError(f"column {name!r} holds infinity in {format_list(rows, 'row')}: correct those cells.")


def tfidf_vectorizer(**settings: Any) -> Any:
    """Return a vectorizer of words and bigrams that is not fitted."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, dtype=np.float32, **settings)


def json_to_array(value: dict[str, Any]) -> NDArray[np.uint8]:
    """Return JSON as a byte array; floats keep every digit."""
    return np.frombuffer(json.dumps(value).encode(), np.uint8).copy()
