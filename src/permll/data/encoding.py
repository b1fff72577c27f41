"""From tables and texts to vectors: fitted on training rows, applied to any, saved as plain arrays."""

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
_LARGEST = 1e30  # an outlier far beyond the training rows stays a number in float32
_MOST_WORDS = 50_000


class Encoder(Protocol):
    """What turns inputs of one kind into vectors; ``takes`` is the kind: "images", "texts" or "table"."""

    @property
    def takes(self) -> str:
        """Return the kind of inputs."""
        ...

    def __call__(self, inputs: Any) -> Vectors:
        """Return the vectors."""
        ...

    def to_arrays(self) -> Arrays:
        """Return everything it knows as arrays without objects."""
        ...


def encode(data: LabeledData, like: Encoder | None = None) -> tuple[LabeledData, Encoder | None]:
    """Return ``data`` with vectors for inputs, and the encoder: fitted on it, or ``like``, fitted on training rows.

    Images, vectors and items are numbers already: they come back as they are, with no encoder.

    Examples:
        >>> ids, labels = ("a", "b", "c"), torch.tensor([0, 1, 0])
        >>> train = LabeledData(Table({"age": np.array([20.0, np.nan, 40.0])}), labels, ("no", "yes"), ids)
        >>> encoded, encoder = encode(train)
        >>> encoded.inputs.values.tolist()  # standardised, the empty cell at the median, and marked
        [[-1.22..., 0.0], [0.0, 1.0], [1.22..., 0.0]]
        >>> test, _ = encode(train.take([1]), like=encoder)
    """
    encoder = like
    if like is None and isinstance(data.inputs, Table | Texts):
        encoder = TableEncoder.fit(data.inputs) if isinstance(data.inputs, Table) else TextEncoder.fit(data.inputs)
    return (data, None) if encoder is None else (data.with_inputs(encoder(data.inputs)), encoder)


def from_arrays(arrays: Mapping[str, NDArray[Any]]) -> "TableEncoder | TextEncoder":
    """Return the encoder that ``to_arrays`` was called on."""
    kind = json.loads(arrays["about"].tobytes())["kind"] if "about" in arrays else None
    if kind not in (TableEncoder.kind, TextEncoder.kind):
        raise ValueError("these arrays are no encoder: they were not made by to_arrays.")
    return (TableEncoder if kind == TableEncoder.kind else TextEncoder).from_arrays(arrays)


@dataclass(frozen=True)
class NumberColumn:
    """How a column of numbers is encoded: (x - mean) / scale, empty cells at the median and, with ``mark``, marked."""

    name: str
    median: float
    mean: float
    scale: float
    mark: bool

    @classmethod
    def fit(cls, name: str, column: NDArray[Any]) -> "NumberColumn":
        """Measure a column."""
        _refuse_infinity(name, column)
        empty = np.isnan(column)
        median = float(np.median(column[~empty])) if not empty.all() else 0.0
        filled = np.where(empty, median, column)
        largest = float(np.abs(filled).max()) or 1.0  # squares of huge numbers would overflow
        mean, spread = float((filled / largest).mean() * largest), float((filled / largest).std() * largest)
        return cls(name, median, mean, spread if spread > 1e-12 * largest else 1.0, bool(empty.any()))

    def __call__(self, column: NDArray[Any]) -> NDArray[np.float32]:
        """Return (N, 1) or, with the mark, (N, 2)."""
        if column.dtype.kind not in "fiub":
            raise ValueError(f"column {self.name!r} holds text, but it held numbers when the encoder was fitted.")
        _refuse_infinity(self.name, column)
        empty = np.isnan(column)
        with np.errstate(over="ignore"):
            z = np.clip((np.where(empty, self.median, column) - self.mean) / self.scale, -_LARGEST, _LARGEST)
        return np.stack([z, empty] if self.mark else [z], 1).astype(np.float32)


@dataclass(frozen=True)
class CategoryColumn:
    """How a column of categories is encoded: one column for each of ``known``, and perhaps one for all others."""

    name: str
    known: tuple[str, ...]
    other: bool

    @classmethod
    def fit(cls, name: str, column: NDArray[Any], max_categories: int) -> "CategoryColumn":
        """Keep the most frequent, by name where they are equally so."""
        counts = Counter(column.tolist())
        frequent = sorted(counts, key=lambda word: (-counts[word], word))
        return cls(name, tuple(sorted(frequent[:max_categories])), len(frequent) > max_categories)

    def __call__(self, column: NDArray[Any]) -> NDArray[np.float32]:
        """Return (N, known + other) of 0 and 1."""
        if column.dtype.kind in "fiub":
            raise ValueError(f"column {self.name!r} holds numbers, but it held text when the encoder was fitted.")
        place = {word: i for i, word in enumerate(self.known)}
        places = np.array([place.get(word, len(place)) for word in column.tolist()], dtype=np.int64)
        return np.eye(len(place) + 1, dtype=np.float32)[places][:, : len(place) + self.other]


