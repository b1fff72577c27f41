"""Groups of samples that belong together, such as the images of a patient, from a column, an array or a list."""

from collections.abc import Sequence

from permll.data.labels import RowRefs, is_missing


def group_names(values: Sequence[object], row_refs: RowRefs) -> list[str]:
    """Return the name of the group of each sample; an empty one is refused, since it would be a group of strangers.

    Examples:
        >>> group_names(["ann", b"bob", 3, 3.0], RowRefs("abcd"))
        ['ann', 'bob', '3', '3']
    """
    empty = [row for row, value in enumerate(values) if is_missing(value)]
    if empty:
        raise ValueError(f"the group is empty in {row_refs.format_list(empty)}: every sample needs one.")
    return [_name(value) for value in values]


def _name(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
