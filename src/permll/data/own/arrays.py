"""Arrays: in memory, or by name in .npz, .npy and .safetensors files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from permll.data.inputs import Images, Inputs, LazyImages, Texts, Vectors
from permll.data.own.found import Asked, Found, row_numbers
from permll.data.own.images import OpenItem, is_image
from permll.data.problems import listed, nearest

Array = NDArray[Any]
FEATURE_NAMES = ("x", "X", "features", "data", "embeddings")
LABEL_NAMES = ("y", "labels", "label", "targets")


def find_arrays(arrays: Mapping[str, Any], asked: Asked, where: str, about: dict[str, Any]) -> Found:
    """Return what named arrays hold: the features or texts, the labels, and perhaps ids and class names."""
    asked.refuse("image", what="arrays")
    asked.choose_one("features", "text")
    asked.choose_one("label", "labels")
    asked.choose_one("id", "ids")
    if asked.features is not None and len(asked.features) > 1:
        raise ValueError(f"{where} is read one feature array at a time, got features={list(asked.features)}.")
    feature = asked.text or (
        asked.features[0] if asked.features else _default(arrays, FEATURE_NAMES, "features", where)
    )
    inputs = to_inputs(_get(arrays, feature, where), feature)
    label = asked.label
    if label is None and asked.labels is None:
        label = _default(arrays, LABEL_NAMES, "label", where)
    values = None if label is None else _get(arrays, label, where)
    names = _strings(_get(arrays, asked.classes, where)) if isinstance(asked.classes, str) else None
    ids = row_numbers(len(inputs)) if asked.id is None else _strings(_get(arrays, asked.id, where))
    about = {**about, "kind": _kind(inputs), "features": feature, "label": label or "given with labels="}
    return Found(inputs, values, ids, about, names)


def find_values(values: Any, asked: Asked, about: dict[str, Any]) -> Found:
    """Return samples that came without names: one array, tensor or list, with its labels beside it."""
    asked.refuse("label", "text", "image", "features", "id", what="a single array or list: give labels= and ids=")
    if asked.labels is None:
        raise ValueError("an array or list has no labels of its own: give them with labels=.")
    inputs = to_inputs(values, "the data")
    return Found(
        inputs, None, row_numbers(len(inputs)), {**about, "kind": _kind(inputs), "label": "given with labels="}
    )


@contextmanager
def open_arrays(path: Path) -> Iterator[Mapping[str, Any]]:
    """Open the arrays of a file by name; nothing in it is executed, and those of .npz wait until asked for."""
    with path.open("rb") as file:
        try:
            if path.suffix.lower() == ".safetensors":
                from safetensors.torch import load_file

                loaded: Any = load_file(path)
            else:
                loaded = np.load(file, allow_pickle=False)
        except Exception as broken:  # each format has errors of its own
            if "allow_pickle" in str(broken):
                raise ValueError(_pickled(str(path))) from None
            raise ValueError(f"{path} cannot be read as {path.suffix.lower()}: {broken}.") from None
        yield {path.stem: loaded} if isinstance(loaded, np.ndarray) else loaded


def to_inputs(values: Any, name: str) -> Inputs:
    """Return the kind of inputs that an array is: texts, images (uint8 with channels), or vectors.

    Examples:
        >>> to_inputs(np.zeros((5, 28, 28), np.uint8), "x")
        Images of 1 x 28 x 28
        >>> to_inputs([[1, 2], [3, 4]], "x")
        Vectors of 2
        >>> to_inputs(["some", "words"], "x")
        Texts
    """
    if isinstance(values, list | tuple) and values and all(is_image(value) for value in values):
        return LazyImages(OpenItem(values), torch.arange(len(values)))
    array = _array(values, name)
    if array.ndim == 0 or array.size == 0:
        raise ValueError(f"{name} is empty: its shape is {array.shape}.")
    if array.dtype.kind in "US":
        if array.ndim != 1:
            raise ValueError(f"{name} must hold one text per sample, got shape {array.shape}.")
        return Texts(tuple(_strings(array)))
    if array.dtype == np.uint8 and array.ndim in (3, 4):
        return Images(torch.from_numpy(np.require(_channels_first(array, name), requirements=["C", "W"])))
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold numbers or text, got {array.dtype}.")
    return Vectors(torch.from_numpy(finite(array.reshape(len(array), -1), name)))


def finite(array: Array, name: str, ids: Sequence[str] | None = None) -> NDArray[np.float32]:
    """Return numbers (N, F) as float32, every one of them finite."""
    with np.errstate(over="ignore"):
        vectors = array.astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(vectors).all(1))
    if len(bad):
        rows = listed([i if ids is None else ids[i] for i in bad.tolist()], "row")
        inside = array[bad].astype(np.float64)
        what = "values too large for float32" if np.isfinite(inside).all() else "NaN or infinity"
        raise ValueError(f"{name} holds {what} in {rows}: mend or leave out those rows.")
    return np.ascontiguousarray(vectors)


def _channels_first(array: Array, name: str) -> Array:
    if array.ndim == 3:
        return array[:, None]
    if array.shape[3] in (1, 3):
        return array.transpose(0, 3, 1, 2)
    if array.shape[1] in (1, 3):
        return array
    raise ValueError(f"{name} must be images of 1 or 3 channels, channels first or last, got shape {array.shape}.")


def _array(values: Any, name: str) -> Array:
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        return (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    if isinstance(values, np.ndarray):
        array = values
    elif isinstance(values, Iterable) and not isinstance(values, str | bytes):
        several = [_array(value, name) if isinstance(value, Tensor) else value for value in values]
        words = sum(isinstance(value, str) for value in several)
        if 0 < words < len(several):  # NumPy would turn all of them into text
            raise ValueError(f"{name} mixes text and numbers: give a table, or texts alone.")
        try:
            array = np.array(several)
        except ValueError:
            raise ValueError(f"{name} holds rows of different lengths: every sample needs the same features.") from None
    else:
        raise ValueError(f"{name} must be an array, got {type(values).__name__}.")
    if array.dtype.kind == "O":
        raise ValueError(f"{name} is an array of Python objects: make it one of numbers or of text (dtype str).")
    return array


def _get(arrays: Mapping[str, Any], name: str, where: str) -> Array:
    if name not in arrays:
        raise ValueError(f"{where} has no array {name!r}{nearest(name, arrays) or '.'} It holds {_shapes(arrays)}.")
    try:
        return _array(arrays[name], name)
    except ValueError as broken:
        if "allow_pickle" in str(broken):
            raise ValueError(_pickled(f"{name} in {where}")) from None
        raise


def _default(arrays: Mapping[str, Any], usual: Sequence[str], keyword: str, where: str) -> str:
    there = [name for name in usual if name in arrays]
    if len(there) != 1:
        why = f"several could be the {keyword}" if there else f"none is named {', '.join(usual)}"
        raise ValueError(f"{where} holds {_shapes(arrays)}; {why}: choose one with {keyword}=.")
    return there[0]


def _shapes(arrays: Mapping[str, Any]) -> str:
    return listed([f"{name} {_shape(arrays, name)}" for name in arrays], "array")


def _shape(arrays: Mapping[str, Any], name: str) -> str:
    try:
        array = arrays[name]
    except ValueError:
        return "of Python objects"
    if not hasattr(array, "shape"):
        return f"({type(array).__name__})"
    return f"{' x '.join(map(str, array.shape)) or 'single'} {str(array.dtype).removeprefix('torch.')}"


def _pickled(what: str) -> str:
    return f"{what} holds Python objects, which could run code when read: save it as numbers or as text (dtype str)."


def _strings(array: Array) -> list[str]:
    return [word.decode(errors="replace") if isinstance(word, bytes) else str(word) for word in array.ravel().tolist()]


def _kind(inputs: Inputs) -> str:
    return {"Images": "images", "LazyImages": "images", "Texts": "texts"}.get(type(inputs).__name__, "vectors")
