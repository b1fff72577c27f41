"""Parquet, NumPy and safetensors files with new labels; other columns and arrays are preserved, nothing is pickled."""

import json
import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from permll.cleaning.apply.corrections import LABEL_SOURCES
from permll.cleaning.apply.label_columns import LABEL, ORIGINAL, SOURCE, Changes, label_columns
from permll.cleaning.source import Source
from permll.data.readers.arrays import FEATURE_NAMES, open_arrays
from permll.utils.messages import install_hint

_POLARS_ENUM = b"_PL_ENUM_VALUES2"


def write_parquet(source: Source, changes: Changes, out: Path) -> None:
    """Write the table with new labels and history columns; types, categories and metadata, as of pandas, are kept."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ImportError(f"writing Parquet needs pyarrow: {install_hint('table')}") from None
    table = pq.read_table(source.path).unify_dictionaries()
    columns = label_columns(
        source,
        changes,
        table.column_names,
        lambda name: table[name].to_pylist(),
        to_text=lambda word: "" if word is None else str(word),
    )
    name = source.label_column or LABEL
    like = pa.chunked_array([pa.array(source.labels)]) if source.label_column is None else table[name]
    table = table.take(changes.kept_rows)
    for column, values in columns.items():
        if column == SOURCE:
            array = pa.array(values, pa.string())
        else:
            array = _array_like(table[column] if column in table.column_names else like, values)
        position = table.schema.get_field_index(column)
        model = column if position >= 0 else name
        known = table.schema.field(model).metadata if model in table.column_names and column != SOURCE else None
        field = pa.field(column, array.type, metadata=_with_categories(known or {}, array))
        table = table.append_column(field, array) if position < 0 else table.set_column(position, field, array)
    metadata = {**(pq.read_metadata(source.path).metadata or {}), **(table.schema.metadata or {})}
    metadata.pop(b"ARROW:schema", None)  # of the old columns
    pq.write_table(table.replace_schema_metadata(_with_history(metadata, name)), out)


def _array_like(column: Any, values: list[Any]) -> Any:
    """Return values as an array of the type of a column, with its categories in their order."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        return _in_range(lambda values, dtype: pa.array(values, dtype), values, column.type)
    known = column.chunk(0).dictionary
    position = {value: k for k, value in enumerate(dict.fromkeys([*known.to_pylist(), *filter(None, values)]))}
    codes = pa.array([None if value is None else position[value] for value in values], column.type.index_type)
    return pa.DictionaryArray.from_arrays(codes, pa.array(list(position), known.type), ordered=column.type.ordered)


def _with_categories(metadata: dict[bytes, bytes], array: Any) -> dict[bytes, bytes]:
    """Return the metadata of a column with the categories of an array, by which polars reads an enumeration."""
    if _POLARS_ENUM not in metadata:
        return metadata
    names = (name.encode() for name in array.dictionary.to_pylist())
    return {**metadata, _POLARS_ENUM: b"".join(b"%d;%b" % (len(name), name) for name in names)}


def _with_history(metadata: dict[bytes, bytes], label: str) -> dict[bytes, bytes]:
    """Return the metadata of a file in which pandas reads ``label_original`` with the type of the labels."""
    if b"pandas" in metadata:
        saved = json.loads(metadata[b"pandas"])
        known = {column["name"]: column for column in saved["columns"]}
        if label in known and ORIGINAL not in known:
            saved["columns"].append({**known[label], "name": ORIGINAL, "field_name": ORIGINAL})
        metadata[b"pandas"] = json.dumps(saved).encode()
    return metadata


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
    except (OverflowError, RuntimeError, TypeError, ValueError):  # of NumPy, PyTorch and pyarrow
        raise ValueError(f"a new class does not fit the labels, which are {dtype}: choose another number.") from None


def _member(like: zipfile.ZipInfo, name: str) -> zipfile.ZipInfo:
    """Return a new archive member with the date, attributes and compression of another."""
    info = zipfile.ZipInfo(name, like.date_time)
    info.compress_type, info.external_attr = like.compress_type, like.external_attr
    return info
