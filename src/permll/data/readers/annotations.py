"""Answers of several annotators: a column for each (wide form), or a table of samples, annotators and labels (long)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from permll.data.labels import RowRefs, is_missing
from permll.data.readers.options import ReadOptions
from permll.utils.messages import did_you_mean, format_list

LONG_COLUMNS = {
    "sample": ("id", "sample", "sample_id", "item", "item_id", "task", "task_id", "example", "example_id"),
    "annotator": ("annotator", "annotator_id", "worker", "worker_id", "rater", "rater_id", "user", "coder"),
    "label": ("label", "answer", "response", "annotation", "class"),
}
NO_ANSWER = -1  # in arrays of numbers


class RawAnswers(NamedTuple):
    """Answers as they are stored: M rows of the data set, annotators and labels."""

    rows: list[int]
    annotators: list[str]
    labels: list[Any]


def match_columns(patterns: Sequence[str], columns: Sequence[str], where: str) -> tuple[str, ...]:
    """Return the columns that have one of the names or match a pattern, in the order of the columns.

    Examples:
        >>> match_columns(["ann_*", "boss"], ["text", "ann_1", "ann_2", "boss"], "data.csv")
        ('ann_1', 'ann_2', 'boss')
    """
    for pattern in patterns:
        if not any(name == pattern or fnmatchcase(name, pattern) for name in columns):
            hint = did_you_mean(pattern, columns) or "."
            raise ValueError(
                f"{where} has no column {pattern!r} of an annotator{hint} It has {format_list(columns, 'column')}."
            )
    return tuple(name for name in columns if any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns))


def wide_answers(columns: Mapping[str, Sequence[Any]]) -> RawAnswers:
    """Return the answers of a column for each annotator; empty cells are missing answers.

    Examples:
        >>> wide_answers({"ann": ["cat", None], "bob": ["dog", "dog"]})
        RawAnswers(rows=[0, 0, 1], annotators=['ann', 'bob', 'bob'], labels=['cat', 'dog', 'dog'])
    """
    cells = [
        (row, name, value)
        for name, values in columns.items()
        for row, value in enumerate(values)
        if not is_missing(value)
    ]
    cells.sort(key=lambda cell: cell[0])
    return RawAnswers([row for row, _, _ in cells], [name for _, name, _ in cells], [label for _, _, label in cells])


def array_answers(values: Any, names: Sequence[str] | None = None) -> RawAnswers:
    """Return the answers of an array (N, A), with -1, NaN or None for a missing answer.

    Examples:
        >>> array_answers([[1, -1], [0, 1]])
        RawAnswers(rows=[0, 1, 1], annotators=['0', '0', '1'], labels=[1, 0, 1])
    """
    table = values.detach().cpu().numpy() if isinstance(values, Tensor) else values
    if not isinstance(table, np.ndarray):
        lengths = {len(row) if isinstance(row, Sequence | np.ndarray | Tensor) else -1 for row in table}
        if len(lengths) != 1 or lengths == {-1}:
            raise ValueError("annotations must be a table with one row per sample and one column per annotator.")
        table = np.array([list(row) for row in table], dtype=object)
    if table.ndim != 2:
        raise ValueError(f"annotations must have shape (N, annotators), got {table.shape}.")
    names = [str(number) for number in range(table.shape[1])] if names is None else names
    columns = {name: table[:, i].tolist() for i, name in enumerate(names)}
    return wide_answers({name: [None if _is_mark(one) else one for one in column] for name, column in columns.items()})


def read_annotations(options: ReadOptions, ids: Sequence[str]) -> RawAnswers:
    """Return the answers of ``annotations=``: a path, a frame in long or wide form, or an array (N, A)."""
    source = options.annotations
    if isinstance(source, str | Path):
        return _read_file(Path(source).expanduser(), options.annotation_columns, ids)
    if type(source).__module__.split(".")[0] in ("pandas", "polars"):
        return _read_frame(source, options.annotation_columns, ids)
    answers = array_answers(source)
    _check_length(len(source), ids)
    return answers


def _read_file(path: Path, columns: Sequence[str] | None, ids: Sequence[str]) -> RawAnswers:
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}.")
    if path.suffix.lower() == ".npy":
        from permll.data.readers.arrays import open_arrays

        with open_arrays(path) as arrays:
            table = arrays[path.stem]
        answers = array_answers(table)
        _check_length(len(table), ids)
        return answers
    if path.suffix.lower() not in (".csv", ".tsv", ".parquet"):
        raise ValueError(f"annotations must be a .csv, .tsv, .parquet or .npy file, got {str(path)!r}.")
    from permll.data.readers.feature_columns import parse_labels
    from permll.data.readers.tables import open_table

    frame, cells = open_table(path)
    names = _long_columns(frame.columns, columns)
    if names is None:
        raise ValueError(_unknown_columns(str(path), frame.columns))
    sample, annotator, label = (frame[name] for name in names)
    labels = parse_labels(label) if cells else label.to_list()
    refs = RowRefs(cells.lines, "line") if cells else RowRefs(range(len(frame)))
    return long_answers(sample.to_list(), annotator.to_list(), labels, ids, str(path), refs)


def _read_frame(frame: Any, columns: Sequence[str] | None, ids: Sequence[str]) -> RawAnswers:
    names = _long_columns([str(name) for name in frame.columns], columns)
    if names is not None:
        values = {str(name): frame[name].to_list() for name in frame.columns}
        lists = [values[name] for name in names]
        return long_answers(lists[0], lists[1], lists[2], ids, "the annotations", RowRefs(range(len(frame))))
    if columns is not None:
        raise ValueError(_unknown_columns("the annotations", [str(name) for name in frame.columns]))
    _check_length(len(frame), ids)
    cells = [frame[name].to_list() for name in frame.columns]
    return wide_answers(
        {
            str(name): [None if _is_mark(one) else one for one in column]
            for name, column in zip(frame.columns, cells, strict=True)
        }
    )


def long_answers(
    samples: Sequence[Any],
    annotators: Sequence[Any],
    labels: Sequence[Any],
    ids: Sequence[str],
    where: str,
    refs: RowRefs,
) -> RawAnswers:
    """Return the answers of a table with a line for each; empty labels are missing answers.

    Examples:
        >>> long_answers(["a", "b"], ["ann", "ann"], ["cat", "dog"], ["b", "a"], "answers.csv", RowRefs([2, 3]))
        RawAnswers(rows=[1, 0], annotators=['ann', 'ann'], labels=['cat', 'dog'])
    """
    for name, values in (("sample", samples), ("annotator", annotators)):
        if empty := [row for row, value in enumerate(values) if is_missing(value)]:
            raise ValueError(f"{where} names no {name} in {refs.format_list(empty)}: fill in or remove those lines.")
    position = {name: row for row, name in enumerate(ids)}
    names = [_to_id(value) for value in samples]
    if unknown := [name for name in dict.fromkeys(names) if name not in position]:
        example = f", such as {ids[0]}" if ids else ""
        raise ValueError(
            f"{where} has answers to {format_list(unknown, 'unknown sample')}: they must be ids of the data{example}."
        )
    kept = [row for row, label in enumerate(labels) if not is_missing(label)]
    return RawAnswers(
        [position[names[row]] for row in kept], [_to_id(annotators[row]) for row in kept], [labels[row] for row in kept]
    )


def check_answers(answers: RawAnswers, ids: Sequence[str]) -> None:
    """Raise if there are fewer than two annotators, or if one answered twice for a sample."""
    names = list(dict.fromkeys(answers.annotators))
    if not names:
        raise ValueError("there are no answers of annotators: all cells are empty.")
    if len(names) == 1:
        raise ValueError(
            f"there is only one annotator, {names[0]!r}: name several, or give these answers as the labels."
        )
    pairs = Counter(zip(answers.rows, answers.annotators, strict=True))
    repeated = [f"{name} for {ids[row]}" for (row, name), count in pairs.items() if count > 1]
    if repeated:
        raise ValueError(f"an annotator must answer once for each sample; repeated: {format_list(repeated, 'answer')}.")


def _long_columns(columns: Sequence[str], given: Sequence[str] | None) -> list[str] | None:
    """Return the columns of samples, annotators and labels; None if they are not recognized."""
    if given is not None:
        return list(given) if set(given) <= set(columns) else None
    found = [[name for name in columns if name.lower() in known] for known in LONG_COLUMNS.values()]
    return [names[0] for names in found] if all(len(names) == 1 for names in found) else None


def _unknown_columns(where: str, columns: Sequence[str]) -> str:
    return (
        f"{where} has {format_list(columns, 'column')}: name those of samples, annotators and labels with "
        "annotation_columns=."
    )


def _check_length(length: int, ids: Sequence[str]) -> None:
    if length != len(ids):
        raise ValueError(f"annotations have {length:,} rows for {len(ids):,} samples: give one row per sample.")


def _to_id(value: object) -> str:
    """Return an id as text; 3.0 is 3, since pandas stores integers with empty cells as fractions."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _is_mark(value: object) -> bool:
    return is_missing(value) or (isinstance(value, int | float) and not isinstance(value, bool) and value == NO_ANSWER)
