"""From X, as scikit-learn takes it, to vectors: what was measured on the rows of ``fit`` is used for all others.

Numbers are standardised, a wide sparse matrix is turned into its main directions, and a frame that holds text or
categories goes through the encoder of tables.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from permll.data.encoding import CategoricalColumn, TableEncoder
from permll.data.inputs import Table, Vectors

WIDE = 1_000  # columns of a sparse matrix; up to so many it is made dense
DIRECTIONS = 256  # as many as the encoder of texts takes
_ENOUGH = 20_000  # rows tell the directions
_ROWS = 16_384  # that are dense, or float64, at a time
_LARGEST = 1e30  # an outlier far beyond the rows of fit stays a number in float32


class Features(Protocol):
    """What makes vectors of X."""

    def __call__(self, X: Any) -> Vectors:
        """Return the vectors of N rows."""
        ...


def fit_features(X: Any, seed: int) -> Features:
    """Return what suits X: an array or a sparse matrix of numbers, or a frame that holds anything else."""
    if is_mixed_frame(X):
        return MixedFrame.fit(X)
    wide = not isinstance(X, np.ndarray) and X.shape[1] > WIDE
    return Directions.fit(X, seed) if wide else Numbers.fit(X)


def is_mixed_frame(X: Any) -> bool:
    """Return whether X is a frame with a column that holds no numbers.

    Examples:
        >>> import pandas as pd
        >>> is_mixed_frame(pd.DataFrame({"a": [1, 2]})), is_mixed_frame(pd.DataFrame({"a": ["x", "y"]}))
        (False, True)
    """
    if not hasattr(X, "columns") or not hasattr(X, "dtypes"):
        return False
    return any(not _is_number(kind) for kind in X.dtypes)


def _is_number(kind: Any) -> bool:
    """Return whether a type of pandas or polars, which need not be there, is one of numbers or truth values."""
    if hasattr(kind, "is_numeric"):
        return bool(kind.is_numeric()) or str(kind) == "Boolean"
    return kind.kind in "biuf"


@dataclass(frozen=True, eq=False)
class Numbers:
    """(x - mean) / spread of each column. An empty cell (NaN) stands at the mean; columns that had some are marked.

    Args:
        mean: (F,).
        spread: (F,) the standard deviation; 1 where a column is constant.
        marked: (m,) columns with empty cells in ``fit``: each has another one, 1 where it is empty.
    """

    mean: NDArray[np.float64]
    spread: NDArray[np.float64]
    marked: NDArray[np.int64]

    @classmethod
    def fit(cls, X: Any) -> "Numbers":
        """Measure the columns."""
        empty = sum(np.isnan(part).sum(0) for part in _parts(X))
        there = np.maximum(X.shape[0] - empty, 1)
        mean = sum(np.nansum(part, 0, dtype=np.float64) for part in _parts(X)) / there
        variance = sum(np.nansum((part - mean) ** 2, 0) for part in _parts(X)) / there
        spread = np.sqrt(variance)
        spread[spread <= 1e-13 * np.abs(mean)] = 1.0  # all the same, but for rounding
        return cls(mean, spread, np.flatnonzero(empty))

    def __call__(self, X: Any) -> Vectors:
        """Return (N, F + m).

        Examples:
            >>> X = np.array([[1.0, 5.0], [np.nan, 6.0], [3.0, 7.0]])
            >>> Numbers.fit(X)(X).values
            tensor([[-1.0000, -1.2247,  0.0000],
                    [ 0.0000,  0.0000,  1.0000],
                    [ 1.0000,  1.2247,  0.0000]])
        """
        columns = X.shape[1]
        values = np.empty((X.shape[0], columns + len(self.marked)), np.float32)
        done = 0
        for part in _parts(X):
            own = values[done : done + len(part)]
            z = ((part - self.mean) / self.spread).clip(-_LARGEST, _LARGEST)
            own[:, :columns] = np.where(np.isnan(part), 0.0, z)
            own[:, columns:] = np.isnan(part[:, self.marked])
            done += len(part)
        features = np.concatenate([np.arange(columns), self.marked])
        return Vectors(torch.from_numpy(values), torch.from_numpy(features))


@dataclass(frozen=True, eq=False)
class Directions:
    """The directions in which the rows of a wide sparse matrix differ most, as ``TruncatedSVD`` finds them.

    Args:
        directions: (d, F).
        scale: one number for all, so that coordinates have a variance near one; the first stay larger than the last.
    """

    directions: NDArray[np.float32]
    scale: float

    @classmethod
    def fit(cls, X: Any, seed: int) -> "Directions":
        """Find them, from an even choice of rows where there are many."""
        from sklearn.utils import assert_all_finite
        from sklearn.utils.extmath import randomized_svd
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        assert_all_finite(X, input_name="X")
        some = X[:: -(-X.shape[0] // _ENOUGH)].astype(np.float32)
        with threadpool_limits(1):  # the same on every machine
            _, sizes, found = randomized_svd(some, min(DIRECTIONS, *some.shape), n_iter=5, random_state=seed)
        real = sizes > 1e-6 * sizes[0]
        real[0] = True
        directions = np.ascontiguousarray(found[real], dtype=np.float32)
        scale = float(np.sqrt((sizes[real] ** 2).mean() / some.shape[0])) or 1.0
        return cls(directions, scale)

    def __call__(self, X: Any) -> Vectors:
        """Return (N, d)."""
        from sklearn.utils import assert_all_finite

        assert_all_finite(X, input_name="X")
        values = np.asarray(X @ self.directions.T, np.float32) / np.float32(self.scale)
        return Vectors(torch.from_numpy(values), scaled=True)


@dataclass(frozen=True, eq=False)
class MixedFrame:
    """The columns of a frame through the package's encoder of tables; it needs polars."""

    encoder: TableEncoder

    @classmethod
    def fit(cls, X: Any) -> "MixedFrame":
        """Measure the columns."""
        return cls(TableEncoder.fit(_table(X, {})))

    def __call__(self, X: Any) -> Vectors:
        """Return the vectors of a frame with the same columns."""
        if not hasattr(X, "columns"):
            raise ValueError("fit was given a frame with columns of text: give such a frame, not an array.")
        return self.encoder(_table(X, {column.name: column for column in self.encoder.columns}))


def _table(X: Any, like: Mapping[str, Any]) -> Table:
    """Return a frame as a table; a column of categories is one even if these few rows hold none, or numbers."""
    import polars as pl

    from permll.data.readers.feature_columns import to_array
    from permll.data.readers.pandas_frames import from_pandas

    frame: pl.DataFrame = X if isinstance(X, pl.DataFrame) else from_pandas(X)[0]
    columns = {}
    for column in frame.iter_columns():
        if isinstance(like.get(column.name), CategoricalColumn):
            column = column.cast(pl.String)
        columns[column.name] = to_array(column)
    return Table(columns)


def _parts(X: Any) -> Iterator[NDArray[Any]]:
    """Yield the rows in parts, each dense."""
    for start in range(0, X.shape[0], _ROWS):
        part = X[start : start + _ROWS]
        yield part if isinstance(part, np.ndarray) else part.toarray()
