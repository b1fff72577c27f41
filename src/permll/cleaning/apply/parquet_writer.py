"""Parquet files with other labels: the same columns of the same types, in the same order."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from permll.cleaning.apply.label_values import LABEL, has_marks, known_sources, marked, new_values
from permll.cleaning.apply.source import Source
from permll.data.readers.feature_columns import APPLY_COLUMNS
from permll.data.readers.tables import read_parquet

_SCHEMA = "ARROW:schema"  # written anew, as there are new columns


def write_parquet(source: Source, changed: Mapping[int, str], sources: Sequence[str], out: Path) -> None:
    """Write the table with the labels in ``changed`` (position -> class) replaced and two columns more."""
    import polars as pl

    frame = read_parquet(source.path)
    again = has_marks(frame.columns, str(source.path), source.column)
    labels = pl.Series(LABEL, source.values) if source.column is None else frame[source.column]
    before: list[Any] = labels.to_list()
    earlier: tuple[Any, ...] = ()
    if again:
        original, origin = (frame[mark].to_list() for mark in APPLY_COLUMNS)
        earlier = original, known_sources(["" if word is None else str(word) for word in origin], str(source.path))
    first, words = marked(before, sources, *earlier)
    after = pl.Series(labels.name, new_values(source, changed, before), dtype=labels.dtype)
    kind = frame[APPLY_COLUMNS[0]].dtype if again else labels.dtype
    frame = frame.with_columns(
        after, pl.Series(APPLY_COLUMNS[0], first, dtype=kind), pl.Series(APPLY_COLUMNS[1], words)
    )
    frame.write_parquet(out, metadata=_about(source.path))


def _about(path: Path) -> dict[str, str]:
    """Return what else the file says about itself, like which column pandas takes for the index."""
    import polars as pl

    return {key: value for key, value in pl.read_parquet_metadata(path).items() if key != _SCHEMA}
