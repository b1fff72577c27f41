"""Reader of tables: CSV, TSV and Parquet files, and polars or pandas frames."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from permll.utils.messages import install_hint

try:
    import polars as pl
except ImportError:
    raise ImportError(f"tables need polars: {install_hint('table')}") from None

from permll.data.inputs import Texts
from permll.data.labels import RowRefs
from permll.data.readers.annotations import RawAnswers, match_columns, wide_answers
from permll.data.readers.assemble import with_labels
from permll.data.readers.csv_reader import Cells, read_csv
from permll.data.readers.feature_columns import parse_labels
from permll.data.readers.gold import gold_mask, reviewed_mask
from permll.data.readers.groups import group_names
from permll.data.readers.infer_columns import infer_columns
from permll.data.readers.options import ReadOptions
from permll.data.readers.parquet import index_columns, read_parquet
from permll.data.readers.raw_data import APPLY_COLUMNS, RawData, default_ids
from permll.data.readers.table_inputs import Sheet, TableInputs, check_filled, read_inputs
from permll.utils.messages import Problems, format_list

LABEL_NAMES = ("label", "labels", "class", "target")  # and y, but Y may be a coordinate


def read_table_file(path: Path, options: ReadOptions, metadata: dict[str, Any]) -> RawData:
    """Read a CSV, TSV or Parquet file."""
    frame, cells = open_table(path)
    if cells is not None:
        metadata = {**metadata, "separator": cells.separator}
    frame, ids = (frame, None) if cells else _take_index(frame, index_columns(path), options)
    return read_frame(frame, options, metadata, where=str(path), root=path.absolute().parent, ids=ids, cells=cells)


def _take_index(
    frame: pl.DataFrame, names: Sequence[str], options: ReadOptions
) -> tuple[pl.DataFrame, list[str] | None]:
    """Return a frame without the index of pandas, and the index as ids if it is unique."""
    named = {options.label, options.text, options.image, options.id, *(options.features or ())}
    names = [name for name in names if name not in named]
    ids = frame[names[0]].cast(pl.String) if len(names) == 1 else None
    is_unique = ids is not None and ids.null_count() == 0 and ids.is_unique().all()
    return frame.drop(names), ids.to_list() if ids is not None and is_unique else None


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
    if options.annotators is not None:
        options = replace(options, annotators=match_columns(options.annotators, frame.columns, where))
    label = _check_columns(sheet, options)
    metadata = {**metadata, "label": label or "given with labels="}
    options, metadata = infer_columns(
        options, metadata, label, frame.columns, values=sheet.column, is_text=sheet.is_text
    )
    problems = Problems()
    if options.id is not None:
        column = sheet.column(options.id)
        with problems.collect():
            check_filled(column, column.is_null(), "id", sheet.row_refs, "every row needs an id")
        names = [str(name) for name in column.to_list()]
        sheet = sheet if cells else replace(sheet, row_refs=RowRefs(names))
    read = TableInputs(Texts(tuple(names)), {})  # a placeholder, if they cannot be read
    with problems.collect():
        read = read_inputs(sheet, options, label, root or Path.cwd())
    if read.paths is not None and options.id is None and options.ids is None:
        names = read.paths
    gold: list[bool] | None = None
    with problems.collect():
        gold = _gold(sheet, options)
    groups: list[str] | None = None
    with problems.collect():
        groups = _groups(sheet, options)
    raw = RawData(
        read.inputs,
        None,
        names,
        {**metadata, **read.metadata},
        lines=cells.lines if cells else None,
        empty=read.empty,
        problems=problems,
        gold=gold,
        answers=_answers(sheet, options),
        groups=groups,
    )
    if label is None:
        return raw
    labels = sheet.column(label)
    return with_labels(raw, parse_labels(labels) if cells else labels)


def _gold(sheet: Sheet, options: ReadOptions) -> list[bool] | None:
    if options.gold_column is not None:
        return gold_mask(sheet.column(options.gold_column).to_list(), sheet.row_refs)
    if all(name in sheet.frame.columns for name in APPLY_COLUMNS):
        return reviewed_mask(sheet.column(APPLY_COLUMNS[1]).to_list())
    return None


def _answers(sheet: Sheet, options: ReadOptions) -> RawAnswers | None:
    if options.annotators is None:
        return None
    answers = wide_answers({name: sheet.column(name).to_list() for name in options.annotators})
    texts = pl.Series(answers.labels, dtype=pl.String) if sheet.cells else None
    return answers if texts is None else answers._replace(labels=parse_labels(texts))


def _groups(sheet: Sheet, options: ReadOptions) -> list[str] | None:
    if options.groups_column is None:
        return None
    return group_names(sheet.column(options.groups_column).to_list(), sheet.row_refs)


def _check_columns(sheet: Sheet, options: ReadOptions) -> str | None:
    """Return the label column, after a check that all columns exist."""
    problems, label = Problems(), None
    with problems.collect():
        label = _label_column(sheet, options)
    others = (options.text, options.image, *(options.features or ()))
    for name in (*options.other_columns(label), *others):
        with problems.collect():
            _ = None if name is None else sheet.column(name)
    problems.raise_all()
    return label


def _label_column(sheet: Sheet, options: ReadOptions) -> str | None:
    if options.label is not None or options.labels is not None:
        return options.label
    columns = sheet.frame.columns
    matches = [name for name in columns if name == "y" or name.lower() in LABEL_NAMES]
    if len(matches) != 1 and options.has_annotators:
        return None
    if len(matches) != 1:
        why = f"{' and '.join(matches)} could all be the labels" if matches else "none is named label"
        hint = "" if matches else sheet.header_hint
        raise ValueError(f"{sheet.where} has {format_list(columns, 'column')}, and {why}: choose it with label=.{hint}")
    return matches[0]
