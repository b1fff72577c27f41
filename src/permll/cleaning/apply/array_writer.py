"""NumPy and safetensors files with other labels: all other arrays stay as they are, and nothing is ever pickled."""

import shutil
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from permll.cleaning.apply.corrections import SOURCES
from permll.cleaning.apply.label_values import LABEL, has_marks, known_sources, marked, new_values
from permll.cleaning.apply.source import Source
from permll.data.readers.arrays import FEATURE_NAMES, open_arrays
from permll.data.readers.feature_columns import APPLY_COLUMNS

Array = NDArray[Any]


def write_npz(source: Source, changed: Mapping[int, str], sources: Sequence[str], out: Path) -> None:
    """Write the arrays of a .npz file again; those of no concern are copied as bytes, compressed if they were."""
    with open_arrays(source.path) as arrays, zipfile.ZipFile(source.path) as old:
        again = has_marks(list(arrays), str(source.path), source.column)
        labels = _labels(source) if source.column is None else np.asarray(arrays[source.column])
        earlier = tuple(np.asarray(arrays[mark]) for mark in APPLY_COLUMNS) if again else None
        new = _arrays(source, labels, changed, sources, earlier)
        with zipfile.ZipFile(out, "w") as file:
            for info in old.infolist():
                if info.filename.removesuffix(".npy") not in new:
                    with old.open(info) as was, file.open(_like(info), "w", force_zip64=True) as member:
                        shutil.copyfileobj(was, member)
            for name, array in new.items():
                info = zipfile.ZipInfo(f"{name}.npy")
                info.compress_type = old.infolist()[0].compress_type
                with file.open(info, "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)


def write_npy(source: Source, changed: Mapping[int, str], sources: Sequence[str], out: Path) -> None:
    """Write the array of a .npy file and its labels, which were beside it, together as .npz."""
    with open_arrays(source.path) as arrays:
        samples = np.asarray(arrays[source.path.stem])
    new = _arrays(source, _labels(source), changed, sources, None)
    with out.open("wb") as file:
        np.savez(file, allow_pickle=False, **{FEATURE_NAMES[0]: samples}, **new)


def write_safetensors(source: Source, changed: Mapping[int, str], sources: Sequence[str], out: Path) -> None:
    """Write the tensors again.

    Tensors hold no words, so ``label_source`` holds places in ``SOURCES``; a note in the file says which is which.
    """
    import torch
    from safetensors import safe_open
    from safetensors.torch import save_file

    with safe_open(source.path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, the file is no mapping
        about = dict(file.metadata() or {})
    again = has_marks(list(tensors), str(source.path), source.column)
    labels = torch.as_tensor(source.values) if source.column is None else tensors[source.column]
    earlier = None
    if again:
        words = [SOURCES[k] if k < len(SOURCES) else str(k) for k in tensors[APPLY_COLUMNS[1]].tolist()]
        earlier = tensors[APPLY_COLUMNS[0]].tolist(), known_sources(words, str(source.path))
    first, now = marked(labels.tolist(), sources, *(earlier or ()))
    tensors[source.column or LABEL] = torch.tensor(new_values(source, changed, labels.tolist()), dtype=labels.dtype)
    tensors[APPLY_COLUMNS[0]] = torch.tensor(first, dtype=labels.dtype)
    numbers = {str(word): number for number, word in enumerate(SOURCES)}
    tensors[APPLY_COLUMNS[1]] = torch.tensor([numbers[word] for word in now], dtype=torch.uint8)
    about[APPLY_COLUMNS[1]] = ", ".join(f"{number} = {word}" for word, number in numbers.items())
    save_file(tensors, out, metadata=about)


def _arrays(
    source: Source,
    labels: Array,
    changed: Mapping[int, str],
    sources: Sequence[str],
    earlier: tuple[Array, ...] | None,
) -> dict[str, Array]:
    """Return the new labels, what they were at the very first, and where they are from, by name."""
    before = labels.tolist()
    old: tuple[Any, ...] = ()
    if earlier is not None:
        old = earlier[0].tolist(), known_sources([str(word) for word in earlier[1].tolist()], str(source.path))
    first, words = marked(before, sources, *old)
    after = new_values(source, changed, before)
    return {
        source.column or LABEL: _like_array(after, labels),
        APPLY_COLUMNS[0]: _like_array(first, labels),
        APPLY_COLUMNS[1]: np.array(words),
    }


def _like_array(values: list[Any], labels: Array) -> Array:
    """Return values as the labels were kept; words as wide as the longest needs."""
    return np.array(values) if labels.dtype.kind in "US" else np.array(values, dtype=labels.dtype)


def _labels(source: Source) -> Array:
    labels = np.array(source.values)
    if labels.dtype.kind == "O":
        raise ValueError(f"the labels beside {source.path} are of several kinds: make them all text or all numbers.")
    return labels


def _like(info: zipfile.ZipInfo) -> zipfile.ZipInfo:
    new = zipfile.ZipInfo(info.filename, info.date_time)
    new.compress_type, new.external_attr = info.compress_type, info.external_attr
    return new
