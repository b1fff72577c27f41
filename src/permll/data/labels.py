"""From labels in the user's words to numbers 0..c-1 and their names."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from permll.data.problems import listed


def name_classes(
    values: ArrayLike | Sequence[object], classes: Sequence[str] | None = None
) -> tuple[Tensor, tuple[str, ...]]:
    """Return labels (N,) int64 in 0..c-1 and the c class names.

    Text is sorted by name. Whole numbers that run from 0 to below ``len(classes)`` index the given ``classes``; without
    those, numbers are sorted by value and named by their digits. True and False are classes too.

    Examples:
        >>> name_classes(["dog", "cat", "dog"])
        (tensor([1, 0, 1]), ('cat', 'dog'))
        >>> name_classes([5, 1, 5])
        (tensor([1, 0, 1]), ('1', '5'))
        >>> name_classes([1, 0], classes=["no", "yes"])
        (tensor([1, 0]), ('no', 'yes'))
    """
    raw: NDArray[np.generic] = np.asarray(values if isinstance(values, np.ndarray) else _plain(values))
    if raw.ndim != 1 or len(raw) == 0:
        raise ValueError(f"labels must be a list of one label per sample, got shape {raw.shape}.")
    kind = raw.dtype.kind
    if kind == "O":
        raw = _one_type(raw)
        kind = raw.dtype.kind
    if kind == "f":
        raw, kind = _whole(raw), "i"
    if kind == "b":
        raw = np.where(raw, "True", "False")
        kind = "U"
    if kind in "iu":
        numbers = raw.astype(np.int64)
        if classes is not None:
            return _by_number(numbers, classes)
        found, labels = np.unique(numbers, return_inverse=True)
        return torch.from_numpy(labels.astype(np.int64)), tuple(str(value) for value in found.tolist())
    if kind not in "US":
        raise ValueError(f"labels must be text or whole numbers, got {raw.dtype}.")
    words = raw.astype(str)
    if classes is not None:
        return _by_name(words, classes)
    found, labels = np.unique(words, return_inverse=True)
    return torch.from_numpy(labels.astype(np.int64)), tuple(found.tolist())


def _plain(values: object) -> NDArray[np.generic]:
    """Keep each value's own type: NumPy alone would turn [1, "a"] into text without a word."""
    if isinstance(values, Tensor):
        return values.cpu().numpy()
    several = list(values)  # type: ignore[call-overload]
    array = np.empty(len(several), dtype=object)
    array[:] = several
    return array


def _one_type(raw: NDArray[np.generic]) -> NDArray[np.generic]:
    empty = [i for i, value in enumerate(raw) if value is None or value != value]
    if empty:
        raise ValueError(f"labels are missing in {listed(empty, 'row')}: fill them in or leave those rows out.")
    text = [i for i, value in enumerate(raw) if isinstance(value, str)]
    if text and len(text) < len(raw):
        few, what = (
            (text, "text") if 2 * len(text) <= len(raw) else (sorted(set(range(len(raw))) - set(text)), "numbers")
        )
        raise ValueError(f"labels mix text and numbers: {what} in {listed(few, 'row')}; write them all in one way.")
    return np.array(raw.tolist())


def _whole(raw: NDArray[np.generic]) -> NDArray[np.int64]:
    values = raw.astype(np.float64)
    missing = np.flatnonzero(np.isnan(values))
    if len(missing):
        raise ValueError(
            f"labels are missing in {listed(missing.tolist(), 'row')}: fill them in or leave those rows out."
        )
    broken = np.flatnonzero(values != np.floor(values))
    if len(broken):
        raise ValueError(f"labels must name classes, but there are fractions in {listed(broken.tolist(), 'row')}.")
    return values.astype(np.int64)


def _by_number(numbers: NDArray[np.int64], classes: Sequence[str]) -> tuple[Tensor, tuple[str, ...]]:
    outside = np.flatnonzero((numbers < 0) | (numbers >= len(classes)))
    if len(outside):
        raise ValueError(f"labels lie outside 0..{len(classes) - 1} in {listed(outside.tolist(), 'row')}.")
    return torch.from_numpy(numbers), tuple(classes)


def _by_name(words: NDArray[np.str_], classes: Sequence[str]) -> tuple[Tensor, tuple[str, ...]]:
    place = {name: number for number, name in enumerate(classes)}
    unknown = [i for i, word in enumerate(words.tolist()) if word not in place]
    if unknown:
        shown = listed([f"{i}: {words[i]}" for i in unknown], "row")
        raise ValueError(f"labels are none of the {len(classes)} classes in {shown}.")
    return torch.tensor([place[word] for word in words.tolist()]), tuple(classes)
