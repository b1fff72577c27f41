"""Parquet, NumPy and safetensors files with new labels; other columns and arrays are preserved, nothing is pickled."""

import shutil
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from permll.cleaning.apply.corrections import LABEL_SOURCES
from permll.cleaning.apply.label_columns import LABEL, ORIGINAL, SOURCE, Changes, label_columns
from permll.cleaning.source import Source
from permll.data.readers.arrays import FEATURE_NAMES, open_arrays


def write_parquet(source: Source, changes: Changes, out: Path) -> None:
    """Write the table with new labels and history columns; file metadata are preserved."""
    import polars as pl

    from permll.data.readers.tables import read_parquet

    frame = read_parquet(source.path)
    columns = label_columns(
        source,
        changes,
        frame.columns,
        lambda name: frame[name].to_list(),
        to_text=lambda word: "" if word is None else str(word),
    )
    name = source.label_column or LABEL
    dtype: Any = pl.Series(source.labels).dtype if source.label_column is None else frame.schema[name]
    if isinstance(dtype, pl.Enum):
        dtype = pl.Enum([*dtype.categories, *changes.new_classes(dtype.categories)])
    types: dict[str, Any] = {name: dtype, ORIGINAL: frame.schema.get(ORIGINAL, dtype), SOURCE: pl.String}
    series = (_in_range(partial(pl.Series, name), values, types[name]) for name, values in columns.items())
    frame = frame[changes.kept_rows].with_columns(series)
    metadata = pl.read_parquet_metadata(source.path)
    frame.write_parquet(out, metadata={key: value for key, value in metadata.items() if key != "ARROW:schema"})


def write_npz(source: Source, changes: Changes, out: Path) -> None:
    """Write a .npz file with new labels and history arrays; other members and the compression are preserved.

    Arrays with one entry per sample lose those of dropped samples. The array of class names, if any, gets new classes.
    """
    with open_arrays(source.path) as arrays, zipfile.ZipFile(source.path) as old, zipfile.ZipFile(out, "w") as new:
        written = _label_arrays(source, changes, arrays) | _changed_arrays(source, changes, arrays)
        for info in old.infolist():
            if info.filename.removesuffix(".npy") not in written:
                with old.open(info) as member, new.open(_member(info, info.filename), "w", force_zip64=True) as target:
                    shutil.copyfileobj(member, target)
        for name, array in written.items():
            with new.open(_member(old.infolist()[0], f"{name}.npy"), "w", force_zip64=True) as target:
                np.lib.format.write_array(target, array, allow_pickle=False)


def write_npy(source: Source, changes: Changes, out: Path) -> None:
    """Write the array of a .npy file and its separate labels as one .npz file."""
    with open_arrays(source.path) as arrays:
        samples = np.asarray(arrays[source.path.stem])
        samples = samples[changes.kept_rows] if changes.dropped else samples
    with out.open("wb") as file:
        np.savez(file, allow_pickle=False, **{FEATURE_NAMES[0]: samples}, **_label_arrays(source, changes, {}))


def write_safetensors(source: Source, changes: Changes, out: Path) -> None:
    """Write a safetensors file with new labels and history tensors.

    Tensors cannot hold text, so ``label_source`` holds positions in ``LABEL_SOURCES``; the metadata list their names.
    Tensors with one entry per sample lose those of dropped samples.
    """
    import torch
    from safetensors import safe_open
    from safetensors.torch import save_file

    with safe_open(source.path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, the file is not a mapping
        metadata = dict(file.metadata() or {})

    columns = label_columns(
        source,
        changes,
        tensors,
        lambda name: tensors[name].tolist(),
        to_text=lambda k: LABEL_SOURCES[k] if k < len(LABEL_SOURCES) else str(k),
    )
    dtype = (torch.as_tensor(source.labels) if source.label_column is None else tensors[source.label_column]).dtype
    numbers = {str(name): k for k, name in enumerate(LABEL_SOURCES)}
    columns[SOURCE] = [numbers[name] for name in columns[SOURCE]]
    for name, tensor in tensors.items() if changes.dropped else ():
        if tensor.shape[:1] == (len(changes.sources),):
            tensors[name] = tensor[changes.kept_rows]
    for name, values in columns.items():
        tensors[name] = _in_range(torch.tensor, values, torch.uint8 if name == SOURCE else dtype)
    metadata[SOURCE] = ", ".join(f"{k} = {name}" for name, k in numbers.items())
    save_file(tensors, out, metadata=metadata)


def _label_arrays(source: Source, changes: Changes, arrays: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Return the label columns as arrays."""
    columns = label_columns(source, changes, arrays.keys(), lambda name: np.asarray(arrays[name]).tolist())
    labels = np.asarray(source.labels if source.label_column is None else arrays[source.label_column])
    if labels.dtype.kind == "O":
        raise ValueError(f"the labels passed with {source.path} mix types: use text only, or numbers only.")
    dtype = None if labels.dtype.kind in "US" else labels.dtype  # text arrays are as wide as their longest value
    return {name: _in_range(np.array, values, None if name == SOURCE else dtype) for name, values in columns.items()}


def _changed_arrays(source: Source, changes: Changes, arrays: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Return the other arrays that change: without dropped samples, and the class names with new classes."""
    changed = {}
    names = source.options.classes if isinstance(source.options.classes, str) else None
    if changes.dropped:
        others = ((name, np.asarray(arrays[name])) for name in arrays if name != names)
        labels = (source.label_column, ORIGINAL, SOURCE)
        changed = {
            name: array[changes.kept_rows]
            for name, array in others
            if name not in labels and array.shape[:1] == (len(changes.sources),)
        }
    new = changes.new_classes(source.classes)
    if names is not None and new:
        known = np.asarray(arrays[names])
        added = [name.encode() for name in new] if known.dtype.kind == "S" else new
        changed[names] = np.array([*known.tolist(), *added])
    return changed


def _in_range(make: Callable[..., Any], values: list[Any], dtype: Any) -> Any:
    """Return an array or a tensor of labels; one that does not fit the type is an error."""
    try:
        return make(values, dtype=dtype)
    except (OverflowError, RuntimeError, TypeError):  # of NumPy, PyTorch and polars
        raise ValueError(f"a new class does not fit the labels, which are {dtype}: choose another number.") from None


def _member(like: zipfile.ZipInfo, name: str) -> zipfile.ZipInfo:
    """Return a new archive member with the date, attributes and compression of another."""
    info = zipfile.ZipInfo(name, like.date_time)
    info.compress_type, info.external_attr = like.compress_type, like.external_attr
    return info
