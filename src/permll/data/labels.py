"""Encoding of labels: from text or numbers to class numbers 0..c-1 and class names."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from permll.utils.messages import format_list
from permll.utils.validation import check_class_labels

EncodedLabels = tuple[Tensor, tuple[str, ...]]
_MAX_EXACT_FLOAT = 2**53  # above it, float64 does not represent every integer


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
    labels = _to_text_or_integers(values, ids, noun)
    if isinstance(labels, list):
        return _encode_text(labels, names or sorted(set(labels)), ids, noun)
    if labels.dtype.kind == "b" and (names is None or {"True", "False"} >= set(names)):
        return _encode_text([str(value) for value in labels.tolist()], names or ("False", "True"), ids, noun)
    if names is not None and all(name.removeprefix("-").isdecimal() for name in names):
        return _encode_text([str(value) for value in labels.tolist()], names, ids, noun)
    if names is not None:
        return encode_class_numbers(labels, names, ids=ids, noun=noun)
    unique, encoded = np.unique(labels, return_inverse=True)
    return torch.from_numpy(encoded.astype(np.int64)), tuple(str(value) for value in unique.tolist())


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
    names = _check_class_names(classes) or ()
    labels = _to_text_or_integers(values, ids, noun)
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


def _to_text_or_integers(values: object, ids: Sequence[object] | None, noun: str) -> list[str] | NDArray[np.generic]:
    """Return text as a list, and integers or booleans as an array (N,)."""
    array = values if isinstance(values, np.ndarray) else _to_array(values)
    if array.ndim != 1 or len(array) == 0:
        raise ValueError(f"labels must be a list of one label per sample, got shape {array.shape}.")
    if array.dtype.kind not in "biuf":
        labels = [
            value.decode(errors="backslashreplace") if isinstance(value, bytes) else value for value in array.tolist()
        ]
        missing = [i for i, value in enumerate(labels) if is_missing(value)]
        if missing:
            raise ValueError(_missing_message(missing, ids, noun))
        if all(isinstance(value, str) for value in labels):
            return labels
        array = _to_one_type(labels, ids, noun)
    return _to_integers(array, ids, noun) if array.dtype.kind == "f" else array


def _to_array(values: object) -> NDArray[np.generic]:
    """Return an array in which each value keeps its type: NumPy alone would turn [1, "a"] into text."""
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        return (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ValueError(f"labels must be a list of one label per sample, got {values!r:.80}.")
    labels = list(values)
    array = np.empty(len(labels), dtype=object)
    for i, value in enumerate(labels):
        is_scalar = isinstance(value, np.generic | np.ndarray | Tensor) and value.ndim == 0
        array[i] = value.item() if is_scalar else value
    return array


def _to_one_type(labels: list[object], ids: Sequence[object] | None, noun: str) -> NDArray[np.generic]:
    """Return numbers or booleans as an array; ``labels`` has no missing values and is not all text."""
    types = [_type_name(value) for value in labels]
    unsupported = [i for i, name in enumerate(types) if name == "other"]
    if unsupported:
        type_ = type(labels[unsupported[0]]).__name__
        raise ValueError(f"labels must be text or integers, got {type_} in {_format_rows(unsupported, ids, noun)}.")
    present = sorted(set(types), key=types.count)
    if len(present) > 1:
        rarest = [i for i, name in enumerate(types) if name == present[0]]
        mix = " and ".join(sorted(present, reverse=True))
        where = _format_rows(rarest, ids, noun)
        raise ValueError(f"labels mix {mix}: {present[0]} in {where}; write all of them in one way.")
    array = np.array(labels)
    if array.dtype.kind not in "biuf":
        raise ValueError("labels are integers too large for 64 bits: write them as text.")
    return array


def _type_name(value: object) -> str:
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool | np.bool_):
        return "booleans"
    return "numbers" if isinstance(value, int | float | np.number) else "other"


def _to_integers(array: NDArray[np.generic], ids: Sequence[object] | None, noun: str) -> NDArray[np.int64]:
    values = array.astype(np.float64)
    missing = np.flatnonzero(np.isnan(values))
    if len(missing):
        raise ValueError(_missing_message(missing, ids, noun))
    bad = np.flatnonzero((values != np.floor(values)) | (np.abs(values) > _MAX_EXACT_FLOAT))
    if len(bad):
        raise ValueError(f"labels must be classes, got fractions or huge numbers in {_format_rows(bad, ids, noun)}.")
    return values.astype(np.int64)


def _encode_text(
    texts: Sequence[str], classes: Sequence[str], ids: Sequence[object] | None, noun: str
) -> EncodedLabels:
    numbers = {name: number for number, name in enumerate(classes)}
    unknown = [i for i, text in enumerate(texts) if text not in numbers]
    if unknown:
        rows = format_list([f"{ids[i] if ids is not None else i}: {texts[i]}" for i in unknown], noun)
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


def _missing_message(rows: Sequence[int] | NDArray[np.intp], ids: Sequence[object] | None, noun: str) -> str:
    return f"labels are missing in {_format_rows(rows, ids, noun)}: fill them in or remove those {noun}s."


def _format_rows(rows: Sequence[int] | NDArray[np.intp], ids: Sequence[object] | None, noun: str) -> str:
    return format_list([int(i) if ids is None else ids[int(i)] for i in rows], noun)
