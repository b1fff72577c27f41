"""Validation of labels, logits, positions and ids that users pass to the layer."""

import json
import math
import warnings
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from permll.utils.validation import check_class_labels

Labels = Sequence[int] | np.ndarray[Any, Any] | Tensor
Index = int | str | Sequence[int] | Sequence[str] | np.ndarray[Any, Any] | Tensor
MIN_COMPARED = 8  # samples of a batch below which its positions are not compared with class labels
Ids = Sequence[str] | Sequence[int] | np.ndarray[Any, Any] | Tensor


def check_labels(labels: Labels, num_classes: int) -> Tensor:
    """Return the labels as a new int64 tensor (N,) with values in 0..c-1."""
    if not isinstance(num_classes, int | np.integer) or num_classes < 2:
        raise ValueError(f"num_classes must be an integer >= 2, got {num_classes!r}.")
    tensor = _to_integers(labels, "labels", "class numbers from 0")
    check_class_labels(tensor, int(num_classes), hint="correct them or raise num_classes")
    return tensor.clone()


def check_index(index: Index, ids: "RowIds | None") -> Tensor:
    """Return sample positions as an int64 tensor (B,); strings are looked up in the layer's ids."""
    if isinstance(index, Tensor) and index.dtype == torch.int64 and index.ndim == 1:
        return index
    values: Any = [index] if isinstance(index, int | np.integer | str) else index
    if not isinstance(values, Tensor | np.ndarray | Sequence):
        raise TypeError(
            f"index must be positions, one per sample; got {type(index).__name__}: call layer(logits, index)."
        )
    if not isinstance(values, Tensor) and len(values) and isinstance(values[0], str):
        if ids is None:
            raise TypeError("index holds strings but the layer has no ids: pass ids=... to the constructor.")
        return ids.positions(values)
    tensor = _to_integers(values, "index", "positions: call layer(logits, index)")
    if tensor.ndim != 1:
        raise ValueError(
            f"index must be one position per sample, shape (B,); got shape {tuple(tensor.shape)}: flatten it."
        )
    return tensor


def check_batch(logits: Tensor, index: Tensor, num_classes: int) -> None:
    """Raise unless ``logits`` have shape (B, c), and ``index`` has one position per row."""
    if not isinstance(logits, Tensor):
        raise TypeError(f"logits must be a tensor, got {type(logits).__name__}: pass the network's raw scores, (B, c).")
    if logits.ndim != 2 or logits.shape[1] != num_classes or not logits.dtype.is_floating_point:
        raise ValueError(
            f"logits must be floating point numbers of shape (B, {num_classes}), one score per class of "
            f"num_classes={num_classes}; got {logits.dtype} of shape {tuple(logits.shape)}."
        )
    if index.shape[0] != logits.shape[0] or index.shape[0] == 0:
        raise ValueError(f"index must have one position per row of logits, got {len(index)} for {len(logits)} rows.")


def check_given_labels(labels: Labels, expected: Tensor, index: Tensor) -> None:
    """Raise if the labels (B,) of a batch are not those that the layer has at ``index`` (B,)."""
    given = _to_integers(labels, "labels", "class numbers from 0").to(expected.device)
    if given.shape != expected.shape:
        raise ValueError(f"labels must have one entry per row of logits, got shape {tuple(given.shape)}.")
    different = (given != expected).nonzero().flatten()
    if len(different):
        row = int(different[0])
        raise ValueError(
            f"{len(different)} labels of the batch are not the layer's, the first is {int(given[row])} instead of "
            f"{int(expected[row])} at index {int(index[row])}: pass positions in the labels that the layer was built "
            "with (a Subset counts from 0)."
        )


class NonFiniteLogitsError(ValueError):
    """Logits are NaN or infinite in ``rows`` of a batch."""

    def __init__(self, message: str, rows: Tensor) -> None:
        super().__init__(message)
        self.rows = rows


def check_finite(logits: Tensor, index: Tensor | None = None) -> None:
    """Raise if a logit is NaN or infinite; the message names the sample by ``index``, or by its row."""
    if math.isfinite(logits.sum().item()):
        return
    bad = (~logits.isfinite().all(-1)).nonzero().flatten()
    if len(bad):
        row = int(bad[0])
        sample = row if index is None else f"{int(index[row])} (row {row} of the batch)"
        raise NonFiniteLogitsError(
            f"logits of {len(bad)} of {len(logits)} samples are NaN or infinite, the first is sample {sample}: lower "
            "the learning rate, check its input, or mask classes with -1e4 instead of -inf.",
            bad,
        )


def select_rows(table: Tensor, index: Tensor) -> Tensor:
    """Return the rows of ``table`` at ``index``, which is on the same device; an index error names the position."""
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
            "samples: pass each sample's position in the labels that the layer was built with."
        )


def _to_integers(values: Any, name: str, what: str) -> Tensor:
    if not isinstance(values, Tensor):
        array = np.asarray(values)
        if array.size and array.dtype.kind in "US":
            raise TypeError(
                f"{name} must be integers ({what}), got strings: encode them with "
                "np.unique(names, return_inverse=True)[1]."
            )
        if array.size and array.dtype.kind not in "iu":
            raise TypeError(f"{name} must be integers ({what}), got {array.dtype} values: convert them.")
        values = torch.from_numpy(np.array(array, dtype=np.int64))  # a copy: the array may change, or be read-only
    if values.dtype.is_floating_point or values.dtype.is_complex or values.dtype == torch.bool:
        raise TypeError(f"{name} must be integers ({what}), got {values.dtype} values: convert them.")
    return values.detach().to(torch.int64)


def looks_like_probabilities(logits: Tensor) -> bool:
    """Return whether every row is non-negative and sums to one, which raw scores almost never do."""
    return bool((logits >= 0).all() and (logits.sum(-1) - 1).abs().max() < 1e-3)


