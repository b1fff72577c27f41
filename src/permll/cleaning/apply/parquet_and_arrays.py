"""Parquet, NumPy and safetensors files with new labels; other columns and arrays are preserved, nothing is pickled."""

import json
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from permll.cleaning.apply.corrections import LABEL_SOURCES
from permll.cleaning.apply.label_columns import LABEL, ORIGINAL, SOURCE, Changes, label_columns
from permll.cleaning.source import Source
from permll.data.readers.arrays import FEATURE_NAMES, open_arrays
from permll.utils.messages import install_hint


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
    for column, values in columns.items():
        if column == SOURCE:
            array = pa.array(values, pa.string())
        else:
            array = _array_like(table[column] if column in table.column_names else like, values)
        position = table.schema.get_field_index(column)
        if position < 0:
            table = table.append_column(column, array)
        else:
            table = table.set_column(position, table.schema.field(position).with_type(array.type), array)
    metadata = {**(pq.read_metadata(source.path).metadata or {}), **(table.schema.metadata or {})}
    metadata.pop(b"ARROW:schema", None)  # of the old columns
    pq.write_table(table.replace_schema_metadata(_with_history(metadata, name)), out)


def _array_like(column: Any, values: list[Any]) -> Any:
    """Return values as an array of the type of a column, with its categories in their order."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        return pa.array(values, column.type)
    dictionary = column.chunk(0).dictionary
    position = {value: k for k, value in enumerate(dictionary.to_pylist())}
    codes = pa.array([None if value is None else position[value] for value in values], column.type.index_type)
    return pa.DictionaryArray.from_arrays(codes, dictionary, ordered=column.type.ordered)


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
    """Write a .npz file with new labels and history arrays; other members and the compression are preserved."""
    with open_arrays(source.path) as arrays, zipfile.ZipFile(source.path) as old, zipfile.ZipFile(out, "w") as new:
        labels = _label_arrays(source, changes, arrays)
        for info in old.infolist():
            if info.filename.removesuffix(".npy") not in labels:
                with old.open(info) as member, new.open(_member(info, info.filename), "w", force_zip64=True) as target:
                    shutil.copyfileobj(member, target)
        for name, array in labels.items():
            with new.open(_member(old.infolist()[0], f"{name}.npy"), "w", force_zip64=True) as target:
                np.lib.format.write_array(target, array, allow_pickle=False)


def write_npy(source: Source, changes: Changes, out: Path) -> None:
    """Write the array of a .npy file and its separate labels as one .npz file."""
    with open_arrays(source.path) as arrays:
        samples = np.asarray(arrays[source.path.stem])
    with out.open("wb") as file:
        np.savez(file, allow_pickle=False, **{FEATURE_NAMES[0]: samples}, **_label_arrays(source, changes, {}))


def write_safetensors(source: Source, changes: Changes, out: Path) -> None:
    """Write a safetensors file with new labels and history tensors.

    Tensors cannot hold text, so ``label_source`` holds positions in ``LABEL_SOURCES``; the metadata list their names.
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
    for name, values in columns.items():
        tensors[name] = torch.tensor(values, dtype=torch.uint8 if name == SOURCE else dtype)
    metadata[SOURCE] = ", ".join(f"{k} = {name}" for name, k in numbers.items())
    save_file(tensors, out, metadata=metadata)


def _label_arrays(source: Source, changes: Changes, arrays: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Return the label columns as arrays."""
    columns = label_columns(source, changes, arrays.keys(), lambda name: np.asarray(arrays[name]).tolist())
    labels = np.asarray(source.labels if source.label_column is None else arrays[source.label_column])
    if labels.dtype.kind == "O":
        raise ValueError(f"the labels passed with {source.path} mix types: use text only, or numbers only.")
    dtype = None if labels.dtype.kind in "US" else labels.dtype  # text arrays are as wide as their longest value
    return {name: np.array(values, None if name == SOURCE else dtype) for name, values in columns.items()}


def _member(like: zipfile.ZipInfo, name: str) -> zipfile.ZipInfo:
    """Return a new archive member with the date, attributes and compression of another."""
    info = zipfile.ZipInfo(name, like.date_time)
    info.compress_type, info.external_attr = like.compress_type, like.external_attr
    return info