@dataclass(frozen=True, repr=False)
class TableEncoder:
    """From ``Table`` to ``Vectors``, column by column; an empty category is a category of its own."""

    kind: ClassVar[str] = "table"
    takes: ClassVar[str] = "table"
    columns: tuple[NumberColumn | CategoryColumn, ...]

    def __repr__(self) -> str:
        return f"TableEncoder of {len(self.columns)} column{'s' if len(self.columns) != 1 else ''}"

    @classmethod
    def fit(cls, table: Table, max_categories: int = 50) -> "TableEncoder":
        """Measure the columns of training rows.

        Examples:
            >>> table = Table({"size": np.array([1.0, 3.0]), "color": np.array(["red", "blue"])})
            >>> encoder = TableEncoder.fit(table)
            >>> vectors = encoder(Table({"size": np.array([2.0]), "color": np.array(["green"])}))
            >>> vectors.values.tolist(), vectors.features.tolist()  # a color never seen is none of those known
            ([[0.0, 0.0, 0.0]], [0, 1, 1])
        """
        columns: list[NumberColumn | CategoryColumn] = []
        for name, column in table.columns.items():
            if column.dtype.kind in "fiub":
                columns.append(NumberColumn.fit(name, column.astype(np.float64)))
            else:
                columns.append(CategoryColumn.fit(name, column, max_categories))
        return cls(tuple(columns))

    def __call__(self, inputs: Inputs) -> Vectors:
        """Return the vectors of a table with the same columns, in any order; others are ignored."""
        if not isinstance(inputs, Table):
            raise TypeError(f"this encoder was fitted on a table, it cannot encode {inputs!r}.")
        missing = [column.name for column in self.columns if column.name not in inputs.columns]
        if missing:
            raise ValueError(f"the table lacks {format_list(missing, 'column')} that the encoder was fitted on.")
        blocks = [column(inputs.columns[column.name]) for column in self.columns]
        features = np.repeat(np.arange(len(blocks)), [block.shape[1] for block in blocks])
        return Vectors(torch.from_numpy(np.concatenate(blocks, 1)), torch.from_numpy(features))

    def to_arrays(self) -> Arrays:
        """Return the encoder as arrays."""
        columns = [{"numbers": isinstance(column, NumberColumn), **vars(column)} for column in self.columns]
        return {"about": pack({"kind": self.kind, "columns": columns})}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "TableEncoder":
        """Return the encoder that was saved."""
        saved = json.loads(arrays["about"].tobytes())["columns"]
        columns = [
            NumberColumn(**own) if own.pop("numbers") else CategoryColumn(**own | {"known": tuple(own["known"])})
            for own in saved
        ]
        return cls(tuple(columns))


@dataclass(frozen=True, eq=False, repr=False)
class TextEncoder:
    """From ``Texts`` to ``Vectors``: words and pairs of words, weighted (tf-idf), in the directions that differ most.

    Args:
        words: V words and pairs, in order.
        weights: (V,) inverse document frequencies.
        directions: (dims, V) of the singular value decomposition of the training texts.
    """

    kind: ClassVar[str] = "texts"
    takes: ClassVar[str] = "texts"
    words: tuple[str, ...]
    weights: NDArray[np.float32]
    directions: NDArray[np.float32]

    def __repr__(self) -> str:
        return f"TextEncoder of {len(self.words):,} words in {len(self.directions)} directions"

    @classmethod
    def fit(cls, texts: Texts, dims: int = 256, seed: int = 0) -> "TextEncoder":
        """Learn words, weights and directions from training texts; fewer texts or words give fewer dimensions."""
        from sklearn.utils.extmath import randomized_svd
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        vectorizer = _vectorizer(max_features=_MOST_WORDS)
        try:
            counts = vectorizer.fit_transform(texts.texts)
        except ValueError:
            raise ValueError("the texts hold no words of two letters or more: there is nothing to encode.") from None
        with threadpool_limits(1):  # the same on every machine, and no slower where others work too
            _, sizes, directions = randomized_svd(counts, min(dims, *counts.shape), n_iter=5, random_state=seed)
        real = np.ascontiguousarray(directions[sizes > 1e-6 * sizes[0]], dtype=np.float32)
        words = tuple(vectorizer.get_feature_names_out().tolist())
        return cls(words, vectorizer.idf_.astype(np.float32), real)

    @cached_property
    def _weigh(self) -> Any:
        vectorizer = _vectorizer(vocabulary={word: i for i, word in enumerate(self.words)})
        vectorizer.idf_ = self.weights
        return vectorizer

    def __call__(self, inputs: Inputs) -> Vectors:
        """Return rows of length sqrt(dims), so that coordinates have a variance near one, or of zeros."""
        if not isinstance(inputs, Texts):
            raise TypeError(f"this encoder was fitted on texts, it cannot encode {inputs!r}.")
        values = np.asarray(self._weigh.transform(inputs.texts) @ self.directions.T, dtype=np.float32)
        lengths = np.linalg.norm(values, axis=1, keepdims=True)
        lengths[lengths < 1e-4] = np.inf  # no known word; what is left is rounding
        return Vectors(torch.from_numpy(values * (np.float32(values.shape[1]) ** 0.5 / lengths)), scaled=True)

    def to_arrays(self) -> Arrays:
        """Return the encoder as arrays."""
        about = pack({"kind": self.kind, "words": self.words})
        return {"about": about, "weights": self.weights, "directions": self.directions}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "TextEncoder":
        """Return the encoder that was saved."""
        words = json.loads(arrays["about"].tobytes())["words"]
        return cls(tuple(words), np.asarray(arrays["weights"]), np.asarray(arrays["directions"]))


def _refuse_infinity(name: str, column: NDArray[Any]) -> None:
    if rows := np.flatnonzero(np.isinf(column)).tolist():
        raise ValueError(f"column {name!r} holds infinity in {format_list(rows, 'row')}: mend those.")


def _vectorizer(**settings: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, dtype=np.float32, **settings)


def pack(about: dict[str, Any]) -> NDArray[np.uint8]:
    """Return JSON as bytes in an array; floats keep every digit."""
    return np.frombuffer(json.dumps(about).encode(), np.uint8).copy()
