"""Inputs of a table: images, texts, vectors or feature columns."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch

from permll.data.inputs import Inputs, Table, Texts, Vectors
from permll.data.labels import RowRefs
from permll.data.readers.arrays import to_finite_float32
from permll.data.readers.csv_reader import Cells, header_hint
from permll.data.readers.feature_columns import drop_apply_columns, infer_type, to_features
from permll.data.readers.image_files import image_files
from permll.data.readers.options import ReadOptions
from permll.utils.messages import did_you_mean, format_list


@dataclass(frozen=True)
class Sheet:
    """A frame with what its error messages need."""

    frame: pl.DataFrame
    where: str  # name of the table
    row_refs: RowRefs
    cells: Cells | None  # the CSV file, if the columns are still text

    def column(self, name: str) -> pl.Series:
        """Return a column by name; the error lists the columns."""
        if name not in self.frame.columns:
            hint = did_you_mean(name, self.frame.columns) or "."
            raise ValueError(
                f"{self.where} has no column {name!r}{hint} It has {format_list(self.frame.columns, 'column')}."
                f"{self.header_hint}"
            )
        return self.frame[name]

    def is_text(self, name: str) -> bool:
        """Return whether a column holds text, not numbers written as text."""
        column = infer_type(self.column(name), decimal_comma=self.decimal_comma) if self.cells else self.column(name)
        return column.dtype == pl.String and column.null_count() < len(column)

    @property
    def header_hint(self) -> str:
        """Hint that the first line of a CSV file must hold the names."""
        return header_hint(self.frame.columns) if self.cells else ""

    @property
    def decimal_comma(self) -> bool:
        """Whether 3,5 is a number."""
        return self.cells is not None and self.cells.separator != ","


class TableInputs(NamedTuple):
    """Inputs of a table.

    Args:
        inputs: one for each row.
        metadata: how they were read.
        paths: of images.
        empty: rows without a text or an image.
    """

    inputs: Inputs
    metadata: dict[str, Any]
    paths: list[str] | None = None
    empty: tuple[int, ...] = ()


def read_inputs(sheet: Sheet, options: ReadOptions, label: str | None, root: Path) -> TableInputs:
    """Read the columns that the options name, or all but label and id; ``root`` is the folder of relative paths."""
    if options.image is not None:
        return _read_images(sheet, options.image, root, drop_empty=options.drop_empty)
    if options.text is not None:
        return _read_texts(sheet, options.text, drop_empty=options.drop_empty)
    others = options.other_columns(label)
    names = options.features or [name for name in sheet.frame.columns if name not in others]
    columns = [sheet.column(name) for name in names]
    columns, left_out = (columns, []) if options.features else drop_apply_columns(columns)
    if len(columns) == 1 and columns[0].dtype.is_nested():
        metadata = {"kind": "vectors", "features": [columns[0].name], "left_out": left_out}
        return TableInputs(_read_vectors(columns[0], sheet.row_refs), metadata)
    return _read_features(sheet, columns, left_out, options)


def _read_features(
    sheet: Sheet, columns: list[pl.Series], left_out: list[dict[str, Any]], options: ReadOptions
) -> TableInputs:
    if sheet.cells:
        columns = [infer_type(column, decimal_comma=sheet.decimal_comma) for column in columns]
    keep_all = options.features is not None
    features = to_features(columns, sheet.row_refs, keep_all=keep_all, decimal_comma=sheet.decimal_comma)
    left_out = left_out + features.left_out
    if not features.columns and len(features.texts) == 1:
        text = features.texts[0]
        left_out = [{**entry, "names": [name for name in entry["names"] if name != text]} for entry in left_out]
        left_out = [{**entry, "count": len(entry["names"])} for entry in left_out if entry["names"]]
        texts = _read_texts(sheet, text, drop_empty=options.drop_empty)
        return texts._replace(metadata={**texts.metadata, "left_out": left_out})
    if not features.columns:
        why = "; ".join(f"{entry['why']}: {', '.join(entry['names'])}" for entry in left_out)
        raise ValueError(
            f"{sheet.where} has no feature column{f' ({why})' if why else ''}: choose one with features=, text= or "
            "image=."
        )
    metadata = {"kind": "table", "features": list(features.columns), "left_out": left_out}
    return TableInputs(Table(features.columns, features.types), metadata)


def check_filled(column: pl.Series, is_empty: pl.Series, what: str, row_refs: RowRefs, hint: str) -> None:
    """Raise if a column has empty cells."""
    if is_empty.any():
        rows = row_refs.format_list(is_empty.arg_true().to_list())
        raise ValueError(f"the {what} column {column.name!r} is empty in {rows}: {hint}.")


def _read_images(sheet: Sheet, name: str, root: Path, *, drop_empty: bool) -> TableInputs:
    """Read images by their paths, which are also ids."""
    column = sheet.column(name)
    paths = [str(path or "").replace("\\", "/") for path in column.to_list()]
    empty = _empty_rows(column, pl.Series(paths) == "", "image", sheet.row_refs, drop_empty=drop_empty)
    present = [path for path in paths if path]
    files = image_files(root, present, f" of column {name!r}")
    position = {row: number for number, row in enumerate(row for row, path in enumerate(paths) if path)}
    images = files.take(torch.tensor([position.get(row, 0) for row in range(len(paths))])) if empty else files
    ids = [path or f"row {row}" for row, path in enumerate(paths)]
    return TableInputs(images, {"kind": "images", "image": name}, ids, empty)


def _read_texts(sheet: Sheet, name: str, *, drop_empty: bool) -> TableInputs:
    column = sheet.column(name)
    if column.dtype.is_nested() or column.dtype in (pl.Object, pl.Binary):
        raise ValueError(f"column {column.name!r} holds {column.dtype}, not text: choose another with text=.")
    texts = column.cast(pl.String).fill_null("")
    empty = _empty_rows(column, texts.str.strip_chars() == "", "text", sheet.row_refs, drop_empty=drop_empty)
    return TableInputs(Texts(tuple(texts.to_list())), {"kind": "texts", "text": name}, empty=empty)


def _empty_rows(
    column: pl.Series, is_empty: pl.Series, what: str, row_refs: RowRefs, *, drop_empty: bool
) -> tuple[int, ...]:
    """Return the rows with an empty cell, which will be left out; raise for them unless ``drop_empty``."""
    if not drop_empty or is_empty.all():
        check_filled(column, is_empty, what, row_refs, "fill in those rows, or leave them out with drop_empty=True")
    return tuple(is_empty.arg_true().to_list())


def _read_vectors(column: pl.Series, row_refs: RowRefs) -> Vectors:
    """Return a column of lists of numbers of one length (embeddings) as vectors."""
    rows: list[Any] = column.to_list()
    try:
        array = np.array(rows, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.ndim < 2:
        raise ValueError(
            f"column {column.name!r} holds {column.dtype}, not lists of numbers of one length: choose other columns "
            "with features=."
        )
    vectors = to_finite_float32(array.reshape(len(array), -1), f"column {column.name!r}", row_refs)
    return Vectors(torch.from_numpy(vectors))
