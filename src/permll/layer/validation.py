"""Which row belongs to which sample: labels, positions and ids, checked at the door.

Everything a user hands to the layer passes through here once. A bad value gets one sentence: what, where, what to do.
"""

import json
import math
import warnings
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

Labels = Sequence[int] | np.ndarray[Any, Any] | Tensor
Index = int | str | Sequence[int] | Sequence[str] | np.ndarray[Any, Any] | Tensor
Ids = Sequence[str] | Sequence[int] | np.ndarray[Any, Any] | Tensor


def read_labels(labels: Labels, num_classes: int) -> Tensor:
    """Return the labels as a new int64 tensor (N,), every one of them in 0..c-1."""
    if not isinstance(num_classes, int | np.integer) or num_classes < 2:
        raise ValueError(f"num_classes must be a whole number, at least 2, got {num_classes!r}.")
    tensor = _integers(labels, "labels", "class numbers from 0")
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
    if isinstance(index, Tensor) and index.dtype == torch.int64 and index.ndim == 1:
        return index
    several: Any = [index] if isinstance(index, int | np.integer | str) else index
    if not isinstance(several, Tensor | np.ndarray | Sequence):
        raise TypeError(
            f"index must be positions, one per sample; got {type(index).__name__}: call layer(logits, index)."
        )
    if not isinstance(several, Tensor) and len(several) and isinstance(several[0], str):
        if ids is None:
            raise TypeError("index holds strings but the layer has no ids: pass ids=... when you build it.")
        return ids.positions(several)
    tensor = _integers(several, "index", "positions: call layer(logits, index)")
    if tensor.ndim != 1:
        raise ValueError(
            f"index must be one position per sample, shape (B,); got shape {tuple(tensor.shape)}: flatten it."
        )
    return tensor


def check_batch(logits: Tensor, index: Tensor, num_classes: int) -> None:
    """Raise unless ``logits`` are finite, (B, c), and ``index`` names one sample for each of them."""
    if not isinstance(logits, Tensor):
        raise TypeError(f"logits must be a tensor, got {type(logits).__name__}: pass the network's raw scores, (B, c).")
    if logits.ndim != 2 or logits.shape[1] != num_classes or not logits.dtype.is_floating_point:
        raise ValueError(
            f"logits must be floating point numbers of shape (B, {num_classes}), one score per class of "
            f"num_classes={num_classes}; got {logits.dtype} of shape {tuple(logits.shape)}."
        )
    if index.shape[0] != logits.shape[0] or index.shape[0] == 0:
        raise ValueError(f"index must name one sample per row of logits, got {len(index)} for {len(logits)} rows.")
    # Elsewhere than on the CPU reading the answer back would stall the device: there NaN and +inf show in the loss, as
    # with any loss, and their rows stay as they are.
    if logits.is_cpu:
        check_finite(logits.detach(), index)


class BadLogitsError(ValueError):
    """Logits are NaN or infinite in these ``rows`` of a batch."""

    def __init__(self, message: str, rows: Tensor) -> None:
        super().__init__(message)
        self.rows = rows


def check_finite(logits: Tensor, index: Tensor | None = None) -> None:
    """Raise if a logit is NaN or infinite, naming the sample: a position in ``index``, or its row."""
    if math.isfinite(logits.sum().item()):  # as it is not when a term is not
        return
    bad = (~logits.isfinite().all(-1)).nonzero().flatten()
    if len(bad):
        row = int(bad[0])
        sample = row if index is None else f"{int(index[row])} (row {row} of the batch)"
        raise BadLogitsError(
            f"logits of {len(bad)} of {len(logits)} samples are NaN or infinite, the first is sample {sample}: lower "
            "the learning rate, look at its input, or mask classes with -1e4 rather than -inf.",
            bad,
        )


def take_rows(table: Tensor, index: Tensor) -> Tensor:
    """Return the rows of ``table`` at ``index`` (on the same device); a position outside is named."""
    try:
        return table.index_select(0, index)
    except (IndexError, RuntimeError):
        check_range(index, len(table))
        raise


def check_range(index: Tensor, rows: int) -> None:
    """Raise if a position lies outside 0..rows-1."""
    outside = ((index < 0) | (index >= rows)).nonzero().flatten()
    if len(outside):
        raise IndexError(
            f"index {int(index[outside[0]])} (row {int(outside[0])} of the batch) lies outside the {rows} training "
            "samples: pass each sample's position in the labels the layer was built from."
        )


def _integers(values: Any, name: str, what: str) -> Tensor:
    if not isinstance(values, Tensor):
        array = np.asarray(values)
        if array.size and array.dtype.kind in "US":
            raise TypeError(
                f"{name} must be whole numbers ({what}), got strings: np.unique(names, return_inverse=True)[1] "
                "numbers them."
            )
        if array.size and array.dtype.kind not in "iu":
            raise TypeError(f"{name} must be whole numbers ({what}), got {array.dtype} values: convert them.")
        values = torch.from_numpy(np.array(array, dtype=np.int64))  # a copy: the caller's may change, or be read-only
    if values.dtype.is_floating_point or values.dtype.is_complex or values.dtype == torch.bool:
        raise TypeError(f"{name} must be whole numbers ({what}), got {values.dtype} values: convert them.")
    return values.detach().to(torch.int64)


