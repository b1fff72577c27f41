"""What a column's name says if nobody says otherwise: ``id`` holds ids, ``text`` holds the text."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from permll.data.labels import is_missing
from permll.data.readers.types import ReadOptions, assumed, leave_out


def assume(
    asked: ReadOptions,
    metadata: dict[str, Any],
    label: str | None,
    columns: Sequence[str],
    *,
    values: Callable[[str], Iterable[object]],
    is_text: Callable[[str], bool],
) -> tuple[ReadOptions, dict[str, Any]]:
    """Return what was asked with what the names of ``columns`` add to it, and ``about`` with a note of that.

    Args:
        asked: the keywords.
        about: what was understood so far.
        label: the column of labels, if there is one.
        columns: the names of all columns.
        values: returns the values of a column.
        is_text: returns whether a column holds text.
    """
    taken = {label, asked.text, asked.image, *(asked.features or ())}
    if asked.id is None and asked.ids is None:
        there = [name for name in columns if name.lower() == "id" and name not in taken]
        if len(there) == 1 and all_differ(values(there[0])):
            asked, metadata = replace(asked, id=there[0]), assumed(metadata, f"column {there[0]!r} holds the ids")
    nothing_asked = asked.text is None and asked.image is None and asked.features is None
    if nothing_asked and "text" in columns and "text" not in (label, asked.id) and is_text("text"):
        others = [name for name in columns if name not in ("text", label, asked.id)]
        asked, metadata = replace(asked, text="text"), assumed(metadata, "column 'text' is the text")
        metadata["left_out"] = [leave_out("column", "beside the text", others)] if others else []
    return asked, metadata


def all_differ(values: Iterable[object]) -> bool:
    """Return whether values can name rows: none is missing, and none is there twice.

    Examples:
        >>> all_differ([3, 1, 2]), all_differ(["a", "b", "a"]), all_differ(["a", None])
        (True, False, False)
    """
    names = list(values)
    return not any(is_missing(name) for name in names) and len({str(name) for name in names}) == len(names)
