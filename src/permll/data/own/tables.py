"""Tables: CSV, TSV and Parquet files, and polars or pandas frames, by the names of their columns."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from permll.data.decoding import OpenFile
from permll.data.inputs import Inputs, LazyImages, Table, Texts, Vectors
from permll.data.own.arrays import finite
from permll.data.own.cells import label_values, typed
from permll.data.own.columns import to_features
from permll.data.own.csv_files import Cells, read_csv
from permll.data.own.found import Asked, Found, row_numbers
from permll.data.problems import listed, nearest

if TYPE_CHECKING:
    import polars as pl

LABEL_NAMES = ("label", "labels", "class", "target")  # and y, but Y may be a coordinate


def find_file(path: Path, asked: Asked, about: dict[str, Any]) -> Found:
    """Return what a table in a file holds."""
    need_polars()
    if path.suffix.lower() == ".parquet":
        return find_frame(_read_parquet(path), asked, about, where=str(path), root=path.absolute().parent)
    cells = read_csv(path)
    about = {**about, "separator": cells.separator}
    return find_frame(cells.frame, asked, about, where=str(path), root=path.absolute().parent, cells=cells)


def find_frame(
    frame: "pl.DataFrame",
    asked: Asked,
    about: dict[str, Any],
    *,
    where: str,
    root: Path | None = None,
    ids: Sequence[str] | None = None,
    cells: Cells | None = None,
) -> Found:
    """Return what a frame holds; ``cells`` says that its columns are still text, ``root`` where image paths start."""
    asked.choose_one("text", "image", "features")
    asked.choose_one("label", "labels")
    asked.choose_one("id", "ids")
    if len(frame) == 0:
        raise ValueError(f"{where} has no rows.")
    label = _label(frame, asked, where)
    names = row_numbers(len(frame)) if ids is None else ids
    if asked.id is not None:
        names = _id_column(_column(frame, asked.id, where))
    values = None
    if label is not None:
        column = _column(frame, label, where)
        values = label_values(column) if cells else column.to_list()
    about = {**about, "label": label or "given with labels="}
    if asked.image is not None:
        images, paths = _image_column(_column(frame, asked.image, where), root or Path(), names)
        names = paths if asked.id is None and asked.ids is None else names
        return Found(images, values, names, {**about, "kind": "images", "image": asked.image})
    if asked.text is not None:
        texts = _text_column(_column(frame, asked.text, where), names)
        return Found(texts, values, names, {**about, "kind": "texts", "text": asked.text})
    inputs, understood = _features(frame, asked, label, names, where, cells)
    return Found(inputs, values, names, {**about, **understood})


def need_polars() -> None:
    """Say how to get polars if it is missing."""
    try:
        import polars  # noqa: F401
    except ImportError:
        raise ImportError("tables need polars: pip install 'permll[table]'") from None


def _features(
    frame: "pl.DataFrame", asked: Asked, label: str | None, ids: Sequence[str], where: str, cells: Cells | None
) -> tuple[Inputs, dict[str, Any]]:
    chosen = asked.features or [name for name in frame.columns if name not in (label, asked.id)]
    columns = [_column(frame, name, where) for name in chosen]
    if len(columns) == 1 and columns[0].dtype.is_nested():
        return _vectors(columns[0], ids), {"kind": "vectors", "features": list(chosen)}
    if cells:
        columns = [typed(column, decimal_comma=cells.separator != ",") for column in columns]
    found = to_features(columns, ids, keep_all=asked.features is not None)
    if not found.columns and len(found.texts) == 1:
        text = found.texts[0]
        notes = [{**note, "names": [name for name in note["names"] if name != text]} for note in found.notes]
        notes = [{**note, "count": len(note["names"])} for note in notes if note["names"]]
        texts = _text_column(_column(frame, text, where), ids)
        return texts, {"kind": "texts", "text": text, "left_out": notes}
    if not found.columns:
        why = "; ".join(f"{note['why']}: {', '.join(note['names'])}" for note in found.notes)
        raise ValueError(
            f"{where} has no column left to learn from{f' ({why})' if why else ''}: name it with features=, text= or "
            "image=."
        )
    return Table(found.columns), {"kind": "table", "features": list(found.columns), "left_out": found.notes}


def _label(frame: "pl.DataFrame", asked: Asked, where: str) -> str | None:
    if asked.label is not None or asked.labels is not None:
        return asked.label
    there = [name for name in frame.columns if name == "y" or name.lower() in LABEL_NAMES]
    if len(there) != 1:
        why = f"{' and '.join(there)} could all be the labels" if there else "none is called label"
        raise ValueError(f"{where} has {listed(frame.columns, 'column')}, and {why}: name it with label=.")
    return there[0]


def _column(frame: "pl.DataFrame", name: str, where: str) -> "pl.Series":
    if name not in frame.columns:
        hint = nearest(name, frame.columns) or "."
        raise ValueError(f"{where} has no column {name!r}{hint} It has {listed(frame.columns, 'column')}.")
    return frame[name]


def _id_column(column: "pl.Series") -> list[str]:
    empty = column.is_null().arg_true().to_list()
    if empty:
        raise ValueError(f"the id column {column.name!r} is empty in {listed(empty, 'row')}: every row needs an id.")
    return [str(name) for name in column.to_list()]


def _text_column(column: "pl.Series", ids: Sequence[str]) -> Texts:
    import polars as pl

    if column.dtype.is_nested() or column.dtype in (pl.Object, pl.Binary):
        raise ValueError(f"column {column.name!r} holds {column.dtype}, not text: choose another with text=.")
    texts = column.cast(pl.String).fill_null("")
    empty = [ids[i] for i in (texts.str.strip_chars() == "").arg_true().to_list()]
    if empty:
        raise ValueError(f"the text column {column.name!r} is empty in {listed(empty, 'row')}: leave those rows out.")
    return Texts(tuple(texts.to_list()))


def _image_column(column: "pl.Series", root: Path, ids: Sequence[str]) -> tuple[LazyImages, list[str]]:
    paths = [str(path or "").replace("\\", "/") for path in column.to_list()]
    empty = [ids[i] for i, path in enumerate(paths) if not path]
    if empty:
        raise ValueError(f"the image column {column.name!r} is empty in {listed(empty, 'row')}: leave those rows out.")
    missing = [path for path in paths if not (root / path).is_file()]
    if missing:
        raise ValueError(f"{listed(missing, 'image')} of column {column.name!r} are not there, seen from {root}.")
    return LazyImages(OpenFile(root, tuple(paths)), torch.arange(len(paths))), paths


def _vectors(column: "pl.Series", ids: Sequence[str]) -> Vectors:
    """Return a column of lists of numbers, all of one length, as vectors: embeddings are kept like this."""
    rows: list[Any] = column.to_list()
    try:
        array = np.array(rows, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.ndim < 2:
        raise ValueError(
            f"column {column.name!r} holds {column.dtype} which are not lists of numbers of one length: choose other "
            "columns with features=."
        )
    return Vectors(torch.from_numpy(finite(array.reshape(len(array), -1), f"column {column.name!r}", ids)))


def _read_parquet(path: Path) -> "pl.DataFrame":
    import polars as pl

    try:
        return pl.read_parquet(path)
    except Exception as broken:  # damage shows in many ways
        raise ValueError(f"{path} cannot be read as Parquet: {str(broken).splitlines()[0]}.") from None