def looks_like_labels(index: Tensor, num_classes: int, rows: int) -> bool:
    """Return whether positions (B,) of a batch are class labels, almost certainly.

    They are at least 8, all less than c, while N >= 10c, and samples repeat unequally and not in order. A random batch
    has such positions with a probability below 10^-8, with replacement; without replacement, samples do not repeat.
    Samples in order, and several views of each sample, repeat equally often or one after the other.

    Examples:
        >>> y = torch.tensor([2, 0, 1, 1, 0, 2, 1, 0, 0, 2])
        >>> looks_like_labels(y, num_classes=3, rows=100), looks_like_labels(torch.arange(10), num_classes=3, rows=100)
        (True, False)
    """
    if len(index) < MIN_COMPARED or rows < 10 * num_classes or not bool(((index >= 0) & (index < num_classes)).all()):
        return False
    counts = index.unique(return_counts=True)[1]
    return bool(counts.min() < counts.max()) and bool((index.diff() < 0).any())


class RowIds:
    """Unique sample ids, all strings (paths, keys) or all integers.

    Examples:
        >>> ids = RowIds(["a.png", "b.png"], rows=2)
        >>> ids.positions(["b.png"])
        tensor([1])
    """

    def __init__(self, ids: Ids, rows: int) -> None:
        if isinstance(ids, str):
            raise TypeError("ids must be a list with one id per row, got a single string.")
        values = _to_list(ids)
        kinds = {type(value) for value in values}
        if not (kinds <= {str} or kinds <= {int}):
            names = " and ".join(sorted(kind.__name__ for kind in kinds))
            raise TypeError(f"ids must be all strings or all integers, got {names}: convert them first.")
        if kinds == {int} and not all(-(2**63) <= value < 2**63 for value in values):
            raise ValueError("integer ids must fit into 64 bits: pass them as strings.")
        if len(values) != rows:
            raise ValueError(f"ids must have one entry per label: {rows} labels but {len(values)} ids.")
        self.values: list[Any] = values
        self._position = {value: position for position, value in enumerate(values)}
        if len(self._position) != rows:
            repeated = next(value for position, value in enumerate(values) if self._position[value] != position)
            raise ValueError(f"ids must be unique, but {repeated!r} occurs more than once.")

    def positions(self, ids: Ids) -> Tensor:
        """Return the position of each id as an int64 tensor."""
        try:
            return torch.tensor([self._position[value] for value in _to_list(ids)], dtype=torch.int64)
        except KeyError as error:
            raise KeyError(
                f"unknown id {error.args[0]!r}: it is not among the layer's {len(self.values)} ids."
            ) from None

    def intersect(self, other: "RowIds") -> tuple[Tensor, Tensor]:
        """Return the positions of the common ids, here and in ``other``."""
        pairs = [(here, other._position[value]) for value, here in self._position.items() if value in other._position]
        both = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)
        return both[:, 0], both[:, 1]

    def to_tensor(self, rows: slice = slice(None)) -> Tensor:
        """Return the ids of ``rows`` as a tensor, for a ``state_dict`` that holds tensors only."""
        if isinstance(self.values[0], int):
            return torch.tensor(self.values[rows], dtype=torch.int64)
        return torch.frombuffer(bytearray(json.dumps(self.values[rows]).encode()), dtype=torch.uint8)

    @classmethod
    def from_tensor(cls, tensor: Tensor) -> "RowIds":
        """Inverse of ``to_tensor``."""
        values = tensor.tolist() if tensor.dtype == torch.int64 else json.loads(tensor.cpu().numpy().tobytes())
        return cls(values, len(values))


def match_rows(
    labels: Tensor, ids: RowIds | None, saved_labels: Tensor, saved_ids: RowIds | None
) -> tuple[Tensor, Tensor]:
    """Return the positions of common rows, here and in a saved state: matched by id, or by position without ids.

    Rows on one side only are ignored. A common row with different labels is an error.
    """
    if (ids is None) != (saved_ids is None):
        has, lacks = ("this layer", "the state") if saved_ids is None else ("the state", "this layer")
        raise ValueError(f"{has} has ids and {lacks} does not: build both with ids, or both without.")
    if ids is not None and saved_ids is not None:
        here, there = ids.intersect(saved_ids)
        if len(here) == 0:
            raise ValueError(
                f"the state and this layer have no id in common: the first ids are {saved_ids.values[0]!r} and "
                f"{ids.values[0]!r}."
            )
    elif len(saved_labels) == len(labels):
        here = there = torch.arange(len(labels))
    else:
        raise ValueError(
            f"the state has {len(saved_labels)} rows and this layer {len(labels)}: build both with ids to match them."
        )
    changed = (labels[here] != saved_labels[there]).nonzero().flatten()
    if len(changed):
        row, saved_row = int(here[changed[0]]), int(there[changed[0]])
        name = row if ids is None else repr(ids.values[row])
        raise ValueError(
            f"the state was saved for other labels: {len(changed)} differ, the first is row {name} with "
            f"{int(saved_labels[saved_row])} in the state and {int(labels[row])} here: give relabeled rows new ids."
        )
    if 2 * len(here) < len(labels):
        warnings.warn(
            f"only {len(here)} of {len(labels)} rows were found in the state; the others keep their initial values.",
            stacklevel=2,
        )
    return here, there


def _to_list(values: Any) -> list[Any]:
    """Convert a list, array or tensor to a list of Python strings and integers, which hash and print alike."""
    return [_to_python(value) for value in (values.tolist() if isinstance(values, Tensor | np.ndarray) else values)]


def _to_python(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    return str(value) if isinstance(value, str) else int(value) if isinstance(value, Integral) else value
