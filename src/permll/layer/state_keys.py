"""A table in a saved state: dense rows under its name, parts of other rows under names that begin with it."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from permll.layer.top_k import TopKRows, expand

ROW_PARTS = frozenset({"rows", "classes", "kept", "tail"})  # have a row for each sample


def state_key(name: str, part: str) -> str:
    """Return the key of a part.

    Examples:
        >>> state_key("alpha", "rows"), state_key("alpha", "tail")
        ('alpha', 'alpha_tail')
    """
    return name if part == "rows" else f"{name}_{part}"


def take_parts(state: dict[str, Any], name: str) -> dict[str, Tensor]:
    """Take out of a state what ``RowTable.state(name)`` put there; return it by part."""
    keys = {part: state_key(name, part) for part in (*sorted(ROW_PARTS), "writes", "width")}
    return {part: state.pop(key) for part, key in keys.items() if key in state}


def saved_shape(saved: Mapping[str, Tensor]) -> tuple[int, ...] | None:
    """Return the shape (N, ...) of saved rows; None if there are none, or only parts of them."""
    if "rows" in saved:
        return tuple(saved["rows"].shape)
    if {"classes", "kept", "tail", "width"} <= saved.keys():
        return len(saved["tail"]), int(saved["width"])
    return None


def saved_rows(saved: Mapping[str, Tensor], index: Tensor) -> Tensor:
    """Return saved rows (B, ...) at ``index`` (B,), however they were kept."""
    taken = {part: saved[part].index_select(0, index.to(saved[part].device)) for part in ROW_PARTS & saved.keys()}
    if "rows" in taken:
        return taken["rows"]
    return expand(TopKRows(taken["classes"].long(), taken["kept"], taken["tail"]), int(saved["width"]))
