"""Which row belongs to which sample: labels, positions and ids, checked at the door.

Everything a user hands to the layer passes through here once. A bad value gets one sentence: what, where, what to do.
"""

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

Labels = Sequence[int] | np.ndarray[Any, Any] | Tensor
Index = Sequence[int] | Sequence[str] | np.ndarray[Any, Any] | Tensor
Ids = Sequence[str] | Sequence[int] | np.ndarray[Any, Any] | Tensor


def read_labels(labels: Labels, num_classes: int) -> Tensor:
    """Return the labels as a new int64 tensor (N,), every one of them in 0..c-1."""
    if num_classes < 2:
        raise ValueError(f"num_classes must be at least 2, got {num_classes}.")
    tensor = _integers(labels, "labels", "map names to 0..c-1 first: np.unique(names, return_inverse=True)[1]")
    if tensor.ndim != 1 or len(tensor) == 0:
        raise ValueError(
            f"labels must be one class number per training sample, shape (N,), N > 0; got shape {tuple(tensor.shape)}."
        )
    outside = ((tensor < 0) | (tensor >= num_classes)).nonzero().flatten()
    if len(outside):
        raise ValueError(
            f"{len(outside)} of {len(tensor)} labels lie outside 0..{num_classes - 1}, the first is "
            f"{int(tensor[outside[0]])} at position {int(outside[0])}: correct them or raise num_classes."
        )
    return tensor.clone()


def read_index(index: Index, ids: "RowIds | None") -> Tensor:
    """Return batch positions as an int64 tensor (B,); strings are looked up among the layer's ids."""
    if not isinstance(index, Tensor | np.ndarray) and len(index) and isinstance(index[0], str):
        if ids is None:
            raise TypeError("index holds strings but the layer has no ids: pass ids=... when you build it.")
        return ids.positions(index)
    tensor = index if isinstance(index, Tensor) and index.dtype == torch.int64 else _integers(index, "index")
    if tensor.ndim != 1:
        raise ValueError(f"index must be one position per sample, shape (B,); got shape {tuple(tensor.shape)}.")
    return tensor


def check_batch(logits: Tensor, index: Tensor, num_classes: int) -> None:
    """Raise unless ``logits`` are finite, (B, c), and ``index`` names one sample for each of them."""
    if logits.ndim != 2 or logits.shape[1] != num_classes or not logits.dtype.is_floating_point:
        raise ValueError(
            f"logits must be floating point numbers of shape (B, {num_classes}), got {logits.dtype} of shape "
            f"{tuple(logits.shape)}."
        )
    if index.shape[0] != logits.shape[0] or index.shape[0] == 0:
        raise ValueError(f"index must name one sample per row of logits, got {len(index)} for {len(logits)} rows.")
    # A sum is not finite when a term is not. Elsewhere than on the CPU reading it back would stall the device, so there
    # bad logits show as a loss that is not finite, as with any loss, and their rows stay as they are.
    if logits.is_cpu and not math.isfinite(logits.detach().sum().item()):
        bad = (~logits.detach().isfinite().all(-1)).nonzero().flatten()
        if len(bad):
            raise ValueError(
                f"logits of {len(bad)} of {len(logits)} samples are NaN or infinite, the first is sample "
                f"{int(index[bad[0]])} (row {int(bad[0])} of the batch): lower the learning rate or look at its input."
            )


def take_rows(table: Tensor, index: Tensor) -> Tensor:
    """Return the rows of ``table`` at ``index``; a position outside it is named."""
    if index.is_cpu and not table.is_cpu:
        _check_range(index, len(table))  # the device itself would only abort
    try:
        return table.index_select(0, index.to(table.device, non_blocking=True))
    except (IndexError, RuntimeError):
        _check_range(index, len(table))
        raise


def _check_range(index: Tensor, rows: int) -> None:
    outside = ((index < 0) | (index >= rows)).nonzero().flatten()
    if len(outside):
        raise IndexError(
            f"index {int(index[outside[0]])} (row {int(outside[0])} of the batch) lies outside the {rows} training "
            "samples: pass each sample's position in the labels the layer was built from."
        )


def _integers(values: Any, name: str, remedy: str = "pass whole numbers") -> Tensor:
    if not isinstance(values, Tensor):
        array = np.asarray(values)
        if array.size and array.dtype.kind not in "iu":
            raise TypeError(f"{name} must be whole numbers, got {array.dtype} values: {remedy}.")
        values = torch.from_numpy(array.astype(np.int64, copy=False))
    if values.dtype.is_floating_point or values.dtype.is_complex or values.dtype == torch.bool:
        raise TypeError(f"{name} must be whole numbers, got {values.dtype} values: {remedy}.")
    return values.detach().to(torch.int64)


class RowIds:
    """The names of the rows: all strings (paths, keys) or all integers, each of them once.

    Examples:
        >>> ids = RowIds(["a.png", "b.png"], rows=2)
        >>> ids.positions(["b.png"])
        tensor([1])
    """

    def __init__(self, ids: Ids, rows: int) -> None:
        values = ids.tolist() if isinstance(ids, Tensor | np.ndarray) else list(ids)
        kinds = {type(value) for value in values}
        if not (kinds <= {str} or kinds <= {int}):
            raise TypeError(f"ids must be all strings or all integers, got {_names(kinds)}: convert them first.")
        if len(values) != rows:
            raise ValueError(f"ids must name every row once: {rows} labels but {len(values)} ids.")
        self.values: list[Any] = values
        self._position = {value: position for position, value in enumerate(values)}
        if len(self._position) != rows:
            repeated = next(value for position, value in enumerate(values) if self._position[value] != position)
            raise ValueError(f"ids must differ, but {repeated!r} names more than one row.")

    def positions(self, ids: Iterable[Any]) -> Tensor:
        """Return the position of each id as an int64 tensor."""
        try:
            return torch.tensor([self._position[value] for value in ids], dtype=torch.int64)
        except KeyError as unknown:
            raise KeyError(f"no row has the id {unknown.args[0]!r}; the layer knows {len(self.values)} ids.") from None

    def find(self, other: "RowIds") -> tuple[Tensor, Tensor]:
        """Return the positions, here and in ``other``, of every id that both know."""
        pairs = [(here, other._position[value]) for value, here in self._position.items() if value in other._position]
        both = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)
        return both[:, 0], both[:, 1]

    def to_tensor(self) -> Tensor:
        """Return the ids as a tensor, for a ``state_dict`` that holds tensors only."""
        if isinstance(self.values[0], int):
            return torch.tensor(self.values, dtype=torch.int64)
        return torch.frombuffer(bytearray(json.dumps(self.values).encode()), dtype=torch.uint8)

    @classmethod
    def from_tensor(cls, tensor: Tensor) -> "RowIds":
        """Undo ``to_tensor``."""
        values = tensor.tolist() if tensor.dtype == torch.int64 else json.loads(bytes(tensor.tolist()))
        return cls(values, len(values))


def _names(kinds: set[type]) -> str:
    return " and ".join(sorted(kind.__name__ for kind in kinds))
