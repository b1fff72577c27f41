"""Arrays: in memory, or by name in .npz, .npy and .safetensors files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from permll.data.inputs import Inputs, LazyImages, Texts, Vectors
from permll.data.readers.image_files import OpenItem, is_image
from permll.data.readers.image_paths import are_image_paths, image_files
from permll.data.readers.pixels import ROUNDED, from_bytes, from_fractions, looks_like_images
from permll.data.readers.types import RawData, ReadOptions, RowRefs, assumed, row_numbers
from permll.utils.messages import did_you_mean, format_list

Array = NDArray[Any]
FEATURE_NAMES = ("x", "X", "features", "data", "embeddings")
LABEL_NAMES = ("y", "labels", "label", "targets")


def find_arrays(arrays: Mapping[str, Any], asked: ReadOptions, where: str, metadata: dict[str, Any]) -> RawData:
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
    inputs, understood = to_inputs(_get(arrays, feature, where), feature)
    label = asked.label
    if label is None and asked.labels is None:
        label = _default(arrays, LABEL_NAMES, "label", where)
    values = None if label is None else _get(arrays, label, where)
    names = _strings(_get(arrays, asked.classes, where)) if isinstance(asked.classes, str) else None
    ids = row_numbers(len(inputs)) if asked.id is None else _strings(_get(arrays, asked.id, where))
    metadata = {**metadata, **understood, "features": feature, "label": label or "given with labels="}
    return RawData(inputs, values, ids, metadata, names)


def find_values(values: Any, asked: ReadOptions, metadata: dict[str, Any]) -> RawData:
    """Return samples that came without names: one array, tensor or list, with its labels beside it."""
    asked.refuse("label", "text", "image", "features", "id", what="a single array or list: give labels= and ids=")
    if asked.labels is None:
        raise ValueError("an array or list has no labels of its own: give them with labels=.")
    metadata = {**metadata, "label": "given with labels="}
    if are_image_paths(values):
        names = [str(path) for path in values]
        return RawData(image_files(Path.cwd(), names), None, names, {**metadata, "kind": "images"}, noun="image")
    inputs, understood = to_inputs(values, "the data")
    return RawData(inputs, None, row_numbers(len(inputs)), {**metadata, **understood})


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


def to_inputs(values: Any, name: str) -> tuple[Inputs, dict[str, Any]]:
    """Return the kind of inputs that an array is, texts, images or vectors, and what there is to say about it.

    Examples:
        >>> to_inputs(np.zeros((5, 28, 28), np.uint8), "x")
        (Images of 1 x 28 x 28, {'kind': 'images'})
        >>> to_inputs([[1, 2], [3, 4]], "x")
        (Vectors of 2, {'kind': 'vectors'})
        >>> to_inputs(["some", "words"], "x")
        (Texts, {'kind': 'texts'})
    """
    if isinstance(values, list | tuple) and values and all(is_image(value) for value in values):
        return LazyImages(OpenItem(values), torch.arange(len(values))), {"kind": "images"}
    array = _array(values, name)
    if array.ndim == 0 or array.size == 0:
        raise ValueError(f"{name} is empty: its shape is {array.shape}.")
    if array.dtype.kind in "US":
        if array.ndim != 1:
            raise ValueError(f"{name} must hold one text per sample, got shape {array.shape}.")
        return Texts(tuple(_strings(array))), {"kind": "texts"}
    if array.dtype == np.uint8 and array.ndim in (3, 4):
        return from_bytes(array, name), {"kind": "images"}
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold numbers or text, got {array.dtype}.")
    if looks_like_images(array):
        return from_fractions(array, name), assumed({"kind": "images"}, ROUNDED)
    return Vectors(torch.from_numpy(finite(array.reshape(len(array), -1), name))), {"kind": "vectors"}


def finite(array: Array, name: str, places: RowRefs | None = None) -> NDArray[np.float32]:
    """Return numbers (N, F) as float32, every one of them finite."""
    with np.errstate(over="ignore"):
        vectors = array.astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(vectors).all(1)).tolist()
    if bad:
        rows = (places or RowRefs(range(len(array)))).format_list(bad)
        what = "values too large for float32" if np.isfinite(array[bad].astype(np.float64)).all() else "NaN or infinity"
        raise ValueError(f"{name} holds {what} in {rows}: mend or leave out those rows.")
    return np.ascontiguousarray(vectors)


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
        raise ValueError(
            f"{where} has no array {name!r}{did_you_mean(name, arrays) or '.'} It holds {_shapes(arrays)}."
        )
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
    return format_list([f"{name} {_shape(arrays, name)}" for name in arrays], "array")


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
