"""From labels in the user's words to numbers 0..c-1 and their names."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from permll.utils.messages import format_list

Named = tuple[Tensor, tuple[str, ...]]
_EXACT = 2**53  # beyond it, a float no longer tells neighbouring whole numbers apart


def name_classes(
    values: ArrayLike | Sequence[object],
    classes: Sequence[str] | None = None,
    *,
    ids: Sequence[object] | None = None,
    noun: str = "row",
) -> Named:
    """Return labels (N,) int64 in 0..c-1 and the c class names.

    Text is sorted by name, numbers by value and named by their digits; True and False are classes too. Numbers index
    the given ``classes``, unless those are numbers themselves: then each is its own name, so that the classes of one
    set serve the next.

    Args:
        values: N labels of one kind.
        classes: the names, in the order of their numbers.
        ids: what complaints call the samples; by default their positions.
        noun: what complaints call one sample.

    Examples:
        >>> name_classes(["dog", "cat", "dog"])
        (tensor([1, 0, 1]), ('cat', 'dog'))
        >>> name_classes([5, 1, 5])
        (tensor([1, 0, 1]), ('1', '5'))
        >>> name_classes([1, 0], classes=["no", "yes"])
        (tensor([1, 0]), ('no', 'yes'))
        >>> name_classes([5, 1], classes=["1", "5"])
        (tensor([1, 0]), ('1', '5'))
    """
    names = _class_names(classes)
    read = _read(values, ids, noun)
    if isinstance(read, list):
        return _by_name(read, names or sorted(set(read)), ids, noun)
    if read.dtype.kind == "b" and (names is None or {"True", "False"} >= set(names)):
        return _by_name([str(value) for value in read.tolist()], names or ("False", "True"), ids, noun)
    if names is not None and all(_is_whole(name) for name in names):
        return _by_name([str(value) for value in read.tolist()], names, ids, noun)
    if names is not None:
        return by_place(read, names, ids=ids, noun=noun)
    found, labels = np.unique(read, return_inverse=True)
    return torch.from_numpy(labels.astype(np.int64)), tuple(str(value) for value in found.tolist())


def by_place(
    values: ArrayLike | Sequence[object],
    classes: Sequence[str],
    *,
    ids: Sequence[object] | None = None,
    noun: str = "row",
) -> Named:
    """Return labels that are places in ``classes``, whatever the classes are called.

    Examples:
        >>> by_place([0, 1], classes=["5", "1"])
        (tensor([0, 1]), ('5', '1'))
    """
    names = _class_names(classes) or ()
    read = _read(values, ids, noun)
    if isinstance(read, list):
        raise ValueError(f"labels must be places 0..{len(names) - 1} in the list of classes, but they are text.")
    numbers = read.astype(np.int64)
    outside = np.flatnonzero((numbers < 0) | (numbers >= len(names)) | (numbers != read))
    if len(outside):
        raise ValueError(f"labels lie outside 0..{len(names) - 1} in {_where(outside, ids, noun)}.")
    return torch.from_numpy(numbers), names


def in_order(values: Any) -> tuple[list[str | None], tuple[str, ...]] | None:
    """Return ordered categories (of pandas, or a polars Enum) as text, and the classes in their order; else None.

    Examples:
        >>> import polars as pl
        >>> in_order(pl.Series(["high", None, "low"], dtype=pl.Enum(["low", "middle", "high"])))
        (['high', None, 'low'], ('low', 'middle', 'high'))
        >>> in_order(["high", "low"])
    """
    kind: Any = getattr(values, "dtype", None)
    if type(kind).__name__ == "Enum":
        return values.to_list(), tuple(kind.categories.to_list())
    if getattr(kind, "ordered", None) is not True:
        return None
    names = tuple(str(name) for name in kind.categories)
    codes = (values.cat if hasattr(values, "cat") else values).codes  # a series, or the categories themselves
    words = [names[code] if code >= 0 else None for code in codes.tolist()]
    return (words, names) if len(set(names)) == len(names) else None


def is_missing(value: object) -> bool:
    """Return whether a label is none at all: None, NaN (of any library), or blank text.

    Examples:
        >>> [is_missing(value) for value in (None, float("nan"), " ", 0, "no")]
        [True, True, True, False, False]
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, str | bytes):
        return not value.strip()
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _read(values: object, ids: Sequence[object] | None, noun: str) -> list[str] | NDArray[np.generic]:
    """Return text as a list, and whole numbers or booleans as an array (N,)."""
    raw = values if isinstance(values, np.ndarray) else _plain(values)
    if raw.ndim != 1 or len(raw) == 0:
        raise ValueError(f"labels must be a list of one label per sample, got shape {raw.shape}.")
    if raw.dtype.kind not in "biuf":
        several = [
            value.decode(errors="backslashreplace") if isinstance(value, bytes) else value for value in raw.tolist()
        ]
        missing = [i for i, value in enumerate(several) if is_missing(value)]
        if missing:
            raise ValueError(_missing(missing, ids, noun))
        if all(isinstance(value, str) for value in several):
            return several
        raw = _one_type(several, ids, noun)
    return _whole(raw, ids, noun) if raw.dtype.kind == "f" else raw


