"""Encoding of labels: from text or numbers to class numbers 0..c-1 and class names."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from permll.utils.messages import format_list
from permll.utils.validation import check_class_labels

EncodedLabels = tuple[Tensor, tuple[str, ...]]
_MAX_EXACT_FLOAT = 2**53  # above it, float64 does not represent every integer


@dataclass(frozen=True)
class RowRefs:
    """Names of the rows in error messages: ids, or line numbers of a file.

    Examples:
        >>> RowRefs([2, 3, 5], "line").format_list([0, 2])
        '2 lines (2, 5)'
    """

    names: Sequence[object]
    noun: str = "row"

    def format_list(self, rows: Sequence[int]) -> str:
        """Return the count and the first names of ``rows``."""
        return format_list([self.names[row] for row in rows], self.noun)

    def take(self, rows: Sequence[int]) -> "RowRefs":
        """Return the names at ``rows``."""
        return RowRefs([self.names[row] for row in rows], self.noun)


# Not sklearn's LabelEncoder: it turns [1, "a"] into text and cannot say which rows are wrong.
def encode_labels(
    values: ArrayLike | Sequence[object],
    classes: Sequence[str] | None = None,
    *,
    ids: Sequence[object] | None = None,
    noun: str = "row",
) -> EncodedLabels:
    """Return labels (N,) int64 in 0..c-1 and the c class names.

    Text is sorted by name; numbers are sorted by value and named by their digits; True and False are classes too.
    Numbers index the given ``classes``, unless those are numbers themselves: then each number is matched by name, so
    that the classes of one dataset also encode the next.

    Args:
        values: N labels of one type.
        classes: class names, in the order of their numbers.
        ids: N names of the samples in error messages; default their positions.
        noun: noun for one sample in error messages.

    Examples:
        >>> encode_labels(["dog", "cat", "dog"])
        (tensor([1, 0, 1]), ('cat', 'dog'))
        >>> encode_labels([5, 1, 5])
        (tensor([1, 0, 1]), ('1', '5'))
        >>> encode_labels([1, 0], classes=["no", "yes"])
        (tensor([1, 0]), ('no', 'yes'))
        >>> encode_labels([5, 1], classes=["1", "5"])
        (tensor([1, 0]), ('1', '5'))
    """
    names = _check_class_names(classes)
    if (
        names is None
        and isinstance(values, np.ndarray)
        and values.ndim == 1
        and values.dtype.kind in "iu"
        and values.size
    ):
        return _encode_integers(values)  # in milliseconds; a million Python integers take seconds
    values = to_list(values)
    refs = RowRefs(range(len(values)) if ids is None else ids, noun)
    labels = _to_text_or_integers(values, refs)
    if isinstance(labels, list):
        return _encode_text(labels, names or sorted(set(labels)), refs)
    texts = [str(value) for value in labels.tolist()]
    if labels.dtype.kind == "b" and (names is None or {"True", "False"} >= set(names)):
        return _encode_text(texts, names or ("False", "True"), refs)
    if names is not None and all(name.removeprefix("-").isdecimal() for name in names):
        return _encode_text(texts, names, refs)
    if names is not None:
        return encode_class_numbers(values, names, ids=ids, noun=noun)
    return _encode_integers(labels)


def encode_class_numbers(
    values: ArrayLike | Sequence[object],
    classes: Sequence[str],
    *,
    ids: Sequence[object] | None = None,
    noun: str = "row",
) -> EncodedLabels:
    """Return labels that index ``classes``, even if the class names are numbers.

    Examples:
        >>> encode_class_numbers([0, 1], classes=["5", "1"])
        (tensor([0, 1]), ('5', '1'))
    """
    names, values = _check_class_names(classes) or (), to_list(values)
    labels = _to_text_or_integers(values, RowRefs(range(len(values)) if ids is None else ids, noun))
    if isinstance(labels, list):
        raise ValueError(f"labels must be class numbers in 0..{len(names) - 1}, but they are text.")
    numbers = labels.astype(np.int64)  # uint64 above 2**63 becomes negative, so it is rejected
    check_class_labels(numbers, len(names), rows=ids, noun=noun, hint=f"they index the list of {len(names)} classes")
    return torch.from_numpy(numbers), names


def ordered_categories(values: Any) -> tuple[list[str | None], tuple[str, ...]] | None:
    """Return ordered categories (pandas, or a polars Enum) as text, and the classes in their order; otherwise None.

    Examples:
        >>> import polars as pl
        >>> ordered_categories(pl.Series(["high", None, "low"], dtype=pl.Enum(["low", "middle", "high"])))
        (['high', None, 'low'], ('low', 'middle', 'high'))
        >>> ordered_categories(["high", "low"])
    """
    dtype: Any = getattr(values, "dtype", None)
    if type(dtype).__name__ == "Enum":
        return values.to_list(), tuple(dtype.categories.to_list())
    if getattr(dtype, "ordered", None) is not True:
        return None
    names = tuple(str(name) for name in dtype.categories)
    codes = (values.cat if hasattr(values, "cat") else values).codes  # a series, or a Categorical
    texts = [names[code] if code >= 0 else None for code in codes.tolist()]
    return (texts, names) if len(set(names)) == len(names) else None


def is_missing(value: object) -> bool:
    """Return whether a label is missing: None, NaN (of any library), or blank text.

    Examples:
        >>> [is_missing(value) for value in (None, float("nan"), " ", 0, "no")]
        [True, True, True, False, False]
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, str | bytes):
        return not value.strip()
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def to_list(values: Any) -> list[Any]:
    """Return labels in any form as a list of Python values."""
    if isinstance(values, Tensor):
        values = values.detach().cpu()
    if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
        raise ValueError(f"labels must be a list of one label per sample, got {values!r:.80}.")
    if getattr(values, "ndim", 1) != 1:
        raise ValueError(f"labels must be a list of one label per sample, got shape {tuple(values.shape)}.")
    for method in ("tolist", "to_list"):  # the latter of polars
        if hasattr(values, method):
            return list(getattr(values, method)())
    return [value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value for value in values]


