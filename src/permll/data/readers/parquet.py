"""Parquet files: their rows, and what pandas stores in them, an index and ordered categories."""

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import polars as pl


def read_parquet(path: Path) -> pl.DataFrame:
    """Read a Parquet file; a damaged one raises ``ValueError``."""
    try:
        frame = pl.read_parquet(path)
        return frame.with_columns(pl.col(name).cast(pl.Enum(values)) for name, values in _ordered_categories(path))
    except Exception as error:  # damage can raise many errors
        raise ValueError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}.") from None


def index_columns(path: Path) -> list[str]:
    """Return the names of the columns that are the index of a pandas frame."""
    saved = pl.read_parquet_metadata(path).get("pandas")
    index = json.loads(saved)["index_columns"] if saved else []
    return [name for name in index if isinstance(name, str)]  # a range is not a column


def _ordered_categories(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the names of ordered categorical columns and their categories; polars does not read the order."""
    if find_spec("pyarrow") is None:
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    for field in pq.read_schema(path):
        kind = field.type
        if pa.types.is_dictionary(kind) and kind.ordered and not pa.types.is_integer(kind.value_type):
            column = pq.read_table(path, columns=[field.name]).unify_dictionaries()[field.name]
            yield field.name, column.chunk(0).dictionary.to_pylist() if column.num_chunks else []
