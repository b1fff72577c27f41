"""Keys of a ``RowTable`` in a state dict: dense rows under the table's name, other parts with a suffix."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from permll.layer.top_k import TopKRows, expand

ROW_PARTS = frozenset({"rows", "classes", "kept", "tail"})  # parts with one row per sample


def state_key(name: str, part: str) -> str:
    """Return the state-dict key of a part.

    Examples:
        >>> state_key("alpha", "rows"), state_key("alpha", "tail")
        ('alpha', 'alpha_tail')
    """
    return name if part == "rows" else f"{name}_{part}"


def pop_parts(state: dict[str, Any], name: str) -> dict[str, Tensor]:
    """Remove the entries of ``RowTable.state(name)`` from a state dict and return them by part."""
    keys = {part: state_key(name, part) for part in (*sorted(ROW_PARTS), "writes", "width")}
    return {part: state.pop(key) for part, key in keys.items() if key in state}


def saved_shape(saved: Mapping[str, Tensor]) -> tuple[int, ...] | None:
    """Return the dense shape (N, ...) of saved rows; None if parts are missing."""
    if "rows" in saved:
        return tuple(saved["rows"].shape)
    if {"classes", "kept", "tail", "width"} <= saved.keys():
        return len(saved["tail"]), int(saved["width"])
    return None


def saved_rows(saved: Mapping[str, Tensor], index: Tensor) -> Tensor:
    """Return saved rows (B, ...) at ``index`` (B,) in dense form."""
    parts = {part: saved[part].index_select(0, index.to(saved[part].device)) for part in ROW_PARTS & saved.keys()}
    if "rows" in parts:
        return parts["rows"]
    return expand(TopKRows(parts["classes"].long(), parts["kept"], parts["tail"]), int(saved["width"]))