def looks_like_probabilities(logits: Tensor) -> bool:
    """Return whether every row is non-negative and sums to one, as raw scores practically never do."""
    return bool((logits >= 0).all() and (logits.sum(-1) - 1).abs().max() < 1e-3)


class RowIds:
    """The names of the rows: all strings (paths, keys) or all integers, each of them once.

    Examples:
        >>> ids = RowIds(["a.png", "b.png"], rows=2)
        >>> ids.positions(["b.png"])
        tensor([1])
    """

    def __init__(self, ids: Ids, rows: int) -> None:
        if isinstance(ids, str):
            raise TypeError("ids must be a list of names, one per row, got a single string.")
        values = _plain(ids)
        kinds = {type(value) for value in values}
        if not (kinds <= {str} or kinds <= {int}):
            raise TypeError(f"ids must be all strings or all integers, got {_names(kinds)}: convert them first.")
        if kinds == {int} and not all(-(2**63) <= value < 2**63 for value in values):
            raise ValueError("integer ids must fit into 64 bits: pass them as strings.")
        if len(values) != rows:
            raise ValueError(f"ids must name every row once: {rows} labels but {len(values)} ids.")
        self.values: list[Any] = values
        self._position = {value: position for position, value in enumerate(values)}
        if len(self._position) != rows:
            repeated = next(value for position, value in enumerate(values) if self._position[value] != position)
            raise ValueError(f"ids must differ, but {repeated!r} names more than one row.")

    def positions(self, ids: Ids) -> Tensor:
        """Return the position of each id as an int64 tensor."""
        try:
            return torch.tensor([self._position[value] for value in _plain(ids)], dtype=torch.int64)
        except KeyError as unknown:
            raise KeyError(f"no row has the id {unknown.args[0]!r}; the layer knows {len(self.values)} ids.") from None

    def find(self, other: "RowIds") -> tuple[Tensor, Tensor]:
        """Return the positions, here and in ``other``, of every id that both know."""
        pairs = [(here, other._position[value]) for value, here in self._position.items() if value in other._position]
        both = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)
        return both[:, 0], both[:, 1]

    def to_tensor(self, some: slice = slice(None)) -> Tensor:
        """Return the ids, or some of them, as a tensor, for a ``state_dict`` that holds tensors only."""
        if isinstance(self.values[0], int):
            return torch.tensor(self.values[some], dtype=torch.int64)
        return torch.frombuffer(bytearray(json.dumps(self.values[some]).encode()), dtype=torch.uint8)

    @classmethod
    def from_tensor(cls, tensor: Tensor) -> "RowIds":
        """Undo ``to_tensor``."""
        values = tensor.tolist() if tensor.dtype == torch.int64 else json.loads(tensor.cpu().numpy().tobytes())
        return cls(values, len(values))


def match_rows(labels: Tensor, ids: RowIds | None, saved: Tensor, saved_ids: RowIds | None) -> tuple[Tensor, Tensor]:
    """Return the positions, here and in a saved state, of the rows they share: by id, or without ids by position.

    Rows that only one side knows are left out; a row whose label has changed since is an error.
    """
    if (ids is None) != (saved_ids is None):
        has, lacks = ("this layer", "the state") if saved_ids is None else ("the state", "this layer")
        raise ValueError(f"{has} names its rows by ids and {lacks} does not: build both with ids, or both without.")
    if ids is not None and saved_ids is not None:
        here, there = ids.find(saved_ids)
        if len(here) == 0:
            raise ValueError(
                f"no id of the state is known here: it holds {saved_ids.values[0]!r} and others, this layer "
                f"{ids.values[0]!r} and others."
            )
    elif len(saved) == len(labels):
        here = there = torch.arange(len(labels))
    else:
        raise ValueError(
            f"the state holds {len(saved)} rows and this layer {len(labels)}: only ids, given to both when they were "
            "built, could match them."
        )
    changed = (labels[here] != saved[there]).nonzero().flatten()
    if len(changed):
        mine, its = int(here[changed[0]]), int(there[changed[0]])
        name = mine if ids is None else repr(ids.values[mine])
        raise ValueError(
            f"the state was learned from other labels: {len(changed)} differ, the first is row {name} with "
            f"{int(saved[its])} in the state and {int(labels[mine])} here: give changed rows new ids to start anew."
        )
    if 2 * len(here) < len(labels):
        warnings.warn(
            f"only {len(here)} of {len(labels)} rows were found in the state; the others start anew.", stacklevel=2
        )
    return here, there


def _plain(values: Any) -> list[Any]:
    """Return the strings and integers of a list, array or tensor as Python's own, which hash and print alike."""
    return [_plain_one(value) for value in (values.tolist() if isinstance(values, Tensor | np.ndarray) else values)]


def _plain_one(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    return str(value) if isinstance(value, str) else int(value) if isinstance(value, Integral) else value


def _names(kinds: set[type]) -> str:
    return " and ".join(sorted(kind.__name__ for kind in kinds))
