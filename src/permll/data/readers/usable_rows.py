"""Rows of a data set that have a label, a text and an image."""

from collections.abc import Sequence
from typing import Any

from permll.data.labels import RowRefs, is_missing
from permll.data.readers.options import ReadOptions
from permll.data.readers.raw_data import RawData, left_out_entry
from permll.utils.messages import Problems


def usable_rows(
    values: Sequence[object],
    ids: Sequence[str],
    row_refs: RowRefs,
    options: ReadOptions,
    raw: RawData,
    problems: Problems,
) -> tuple[list[int], list[dict[str, Any]]]:
    """Return the rows with a label, a text and an image, and entries of ``left_out``."""
    no_label = [*_markers(options.no_label), ""] if options.drop_empty else options.no_label
    left_out: list[dict[str, Any]] = []
    rows = [i for i, value in enumerate(values) if not is_missing(value)]  # after an error: others may have more
    rows = rows if len({values[i] for i in rows}) > 1 else []
    with problems.collect():
        rows, left_out = labeled_rows(values, ids, row_refs, no_label, raw.noun)
    empty = [i for i in rows if i in set(raw.empty)]
    if empty:
        left_out.append(left_out_entry(raw.noun, f"no {raw.metadata['kind'].rstrip('s')}", [ids[i] for i in empty]))
        rows = sorted({*rows} - {*empty})
    if not rows and not problems.errors:
        raise ValueError(f"no {raw.noun} has both a label and a {raw.metadata['kind'].rstrip('s')}.")
    return rows, left_out


def labeled_rows(
    values: Sequence[object], ids: Sequence[str], row_refs: RowRefs, no_label: object, noun: str
) -> tuple[list[int], list[dict[str, Any]]]:
    """Return the rows with a label, and entries of ``left_out``; an unexpected missing label raises.

    Examples:
        >>> ids = ["a", "b", "c"]
        >>> labeled_rows([2, -1, 2], ids, RowRefs(ids), no_label=-1, noun="row")[0]
        [0, 2]
    """
    markers = _markers(no_label)
    missing = [i for i, value in enumerate(values) if is_missing(value)]
    if missing and not any(is_missing(marker) for marker in markers):
        raise ValueError(
            f'labels are missing in {row_refs.format_list(missing)}: fill them in, or leave those out with no_label="".'
        )
    unlabeled = {i for i, value in enumerate(values) if any(_equal(value, marker) for marker in markers)} | set(missing)
    if len(unlabeled) == len(values):
        raise ValueError(f"no {noun} has a label: all {len(values):,} are {' or '.join(map(repr, markers))}.")
    why = f"no label ({', '.join(map(repr, markers))})"
    entries = [left_out_entry(noun, why, [ids[i] for i in sorted(unlabeled)])] if unlabeled else []
    return [i for i in range(len(values)) if i not in unlabeled], entries


def matches_marker(value: object, no_label: object) -> bool:
    """Return whether a label is one of the values that mark a missing one.

    Examples:
        >>> matches_marker(-1.0, [-1, "?"]), matches_marker(1, None)
        (True, False)
    """
    return any(_equal(value, marker) for marker in _markers(no_label))


def _markers(no_label: object) -> list[object]:
    """Return the values that mark a missing label."""
    if isinstance(no_label, list | tuple | set | frozenset):
        return list(no_label)
    return [] if no_label is None else [no_label]


def _equal(value: object, marker: object) -> bool:
    """Compare -1 and -1.0 as numbers, and 3 and "3" as text, but not True and 1."""
    return (value == marker and isinstance(value, bool) == isinstance(marker, bool)) or str(value) == str(marker)