def _to_text_or_integers(values: list[Any], refs: RowRefs) -> list[str] | NDArray[np.generic]:
    """Return text as a list, and integers or booleans as an array (N,)."""
    labels = [value.decode(errors="backslashreplace") if isinstance(value, bytes) else value for value in values]
    if not labels:
        raise ValueError("labels must be a list of one label per sample, got shape (0,).")
    missing = [i for i, value in enumerate(labels) if is_missing(value)]
    if missing:
        where = refs.format_list(missing)
        raise ValueError(f"labels are missing in {where}: fill them in or remove those {refs.noun}s.")
    kinds = [_kind(value) for value in labels]
    if "other" in kinds:
        bad = [i for i, kind in enumerate(kinds) if kind == "other"]
        name = type(labels[bad[0]]).__name__
        raise ValueError(f"labels must be text or integers, got {name} in {refs.format_list(bad)}.")
    present = sorted(set(kinds), key=kinds.count)
    if len(present) > 1:
        rarest = refs.format_list([i for i, kind in enumerate(kinds) if kind == present[0]])
        mix = " and ".join(sorted(present, reverse=True))
        raise ValueError(f"labels mix {mix}: {present[0]} in {rarest}; write all of them in one way.")
    if present == ["text"]:
        return labels
    array = np.array(labels)
    if array.dtype.kind not in "biuf":
        raise ValueError("labels are integers too large for 64 bits: write them as text.")
    if array.dtype.kind == "f":
        bad = np.flatnonzero((array != np.floor(array)) | (np.abs(array) > _MAX_EXACT_FLOAT)).tolist()
        if bad:
            raise ValueError(f"labels must be classes, got fractions or huge numbers in {refs.format_list(bad)}.")
        array = array.astype(np.int64)
    return array


def _encode_integers(labels: NDArray[Any]) -> EncodedLabels:
    """Return the positions of integers (N,) among their sorted values, and these values as text."""
    low, high = int(labels.min()), int(labels.max())
    if high - low <= len(labels) and high < 2**63:  # then counting is faster than sorting
        offsets = labels.astype(np.int64) - low  # in eight bits the difference could overflow
        is_present = np.bincount(offsets) > 0
        unique, encoded = np.flatnonzero(is_present) + low, (is_present.cumsum() - 1)[offsets]
    else:
        unique, encoded = np.unique(labels, return_inverse=True)
    return torch.from_numpy(encoded.astype(np.int64, copy=False)), tuple(str(value) for value in unique.tolist())


def _kind(value: object) -> str:
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool):
        return "booleans"
    return "numbers" if isinstance(value, int | float) else "other"


def _encode_text(texts: Sequence[str], classes: Sequence[str], refs: RowRefs) -> EncodedLabels:
    numbers = {name: number for number, name in enumerate(classes)}
    unknown = [i for i, text in enumerate(texts) if text not in numbers]
    if unknown:
        rows = format_list([f"{refs.names[i]}: {texts[i]}" for i in unknown], refs.noun)
        allowed = f"one of the {len(classes)} classes" if len(classes) > 1 else f"{classes[0]!r}, the only class"
        raise ValueError(f"labels must be {allowed}; unknown labels in {rows}.")
    return torch.tensor([numbers[text] for text in texts], dtype=torch.int64), tuple(classes)


def _check_class_names(classes: Sequence[str] | None) -> tuple[str, ...] | None:
    if classes is None:
        return None
    if isinstance(classes, str):
        raise ValueError(f"classes must be a list of names, got the text {classes!r:.80}.")
    names = tuple(str(name) for name in classes)
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(f"class names must be unique; repeated: {format_list(repeated, 'class')}.")
    if not names:
        raise ValueError("classes must be a list of names, got an empty list.")
    return names


def similar_names(classes: Sequence[str]) -> list[list[int]]:
    """Return groups of classes whose names differ only in case or spaces.

    Examples:
        >>> similar_names(["cat", "dog", " Cat"])
        [[0, 2]]
    """
    groups = defaultdict(list)
    for k, name in enumerate(classes):
        groups[fold_name(name)].append(k)
    return [group for group in groups.values() if len(group) > 1]


def fold_name(name: str) -> str:
    """Return a class name without differences of case and spaces.

    Examples:
        >>> fold_name(" Big  Cat")
        'big cat'
    """
    return " ".join(name.casefold().split())
