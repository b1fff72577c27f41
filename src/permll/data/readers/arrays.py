"""Reader of arrays: in memory, or by name in .npz, .npy and .safetensors files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from permll.data.inputs import Images, Inputs, LazyImages, Texts, Vectors
from permll.data.labels import RowRefs, to_list
from permll.data.readers.annotations import RawAnswers, array_answers
from permll.data.readers.gold import gold_mask, reviewed_mask
from permll.data.readers.groups import group_names
from permll.data.readers.image_files import ItemOpener, are_image_paths, image_files, is_image
from permll.data.readers.options import ReadOptions
from permll.data.readers.raw_data import APPLY_COLUMNS, RawData, default_ids
from permll.utils.messages import did_you_mean, format_list

Array = NDArray[Any]
FEATURE_NAMES = ("x", "X", "features", "data", "embeddings")
LABEL_NAMES = ("y", "labels", "label", "targets")
ROUNDED = "values in [0, 1] were multiplied by 255 and rounded to pixels"
_CHANNELS = (1, 3)
_TOLERANCE = 1e-6  # of resizing in float32


def read_arrays(arrays: Mapping[str, Any], options: ReadOptions, where: str, metadata: dict[str, Any]) -> RawData:
    """Read named arrays: features or texts, labels, and optionally ids and class names."""
    options.reject("image", source="arrays")
    options.reject_both()
    if options.features is not None and len(options.features) > 1:
        raise ValueError(f"{where} must be read with one feature array, got features={list(options.features)}.")
    feature = options.text or (
        options.features[0] if options.features else _default_name(arrays, FEATURE_NAMES, "features", where)
    )
    inputs, input_metadata = to_inputs(get_array(arrays, feature, where), feature)
    label = options.label
    if label is None and options.labels is None and not options.has_annotators:
        label = _default_name(arrays, LABEL_NAMES, "label", where)
    values = None if label is None else get_array(arrays, label, where)
    names = _to_strings(get_array(arrays, options.classes, where)) if isinstance(options.classes, str) else None
    ids = default_ids(len(inputs)) if options.id is None else _to_strings(get_array(arrays, options.id, where))
    metadata = {**metadata, **input_metadata, "features": feature, "label": label or "given with labels="}
    column = options.groups_column
    return RawData(
        inputs,
        values,
        ids,
        metadata,
        names,
        gold=_gold(arrays, options, where, ids),
        answers=_answers(arrays, options, where),
        groups=column and group_names(to_list(get_array(arrays, column, where)), RowRefs(ids)),
    )


def _answers(arrays: Mapping[str, Any], options: ReadOptions, where: str) -> RawAnswers | None:
    if options.annotators is None:
        return None
    if len(options.annotators) > 1:
        raise ValueError(f"{where} must hold the answers in one array, got annotators={list(options.annotators)}.")
    return array_answers(get_array(arrays, options.annotators[0], where))


def _gold(arrays: Mapping[str, Any], options: ReadOptions, where: str, ids: Sequence[str]) -> list[bool] | None:
    if options.gold_column is not None:
        return gold_mask(to_list(get_array(arrays, options.gold_column, where)), RowRefs(ids))
    if all(name in arrays for name in APPLY_COLUMNS):
        return reviewed_mask(to_list(arrays[APPLY_COLUMNS[1]]))
    return None


def read_array(values: Any, options: ReadOptions, metadata: dict[str, Any]) -> RawData:
    """Read one array, tensor or list of samples, with its labels in ``options``."""
    options.reject("label", "text", "image", "features", "id", source="a single array or list: use labels= and ids=")
    if options.labels is None and options.annotations is None:
        raise ValueError("an array or list needs labels: give them with labels=.")
    metadata = {**metadata, "label": "given with labels="}
    if are_image_paths(values):
        names = [str(path) for path in values]
        return RawData(image_files(Path.cwd(), names), None, names, {**metadata, "kind": "images"}, noun="image")
    inputs, input_metadata = to_inputs(values, "the data")
    return RawData(inputs, None, default_ids(len(inputs)), {**metadata, **input_metadata})


@contextmanager
def open_arrays(path: Path) -> Iterator[Mapping[str, Any]]:
    """Open the arrays of a file by name, without executing code; those of .npz are read on access."""
    with path.open("rb") as file:
        try:
            if path.suffix.lower() == ".safetensors":
                from safetensors.torch import load_file

                arrays: Any = load_file(path)
            else:
                arrays = np.load(file, allow_pickle=False)
        except Exception as error:  # each format raises its own errors
            if "allow_pickle" in str(error):
                raise ValueError(_pickled_message(str(path))) from None
            raise ValueError(f"{path} cannot be read as {path.suffix.lower()}: {error}.") from None
        yield {path.stem: arrays} if isinstance(arrays, np.ndarray) else arrays


def to_inputs(values: Any, name: str) -> tuple[Inputs, dict[str, Any]]:
    """Return an array as texts, images or vectors, and its metadata.

    Examples:
        >>> to_inputs(np.zeros((5, 28, 28), np.uint8), "x")
        (Images of 1 x 28 x 28, {'kind': 'images'})
        >>> to_inputs([[1, 2], [3, 4]], "x")
        (Vectors of 2, {'kind': 'vectors'})
        >>> to_inputs(["some", "words"], "x")
        (Texts, {'kind': 'texts'})
    """
    if isinstance(values, list | tuple) and values and all(is_image(value) for value in values):
        return LazyImages(ItemOpener(values), torch.arange(len(values))), {"kind": "images"}
    array = _to_array(values, name)
    if array.ndim == 0 or array.size == 0:
        raise ValueError(f"{name} is empty: its shape is {array.shape}.")
    if array.dtype.kind in "US":
        if array.ndim != 1:
            raise ValueError(f"{name} must hold one text per sample, got shape {array.shape}.")
        return Texts(tuple(_to_strings(array))), {"kind": "texts"}
    if array.dtype == np.uint8 and array.ndim in (3, 4):
        return from_uint8(array, name), {"kind": "images"}
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold numbers or text, got {array.dtype}.")
    if has_image_shape(array):
        return from_fractions(array, name), {"kind": "images", "assumed": [ROUNDED]}
    return Vectors(torch.from_numpy(to_finite_float32(array.reshape(len(array), -1), name))), {"kind": "vectors"}


def to_finite_float32(array: Array, name: str, row_refs: RowRefs | None = None) -> NDArray[np.float32]:
    """Return numbers (N, F) as float32; raise if one is not finite."""
    with np.errstate(over="ignore"):
        vectors = array.astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(vectors).all(1)).tolist()
    if bad:
        rows = (row_refs or RowRefs(range(len(array)))).format_list(bad)
        what = "values too large for float32" if np.isfinite(array[bad].astype(np.float64)).all() else "NaN or infinity"
        raise ValueError(f"{name} holds {what} in {rows}: correct or remove those rows.")
    return np.ascontiguousarray(vectors)


def has_image_shape(array: Array | Tensor) -> bool:
    """Return whether an array is (N, H, W, C) or (N, C, H, W) with one or three channels.

    Examples:
        >>> has_image_shape(np.zeros((5, 3, 8, 8))), has_image_shape(np.zeros((5, 8, 8)))
        (True, False)
    """
    return array.ndim == 4 and (array.shape[1] in _CHANNELS or array.shape[3] in _CHANNELS)


def from_uint8(array: Array, name: str) -> Images:
    """Return uint8 (N, H, W), or with channels first or last, as images."""
    if array.ndim == 4 and not has_image_shape(array):
        raise ValueError(f"{name} must be images of 1 or 3 channels, channels first or last, got shape {array.shape}.")
    if array.ndim == 3:
        array = array[:, None]
    elif array.shape[3] in _CHANNELS:
        array = array.transpose(0, 3, 1, 2)
    return Images(torch.from_numpy(np.require(array, requirements=["C", "W"])))


def from_fractions(array: Array, name: str) -> Images:
    """Return floats in [0, 1] with the shape of images as images.

    Examples:
        >>> from_fractions(np.full((2, 1, 4, 4), 0.5), "x").pixels.unique()
        tensor([128], dtype=torch.uint8)
    """
    bad = np.flatnonzero(~np.isfinite(array).all((1, 2, 3))).tolist()
    if bad:
        raise ValueError(f"{name} holds NaN or infinity in {format_list(bad, 'row')}: correct or remove those rows.")
    low, high = float(array.min()), float(array.max())
    if array.dtype.kind != "f" or low < -_TOLERANCE or high > 1 + _TOLERANCE:
        raise ValueError(
            f"{name} has the shape of images, {array.shape}, but holds {array.dtype} from {low:.4g} to {high:.4g}: "
            "give uint8 or floats in [0, 1], or flatten it to (N, F) for vectors."
        )
    pixels = np.empty(array.shape, np.uint8)
    for row, image in enumerate(array):  # one at a time: a float32 copy of all may not fit in memory
        np.rint(image.astype(np.float32) * 255, out=pixels[row], casting="unsafe")
    return from_uint8(pixels, name)


def _to_array(values: Any, name: str) -> Array:
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        return (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    if isinstance(values, np.ndarray):
        array = values
    elif isinstance(values, Iterable) and not isinstance(values, str | bytes):
        entries = [_to_array(value, name) if isinstance(value, Tensor) else value for value in values]
        num_texts = sum(isinstance(value, str) for value in entries)
        if 0 < num_texts < len(entries):  # NumPy would convert all of them to text
            raise ValueError(f"{name} mixes text and numbers: give a table, or only texts.")
        try:
            array = np.array(entries)
        except ValueError:
            raise ValueError(f"{name} has rows of different lengths: every sample needs the same features.") from None
    else:
        raise ValueError(f"{name} must be an array, got {type(values).__name__}.")
    if array.dtype.kind == "O":
        raise ValueError(f"{name} is an array of Python objects: convert it to numbers or text (dtype str).")
    return array


def get_array(arrays: Mapping[str, Any], name: str, where: str) -> Array:
    """Return an array of a file or a dict by name."""
    if name not in arrays:
        raise ValueError(
            f"{where} has no array {name!r}{did_you_mean(name, arrays) or '.'} It has {_format_shapes(arrays)}."
        )
    try:
        return _to_array(arrays[name], name)
    except ValueError as error:
        if "allow_pickle" in str(error):
            raise ValueError(_pickled_message(f"{name} in {where}")) from None
        raise


def _default_name(arrays: Mapping[str, Any], candidates: Sequence[str], keyword: str, where: str) -> str:
    matches = [name for name in candidates if name in arrays]
    if len(matches) != 1:
        why = f"several could be the {keyword}" if matches else f"none is named {', '.join(candidates)}"
        raise ValueError(f"{where} has {_format_shapes(arrays)}; {why}: choose one with {keyword}=.")
    return matches[0]


def _format_shapes(arrays: Mapping[str, Any]) -> str:
    shapes = []
    for name in arrays:
        try:
            array = arrays[name]
        except ValueError:
            shapes.append(f"{name} of Python objects")
            continue
        shape = f"({type(array).__name__})"
        if hasattr(array, "shape"):
            shape = f"{' x '.join(map(str, array.shape)) or 'scalar'} {str(array.dtype).removeprefix('torch.')}"
        shapes.append(f"{name} {shape}")
    return format_list(shapes, "array")


def _pickled_message(what: str) -> str:
    return f"{what} holds Python objects, which can run code when read: save it as numbers or text (dtype str)."


def _to_strings(array: Array) -> list[str]:
    return [word.decode(errors="replace") if isinstance(word, bytes) else str(word) for word in array.ravel().tolist()]
