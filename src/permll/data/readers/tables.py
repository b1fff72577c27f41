"""Tables: CSV, TSV and Parquet files, and polars or pandas frames, by the names of their columns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from permll.data.inputs import Inputs, LazyImages, Table, Texts, Vectors
from permll.data.readers.arrays import finite
from permll.data.readers.assemble import with_labels
from permll.data.readers.csv_reader import Cells, header_hint, read_csv
from permll.data.readers.csv_types import label_values, typed
from permll.data.readers.feature_columns import set_marks_aside, to_features
from permll.data.readers.image_paths import image_files
from permll.data.readers.infer_columns import assume
from permll.data.readers.types import RawData, ReadOptions, RowRefs, row_numbers
from permll.utils.messages import did_you_mean, format_list

if TYPE_CHECKING:
    import polars as pl

LABEL_NAMES = ("label", "labels", "class", "target")  # and y, but Y may be a coordinate


@dataclass(frozen=True)
class Sheet:
    """A frame, and how to speak of it.

    Args:
        frame: rows by column.
        where: what it is called.
        places: what complaints call its rows.
        cells: the file that it comes from, if its columns are still text.
    """

    frame: "pl.DataFrame"
    where: str
    places: RowRefs
    cells: Cells | None

    def column(self, name: str) -> "pl.Series":
        """Return a column by name; if there is none, say which there are."""
        if name not in self.frame.columns:
            hint = did_you_mean(name, self.frame.columns) or "."
            raise ValueError(
                f"{self.where} has no column {name!r}{hint} It has {format_list(self.frame.columns, 'column')}."
                f"{self.header_hint}"
            )
        return self.frame[name]

    def is_text(self, name: str) -> bool:
        """Return whether a column holds text, and not numbers that are still written as such."""
        import polars as pl

        column = typed(self.column(name), decimal_comma=self.decimal_comma) if self.cells else self.column(name)
        return column.dtype == pl.String and column.null_count() < len(column)

    @property
    def header_hint(self) -> str:
        """Say that the first line must hold the names, where names come from a line."""
        return header_hint(self.frame.columns) if self.cells else ""

    @property
    def decimal_comma(self) -> bool:
        """Return whether 3,5 is a number."""
        return self.cells is not None and self.cells.separator != ","


def find_file(path: Path, asked: ReadOptions, metadata: dict[str, Any]) -> RawData:
    """Return what a table in a file holds."""
    need_polars()
    if path.suffix.lower() == ".parquet":
        return find_frame(read_parquet(path), asked, metadata, where=str(path), root=path.absolute().parent)
    cells = read_csv(path)
    metadata = {**metadata, "separator": cells.separator}
    return find_frame(cells.frame, asked, metadata, where=str(path), root=path.absolute().parent, cells=cells)


def find_frame(
    frame: "pl.DataFrame",
    asked: ReadOptions,
    metadata: dict[str, Any],
    *,
    where: str,
    root: Path | None = None,
    ids: Sequence[str] | None = None,
    cells: Cells | None = None,
) -> RawData:
    """Return what a frame holds; ``cells`` says that its columns are still text, ``root`` where image paths start."""
    asked.choose_one("text", "image", "features")
    asked.choose_one("label", "labels")
    asked.choose_one("id", "ids")
    if len(frame) == 0:
        raise ValueError(f"{where} has no rows.")
    names = row_numbers(len(frame)) if ids is None else ids
    sheet = Sheet(frame, where, RowRefs(cells.lines, "line") if cells else RowRefs(names), cells)
    label = _label(sheet, asked)
    labels = None if label is None else sheet.column(label)
    metadata = {**metadata, "label": label or "given with labels="}
    asked, metadata = assume(asked, metadata, label, frame.columns, values=sheet.column, is_text=sheet.is_text)
    if asked.id is not None:
        names = _id_column(sheet.column(asked.id), sheet.places)
        sheet = sheet if cells else replace(sheet, places=RowRefs(names))
    inputs, understood, paths = _inputs(sheet, asked, label, root or Path.cwd())
    if paths is not None and asked.id is None and asked.ids is None:
        names = paths
    found = RawData(inputs, None, names, {**metadata, **understood}, lines=cells.lines if cells else None)
    if labels is None:
        return found
    return with_labels(found, label_values(labels) if cells else labels)


def need_polars() -> None:
    """Say how to get polars if it is missing."""
    try:
        import polars  # noqa: F401
    except ImportError:
        raise ImportError("tables need polars: pip install 'permll[table]'") from None


def _inputs(
    sheet: Sheet, asked: ReadOptions, label: str | None, root: Path
) -> tuple[Inputs, dict[str, Any], list[str] | None]:
    """Return the inputs, what was understood of them, and the paths of images."""
    if asked.image is not None:
        images, paths = _image_column(sheet.column(asked.image), root, sheet.places)
        return images, {"kind": "images", "image": asked.image}, paths
    if asked.text is not None:
        texts = _text_column(sheet.column(asked.text), sheet.places)
        return texts, {"kind": "texts", "text": asked.text}, None
    chosen = asked.features or [name for name in sheet.frame.columns if name not in (label, asked.id)]
    columns = [sheet.column(name) for name in chosen]
    columns, aside = (columns, []) if asked.features else set_marks_aside(columns)
    if len(columns) == 1 and columns[0].dtype.is_nested():
        understood = {"kind": "vectors", "features": [columns[0].name], "left_out": aside}
        return _vectors(columns[0], sheet.places), understood, None
    return *_features(sheet, columns, aside, keep_all=asked.features is not None), None


def _features(
    sheet: Sheet, columns: list["pl.Series"], aside: list[dict[str, Any]], *, keep_all: bool
) -> tuple[Inputs, dict[str, Any]]:
    comma = sheet.decimal_comma
    if sheet.cells:
        columns = [typed(column, decimal_comma=comma) for column in columns]
    found = to_features(columns, sheet.places, keep_all=keep_all, decimal_comma=comma)
    found = found._replace(notes=aside + found.notes)
    if not found.columns and len(found.texts) == 1:
        text = found.texts[0]
        notes = [{**note, "names": [name for name in note["names"] if name != text]} for note in found.notes]
        notes = [{**note, "count": len(note["names"])} for note in notes if note["names"]]
        texts = _text_column(sheet.column(text), sheet.places)
        return texts, {"kind": "texts", "text": text, "left_out": notes}
    if not found.columns:
        why = "; ".join(f"{note['why']}: {', '.join(note['names'])}" for note in found.notes)
        raise ValueError(
            f"{sheet.where} has no column left to learn from{f' ({why})' if why else ''}: name it with features=, "
            "text= or image=."
        )
    return Table(found.columns), {"kind": "table", "features": list(found.columns), "left_out": found.notes}


def _label(sheet: Sheet, asked: ReadOptions) -> str | None:
    if asked.label is not None or asked.labels is not None:
        return asked.label
    columns = sheet.frame.columns
    there = [name for name in columns if name == "y" or name.lower() in LABEL_NAMES]
    if len(there) != 1:
        why = f"{' and '.join(there)} could all be the labels" if there else "none is called label"
        hint = "" if there else sheet.header_hint
        raise ValueError(f"{sheet.where} has {format_list(columns, 'column')}, and {why}: name it with label=.{hint}")
    return there[0]


def _id_column(column: "pl.Series", places: RowRefs) -> list[str]:
    empty = column.is_null().arg_true().to_list()
    if empty:
        raise ValueError(
            f"the id column {column.name!r} is empty in {places.format_list(empty)}: every row needs an id."
        )
    return [str(name) for name in column.to_list()]


def _text_column(column: "pl.Series", places: RowRefs) -> Texts:
    import polars as pl

    if column.dtype.is_nested() or column.dtype in (pl.Object, pl.Binary):
        raise ValueError(f"column {column.name!r} holds {column.dtype}, not text: choose another with text=.")
    texts = column.cast(pl.String).fill_null("")
    empty = (texts.str.strip_chars() == "").arg_true().to_list()
    if empty:
        raise ValueError(
            f"the text column {column.name!r} is empty in {places.format_list(empty)}: fill in or remove each of them."
        )
    return Texts(tuple(texts.to_list()))


def _image_column(column: "pl.Series", root: Path, places: RowRefs) -> tuple[LazyImages, list[str]]:
    paths = [str(path or "").replace("\\", "/") for path in column.to_list()]
    empty = [row for row, path in enumerate(paths) if not path]
    if empty:
        raise ValueError(
            f"the image column {column.name!r} is empty in {places.format_list(empty)}: fill in or remove each of them."
        )
    return image_files(root, paths, f" of column {column.name!r}"), paths


def _vectors(column: "pl.Series", places: RowRefs) -> Vectors:
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
    return Vectors(torch.from_numpy(finite(array.reshape(len(array), -1), f"column {column.name!r}", places)))


def read_parquet(path: Path) -> "pl.DataFrame":
    """Return what a Parquet file holds; a damaged one is one sentence."""
    import polars as pl

    try:
        return pl.read_parquet(path)
    except Exception as broken:  # damage shows in many ways
        raise ValueError(f"{path} cannot be read as Parquet: {str(broken).splitlines()[0]}.") from None
