"""Parquet files with new labels; columns, types and order are preserved."""

from pathlib import Path
from typing import Any

from permll.cleaning.apply.label_columns import LABEL, ORIGINAL, SOURCE, Changes, label_columns
from permll.cleaning.apply.source import Source


def write_parquet(source: Source, changes: Changes, out: Path) -> None:
    """Write the table with new labels and history columns; file metadata are preserved."""
    import polars as pl

    from permll.data.readers.tables import read_parquet

    frame = read_parquet(source.path)
    columns = label_columns(
        source,
        changes,
        frame.columns,
        lambda name: frame[name].to_list(),
        to_text=lambda word: "" if word is None else str(word),
    )
    name = source.label_column or LABEL
    dtype = pl.Series(source.labels).dtype if source.label_column is None else frame.schema[name]
    types: dict[str, Any] = {name: dtype, ORIGINAL: frame.schema.get(ORIGINAL, dtype), SOURCE: pl.String}
    frame = frame.with_columns(pl.Series(name, values, dtype=types[name]) for name, values in columns.items())
    metadata = pl.read_parquet_metadata(source.path)
    frame.write_parquet(out, metadata={key: value for key, value in metadata.items() if key != "ARROW:schema"})
