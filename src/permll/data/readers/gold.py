"""Gold labels: which labels a person reviewed, from a column, a mask, or the history that ``permll apply`` writes."""

from collections.abc import Sequence

import numpy as np

from permll.data.labels import RowRefs, is_missing

REVIEWED_SOURCES = ("kept", "accepted", "chosen")  # values of label_source
_FLAGS = {"true": True, "yes": True, "1": True, "1.0": True, "false": False, "no": False, "0": False, "0.0": False}


def gold_mask(values: Sequence[object], row_refs: RowRefs) -> list[bool]:
    """Return which labels are gold; an empty cell stands for false.

    Examples:
        >>> gold_mask([True, "yes", 0, None], RowRefs("abcd"))
        [True, True, False, False]
    """
    flags = [False if is_missing(value) or value == "" else _FLAGS.get(str(value).strip().lower()) for value in values]
    unknown = [row for row, flag in enumerate(flags) if flag is None]
    if unknown:
        raise ValueError(
            f"gold must be true or false, but is {str(values[unknown[0]])!r:.40} in {row_refs.format_list(unknown)}."
        )
    return [bool(flag) for flag in flags]


def reviewed_mask(sources: Sequence[object]) -> list[bool]:
    """Return which labels a person reviewed, from the column ``label_source`` of ``permll apply``.

    Examples:
        >>> reviewed_mask(["given", "kept", b"chosen", "auto", None])
        [False, True, True, False, False]
    """
    return [
        (value.decode() if isinstance(value, bytes | np.bytes_) else value) in REVIEWED_SOURCES for value in sources
    ]
