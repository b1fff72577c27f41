"""Columns of ids and texts that are recognized by their names."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from permll.data.labels import is_missing
from permll.data.readers.options import ReadOptions
from permll.data.readers.raw_data import left_out_entry, merge_metadata


def infer_columns(
    options: ReadOptions,
    metadata: dict[str, Any],
    label: str | None,
    columns: Sequence[str],
    *,
    values: Callable[[str], Iterable[object]],
    is_text: Callable[[str], bool],
) -> tuple[ReadOptions, dict[str, Any]]:
    """Return the options with an id and a text column, if the column names suggest them, and updated metadata.

    Args:
        options: options as given.
        metadata: metadata so far.
        label: label column, or None.
        columns: names of all columns.
        values: returns the values of a column.
        is_text: returns whether a column holds text.
    """
    used = {*options.other_columns(label), options.text, options.image, *(options.features or ())}
    if options.id is None and options.ids is None:
        matches = [name for name in columns if name.lower() == "id" and name not in used]
        ids = list(values(matches[0])) if len(matches) == 1 else []
        if ids and not any(map(is_missing, ids)) and len(set(map(str, ids))) == len(ids):
            options = replace(options, id=matches[0])
            metadata = merge_metadata(metadata, {"assumed": [f"column {matches[0]!r} holds the ids"]})
    has_inputs = options.text is not None or options.image is not None or options.features is not None
    if not has_inputs and "text" in columns and "text" not in (label, options.id) and is_text("text"):
        others = [name for name in columns if name not in ("text", *options.other_columns(label))]
        options = replace(options, text="text")
        metadata = merge_metadata(metadata, {"assumed": ["column 'text' is the text"]})
        metadata["left_out"] = [left_out_entry("column", "besides the text", others)] if others else []
    return options, metadata
