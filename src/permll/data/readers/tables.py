"""Reader of tables: CSV, TSV and Parquet files, and polars or pandas frames."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

try:
    import polars as pl
except ImportError:
    raise ImportError("tables need polars: pip install 'permll[table]'") from None

from permll.data.inputs import Inputs, Table, Texts, Vectors
from permll.data.labels import RowRefs, is_missing
from permll.data.readers.arrays import to_finite_float32
from permll.data.readers.assemble import with_labels
from permll.data.readers.csv_reader import Cells, header_hint, read_csv
from permll.data.readers.feature_columns import drop_apply_columns, infer_type, parse_labels, to_features
from permll.data.readers.image_files import image_files
from permll.data.readers.options import ReadOptions
from permll.data.readers.raw_data import RawData, default_ids, left_out_entry, merge_metadata
from permll.utils.messages import did_you_mean, format_list

LABEL_NAMES = ("label", "labels", "class", "target")  # and y, but Y may be a coordinate


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


def read_table_file(path: Path, options: ReadOptions, metadata: dict[str, Any]) -> RawData:
    """Read a CSV, TSV or Parquet file."""
    frame, cells = open_table(path)
    if cells is not None:
        metadata = {**metadata, "separator": cells.separator}
    return read_frame(frame, options, metadata, where=str(path), root=path.absolute().parent, cells=cells)


def open_table(path: Path) -> tuple[pl.DataFrame, Cells | None]:
    """Return the rows of a file, and for CSV and TSV its cells: the columns are then still text."""
    if path.suffix.lower() == ".parquet":
        return read_parquet(path), None
    cells = read_csv(path)
    return cells.frame, cells


def read_frame(
    frame: pl.DataFrame,
    options: ReadOptions,
    metadata: dict[str, Any],
    *,
    where: str,
    root: Path | None = None,
    ids: Sequence[str] | None = None,
    cells: Cells | None = None,
) -> RawData:
    """Read a frame.

    Args:
        frame: rows by column.
        options: how to read it.
        metadata: metadata of the source.
        where: name of the table in error messages.
        root: folder of relative image paths; default the current one.
        ids: default ids; default row numbers.
        cells: the CSV file, if the columns are still text.
    """
    options.reject_both()
    if len(frame) == 0:
        raise ValueError(f"{where} has no rows.")
    names = default_ids(len(frame)) if ids is None else ids
    sheet = Sheet(frame, where, RowRefs(cells.lines, "line") if cells else RowRefs(names), cells)
    label = _label_column(sheet, options)
    labels = None if label is None else sheet.column(label)
    metadata = {**metadata, "label": label or "given with labels="}
    options, metadata = infer_columns(
        options, metadata, label, frame.columns, values=sheet.column, is_text=sheet.is_text
    )
    if options.id is not None:
        column = sheet.column(options.id)
        _check_filled(column, column.is_null(), "id", sheet.row_refs, "every row needs an id")
        names = [str(name) for name in column.to_list()]
        sheet = sheet if cells else replace(sheet, row_refs=RowRefs(names))
    inputs, input_metadata, paths = _read_inputs(sheet, options, label, root or Path.cwd())
    if paths is not None and options.id is None and options.ids is None:
        names = paths
    raw = RawData(inputs, None, names, {**metadata, **input_metadata}, lines=cells.lines if cells else None)
    if labels is None:
        return raw
    return with_labels(raw, parse_labels(labels) if cells else labels)


def infer_columns(
    options: ReadOptions,
    metadata: dict[str, Any],
    label: str | None,
    columns: Sequence[str],
    *,
    values: Callable[[str], Iterable[object]],
    is_text: Callable[[str], bool],
) -> tuple[ReadOptions, dict[str, Any]]:
    """Return the options with an id and a text column, if the column names suggest them, and updated metadata.

    Args:
        options: options as given.
        metadata: metadata so far.
        label: label column, or None.
        columns: names of all columns.
        values: returns the values of a column.
        is_text: returns whether a column holds text.
    """
    used = {label, options.text, options.image, *(options.features or ())}
    if options.id is None and options.ids is None:
        matches = [name for name in columns if name.lower() == "id" and name not in used]
        ids = list(values(matches[0])) if len(matches) == 1 else []
        if ids and not any(map(is_missing, ids)) and len(set(map(str, ids))) == len(ids):
            options = replace(options, id=matches[0])
            metadata = merge_metadata(metadata, {"assumed": [f"column {matches[0]!r} holds the ids"]})
    has_inputs = options.text is not None or options.image is not None or options.features is not None
    if not has_inputs and "text" in columns and "text" not in (label, options.id) and is_text("text"):
        others = [name for name in columns if name not in ("text", label, options.id)]
        options = replace(options, text="text")
        metadata = merge_metadata(metadata, {"assumed": ["column 'text' is the text"]})
        metadata["left_out"] = [left_out_entry("column", "besides the text", others)] if others else []
    return options, metadata


def _read_inputs(
    sheet: Sheet, options: ReadOptions, label: str | None, root: Path
) -> tuple[Inputs, dict[str, Any], list[str] | None]:
    """Return the inputs, their metadata, and the paths of images."""
    if options.image is not None:
        column = sheet.column(options.image)
        paths = [str(path or "").replace("\\", "/") for path in column.to_list()]
        is_empty = pl.Series([not path for path in paths])
        _check_filled(column, is_empty, "image", sheet.row_refs, "fill in or remove those rows")
        images = image_files(root, paths, f" of column {options.image!r}")
        return images, {"kind": "images", "image": options.image}, paths
    if options.text is not None:
        texts = _read_texts(sheet.column(options.text), sheet.row_refs)
        return texts, {"kind": "texts", "text": options.text}, None
    names = options.features or [name for name in sheet.frame.columns if name not in (label, options.id)]
    columns = [sheet.column(name) for name in names]
    columns, left_out = (columns, []) if options.features else drop_apply_columns(columns)
    if len(columns) == 1 and columns[0].dtype.is_nested():
        metadata = {"kind": "vectors", "features": [columns[0].name], "left_out": left_out}
        return _read_vectors(columns[0], sheet.row_refs), metadata, None
    return *_read_features(sheet, columns, left_out, keep_all=options.features is not None), None


def _read_features(
    sheet: Sheet, columns: list[pl.Series], left_out: list[dict[str, Any]], *, keep_all: bool
) -> tuple[Inputs, dict[str, Any]]:
    if sheet.cells:
        columns = [infer_type(column, decimal_comma=sheet.decimal_comma) for column in columns]
    features = to_features(columns, sheet.row_refs, keep_all=keep_all, decimal_comma=sheet.decimal_comma)
    left_out = left_out + features.left_out
    if not features.columns and len(features.texts) == 1:
        text = features.texts[0]
        left_out = [{**entry, "names": [name for name in entry["names"] if name != text]} for entry in left_out]
        left_out = [{**entry, "count": len(entry["names"])} for entry in left_out if entry["names"]]
        texts = _read_texts(sheet.column(text), sheet.row_refs)
        return texts, {"kind": "texts", "text": text, "left_out": left_out}
    if not features.columns:
        why = "; ".join(f"{entry['why']}: {', '.join(entry['names'])}" for entry in left_out)
        raise ValueError(
            f"{sheet.where} has no feature column{f' ({why})' if why else ''}: choose one with features=, text= or "
            "image=."
        )
    return Table(features.columns), {"kind": "table", "features": list(features.columns), "left_out": left_out}


def _label_column(sheet: Sheet, options: ReadOptions) -> str | None:
    if options.label is not None or options.labels is not None:
        return options.label
    columns = sheet.frame.columns
    matches = [name for name in columns if name == "y" or name.lower() in LABEL_NAMES]
    if len(matches) != 1:
        why = f"{' and '.join(matches)} could all be the labels" if matches else "none is named label"
        hint = "" if matches else sheet.header_hint
        raise ValueError(f"{sheet.where} has {format_list(columns, 'column')}, and {why}: choose it with label=.{hint}")
    return matches[0]


def _check_filled(column: pl.Series, is_empty: pl.Series, what: str, row_refs: RowRefs, hint: str) -> None:
    if is_empty.any():
        rows = row_refs.format_list(is_empty.arg_true().to_list())
        raise ValueError(f"the {what} column {column.name!r} is empty in {rows}: {hint}.")


def _read_texts(column: pl.Series, row_refs: RowRefs) -> Texts:
    if column.dtype.is_nested() or column.dtype in (pl.Object, pl.Binary):
        raise ValueError(f"column {column.name!r} holds {column.dtype}, not text: choose another with text=.")
    texts = column.cast(pl.String).fill_null("")
    _check_filled(column, texts.str.strip_chars() == "", "text", row_refs, "fill in or remove those rows")
    return Texts(tuple(texts.to_list()))


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


def read_parquet(path: Path) -> pl.DataFrame:
    """Read a Parquet file; a damaged one raises ``ValueError``."""
    try:
        return pl.read_parquet(path)
    except Exception as error:  # damage can raise many errors
        raise ValueError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}.") from None
