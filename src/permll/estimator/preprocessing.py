"""Preprocessing of X for the scikit-learn estimator: any input that ``fit`` accepts becomes float32 vectors."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite, gen_batches
from sklearn.utils.extmath import randomized_svd
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from permll.data.encoding import CategoricalColumn, TableEncoder
from permll.data.inputs import Table, Vectors

MAX_DENSE_COLUMNS = 1_000  # a sparse matrix with more columns is reduced with an SVD
SVD_COMPONENTS = 256
_MAX_SVD_ROWS = 20_000
_CHUNK_ROWS = 16_384  # converted to dense float64 at a time
_MAX_VALUE = 1e30  # keeps outliers finite in float32


def is_mixed_frame(X: Any) -> bool:
    """Return whether X is a data frame with a column that is not numeric.

    Examples:
        >>> import pandas as pd
        >>> is_mixed_frame(pd.DataFrame({"a": [1, 2]})), is_mixed_frame(pd.DataFrame({"a": ["x", "y"]}))
        (False, True)
    """
    if not hasattr(X, "columns") or not hasattr(X, "dtypes"):
        return False
    return any(not _is_numeric(dtype) for dtype in X.dtypes)


def _is_numeric(dtype: Any) -> bool:
    """Return whether a pandas or polars type is numeric or boolean; neither library is imported."""
    if hasattr(dtype, "is_numeric"):
        return bool(dtype.is_numeric()) or str(dtype) == "Boolean"
    return dtype.kind in "biuf"


@dataclass(frozen=True, eq=False)
class NumericScaler:
    """Standardizes columns; NaN becomes the mean, and columns with NaN in ``fit`` get an indicator column.

    ``StandardScaler`` cannot center sparse matrices, and computes in the dtype of X.

    Args:
        mean: (F,).
        scale: (F,) standard deviation; 1 for constant columns.
        nan_columns: (m,) columns with NaN in ``fit``.
    """

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    nan_columns: NDArray[np.int64]

    @classmethod
    def fit(cls, X: Any) -> "NumericScaler":
        """Compute means and standard deviations."""
        num_nan = sum(np.isnan(chunk).sum(0) for chunk in _dense_chunks(X))
        count = np.maximum(X.shape[0] - num_nan, 1)
        mean = sum(np.nansum(chunk, 0, dtype=np.float64) for chunk in _dense_chunks(X)) / count
        scale = np.sqrt(sum(np.nansum((chunk - mean) ** 2, 0) for chunk in _dense_chunks(X)) / count)
        scale[scale <= 1e-13 * np.abs(mean)] = 1.0  # constant up to rounding
        return cls(mean, scale, np.flatnonzero(num_nan))

    def __call__(self, X: Any) -> Vectors:
        """Return (N, F + m).

        Examples:
            >>> X = np.array([[1.0, 5.0], [np.nan, 6.0], [3.0, 7.0]])
            >>> NumericScaler.fit(X)(X).values
            tensor([[-1.0000, -1.2247,  0.0000],
                    [ 0.0000,  0.0000,  1.0000],
                    [ 1.0000,  1.2247,  0.0000]])
        """
        values = np.empty((X.shape[0], X.shape[1] + len(self.nan_columns)), np.float32)
        for rows, chunk in zip(gen_batches(len(values), _CHUNK_ROWS), _dense_chunks(X), strict=True):
            z = ((chunk - self.mean) / self.scale).clip(-_MAX_VALUE, _MAX_VALUE)
            values[rows, : X.shape[1]] = np.where(np.isnan(chunk), 0.0, z)
            values[rows, X.shape[1] :] = np.isnan(chunk[:, self.nan_columns])
        features = np.concatenate([np.arange(X.shape[1]), self.nan_columns])
        return Vectors(torch.from_numpy(values), torch.from_numpy(features))


@dataclass(frozen=True, eq=False)
class SparseSVD:
    """Truncated SVD of a wide sparse matrix.

    Args:
        components: (d, F) right singular vectors.
        scale: common divisor that gives the components a mean square of one; their relative scales are preserved.
    """

    components: NDArray[np.float32]
    scale: float

    @classmethod
    def fit(cls, X: Any, seed: int) -> "SparseSVD":
        """Compute the components from at most 20,000 evenly spaced rows."""
        assert_all_finite(X, input_name="X")
        rows = X[:: -(-X.shape[0] // _MAX_SVD_ROWS)].astype(np.float32)
        with threadpool_limits(1):  # the same result on every machine
            # not TruncatedSVD, which does not drop components of rank-deficient matrices
            _, sizes, vectors = randomized_svd(rows, min(SVD_COMPONENTS, *rows.shape), n_iter=5, random_state=seed)
        nonzero = sizes > 1e-6 * sizes[0]
        nonzero[0] = True
        scale = float(np.sqrt((sizes[nonzero] ** 2).mean() / rows.shape[0])) or 1.0
        return cls(np.ascontiguousarray(vectors[nonzero], dtype=np.float32), scale)

    def __call__(self, X: Any) -> Vectors:
        """Return (N, d)."""
        assert_all_finite(X, input_name="X")
        values = np.asarray(X @ self.components.T, np.float32) / np.float32(self.scale)
        return Vectors(torch.from_numpy(values), scaled=True)


@dataclass(frozen=True, eq=False)
class FrameEncoder:
    """Encodes data frames with columns of text or categories; requires polars."""

    encoder: TableEncoder

    @classmethod
    def fit(cls, X: Any) -> "FrameEncoder":
        """Fit the encoder of each column."""
        return cls(TableEncoder.fit(_to_table(X, {})))

    def __call__(self, X: Any) -> Vectors:
        """Return the vectors of a data frame with the same columns."""
        if not hasattr(X, "columns"):
            raise ValueError("fit was called with a data frame with text columns: pass such a frame, not an array.")
        return self.encoder(_to_table(X, {column.name: column for column in self.encoder.columns}))


Preprocessor = NumericScaler | SparseSVD | FrameEncoder


def fit_preprocessor(X: Any, seed: int) -> Preprocessor:
    """Return a preprocessor fitted to X: an array, a sparse matrix, or a data frame with columns of text."""
    if is_mixed_frame(X):
        return FrameEncoder.fit(X)
    is_wide = not isinstance(X, np.ndarray) and X.shape[1] > MAX_DENSE_COLUMNS
    return SparseSVD.fit(X, seed) if is_wide else NumericScaler.fit(X)


def _to_table(X: Any, fitted: Mapping[str, Any]) -> Table:
    """Return a data frame as a table; fitted category columns stay categories even if these rows contain no text."""
    import polars as pl

    from permll.data.readers.feature_columns import to_array
    from permll.data.readers.pandas_frames import from_pandas

    frame: pl.DataFrame = X if isinstance(X, pl.DataFrame) else from_pandas(X)[0]
    columns = {}
    for column in frame.iter_columns():
        is_category = isinstance(fitted.get(column.name), CategoricalColumn)
        columns[column.name] = to_array(column.cast(pl.String) if is_category else column)
    return Table(columns)


def _dense_chunks(X: Any) -> Iterator[NDArray[Any]]:
    for rows in gen_batches(X.shape[0], _CHUNK_ROWS):
        yield X[rows] if isinstance(X, np.ndarray) else X[rows].toarray()