def _plain(values: object) -> NDArray[np.generic]:
    """Keep each value's own type: NumPy alone would turn [1, "a"] into text without a word."""
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        return (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ValueError(f"labels must be a list of one label per sample, got {values!r:.80}.")
    several = list(values)
    array = np.empty(len(several), dtype=object)
    for i, value in enumerate(several):
        single = isinstance(value, np.generic | np.ndarray | Tensor) and value.ndim == 0
        array[i] = value.item() if single else value
    return array


def _text(value: object) -> object:
    """Return bytes as text, broken ones in a form that still tells them apart."""
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value


def _one_type(several: list[object], ids: Sequence[object] | None, noun: str) -> NDArray[np.generic]:
    """Return numbers or booleans, all of one kind; ``several`` holds no missing values and not text alone."""
    kinds = [_kind(value) for value in several]
    foreign = [i for i, kind in enumerate(kinds) if kind == "other"]
    if foreign:
        what = type(several[foreign[0]]).__name__
        raise ValueError(f"labels must be text or whole numbers, got {what} in {_where(foreign, ids, noun)}.")
    present = sorted(set(kinds), key=kinds.count)
    if len(present) > 1:
        few = [i for i, kind in enumerate(kinds) if kind == present[0]]
        mix = " and ".join(sorted(present, reverse=True))
        raise ValueError(f"labels mix {mix}: {present[0]} in {_where(few, ids, noun)}; write them all in one way.")
    array = np.array(several)
    if array.dtype.kind not in "biuf":
        raise ValueError("labels are whole numbers too large to count with: write them as text.")
    return array


def _kind(value: object) -> str:
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool | np.bool_):
        return "truth values"
    return "numbers" if isinstance(value, int | float | np.number) else "other"


def _whole(raw: NDArray[np.generic], ids: Sequence[object] | None, noun: str) -> NDArray[np.int64]:
    values = raw.astype(np.float64)
    missing = np.flatnonzero(np.isnan(values))
    if len(missing):
        raise ValueError(_missing(missing, ids, noun))
    broken = np.flatnonzero((values != np.floor(values)) | (np.abs(values) > _EXACT))
    if len(broken):
        where = _where(broken, ids, noun)
        raise ValueError(f"labels must name classes, but there are fractions or huge numbers in {where}.")
    return values.astype(np.int64)


def _by_name(
    words: Sequence[str], classes: Sequence[str], ids: Sequence[object] | None, noun: str
) -> tuple[Tensor, tuple[str, ...]]:
    place = {name: number for number, name in enumerate(classes)}
    unknown = [i for i, word in enumerate(words) if word not in place]
    if unknown:
        shown = format_list([f"{ids[i] if ids is not None else i}: {words[i]}" for i in unknown], noun)
        which = f"none of the {len(classes)} classes" if len(classes) > 1 else f"not {classes[0]!r}, the only class,"
        raise ValueError(f"labels are {which} in {shown}.")
    return torch.tensor([place[word] for word in words], dtype=torch.int64), tuple(classes)


def _class_names(classes: Sequence[str] | None) -> tuple[str, ...] | None:
    if classes is None:
        return None
    if isinstance(classes, str):
        raise ValueError(f"classes must be a list of names, got the text {classes!r:.80}.")
    names = tuple(str(name) for name in classes)
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"every class needs a name of its own; named more than once: {format_list(twice, 'class')}.")
    if not names:
        raise ValueError("classes must be a list of names, got an empty one.")
    return names


def _is_whole(name: str) -> bool:
    return name.removeprefix("-").isdecimal()


def _missing(rows: Sequence[int] | NDArray[np.intp], ids: Sequence[object] | None, noun: str) -> str:
    return f"labels are missing in {_where(rows, ids, noun)}: fill them in or leave those {noun}s out."


def _where(rows: Sequence[int] | NDArray[np.intp], ids: Sequence[object] | None, noun: str) -> str:
    return format_list([int(i) if ids is None else ids[int(i)] for i in rows], noun)
