"""Label columns of a corrected data set: the label, ``label_original`` and ``label_source``."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from permll.cleaning.apply.corrections import LABEL_SOURCES
from permll.cleaning.class_names import are_integers
from permll.cleaning.source import Source
from permll.data.readers.raw_data import APPLY_COLUMNS
from permll.utils.files import to_csv
from permll.utils.messages import format_list

Value = TypeVar("Value")
LABEL = "label"  # name of the label column of a source without one
ORIGINAL, SOURCE = APPLY_COLUMNS


class Changes(NamedTuple):
    """The changes to a source with N rows.

    Args:
        classes: row -> new class, for rows that change.
        sources: N label sources, see ``LABEL_SOURCES``.
        dropped: rows that are left out.
    """

    classes: Mapping[int, str]
    sources: Sequence[str]
    dropped: Set[int] = frozenset()

    @property
    def kept_rows(self) -> list[int]:
        """The rows that are not dropped."""
        return [row for row in range(len(self.sources)) if row not in self.dropped]

    def new_classes(self, classes: Iterable[str]) -> list[str]:
        """Return the new classes that are not among ``classes``."""
        return [name for name in dict.fromkeys(self.classes.values()) if name not in set(classes)]


def label_columns(
    source: Source,
    changes: Changes,
    names: Collection[str],
    column: Callable[[str], list[Any]],
    *,
    to_text: Callable[[Any], str] = str,
    from_label: Callable[[Any], Any] = lambda label: label,
) -> dict[str, list[Any]]:
    """Return the three label columns by name, one value for each row that is not dropped.

    A source that is itself an output of ``apply`` already has the history columns: ``label_original`` keeps the first
    label, and ``label_source`` the last source other than "given".

    Args:
        source: to correct.
        changes: to apply.
        names: of all columns of the source.
        column: name -> N stored values.
        to_text: converts a stored value of ``label_source``; "" for a row that was added later.
        from_label: converts a label that is not stored in the source.
    """
    has_history = _check_names(source, names)
    if source.label_column is None:
        labels = [from_label(label) for label in source.labels]
    else:
        labels = column(source.label_column)
    values = values_by_class({row: k for row, k in source.row_classes.items() if row not in source.relabeled}, labels)
    classes = [*source.classes, *changes.new_classes(source.classes)]
    for name in {*changes.classes.values()} - values.keys():
        values[name] = from_label(_unused_class_label(source, name, classes))
    new = [values[changes.classes[row]] if row in changes.classes else label for row, label in enumerate(labels)]
    originals, sources = list(labels), list(changes.sources)
    if has_history:
        previous = _check_sources([to_text(value) for value in column(SOURCE)], source)
        first = zip(labels, column(ORIGINAL), previous, strict=True)
        originals = [original if word else label for label, original, word in first]
        sources = [old if now == "given" and old else now for now, old in zip(sources, previous, strict=True)]
    columns = {source.label_column or LABEL: new, ORIGINAL: originals, SOURCE: sources}
    return {name: [values[row] for row in changes.kept_rows] for name, values in columns.items()}


def write_label_list(out: Path, key: str, rows: Iterable[tuple[str, str, str, str]]) -> None:
    """Write a CSV file of all samples: their id or path, named ``key``, and the three label columns."""
    out.write_text(to_csv([(key, LABEL, ORIGINAL, SOURCE), *rows]), encoding="utf-8", newline="")


def values_by_class(row_classes: Mapping[int, str], labels: Sequence[Value]) -> dict[str, Value]:
    """Return the most frequent stored label of each class.

    Examples:
        >>> values_by_class({0: "1", 1: "1", 3: "2", 4: "1"}, ["1.0", "1", "", "2", "1"])
        {'1': '1', '2': '2'}
    """
    counts: dict[str, Counter[Value]] = {}
    for row, name in row_classes.items():
        counts.setdefault(name, Counter())[labels[row]] += 1
    return {name: count.most_common(1)[0][0] for name, count in counts.items()}


def _unused_class_label(source: Source, name: str, classes: Sequence[str]) -> Any:
    """Return the label of a class without rows, in the type of the others; new classes are the last of ``classes``."""
    example = source.labels[min(source.row_classes)]
    if isinstance(example, str):
        return name
    if isinstance(example, bytes):
        return name.encode()
    if isinstance(example, bool):
        if name not in ("True", "False"):
            raise ValueError(f"the labels of {source.path} are true or false, so {name!r} cannot be added as a class.")
        return name == "True"
    by_number = source.raw.names is None and are_integers(source.classes)
    if by_number and not are_integers([name]):
        raise ValueError(f"the labels of {source.path} are integers, so {name!r} cannot be added as a class.")
    return type(example)(int(name) if by_number else classes.index(name))


def _check_names(source: Source, names: Collection[str]) -> bool:
    """Return whether there are history columns; refuse other columns with a reserved name."""
    present = [name for name in APPLY_COLUMNS if name in names]
    taken = present if len(present) == 1 else []
    if source.label_column is None and LABEL in names:
        taken = [LABEL]
    elif source.label_column in APPLY_COLUMNS:
        taken = [source.label_column]
    if taken:
        raise ValueError(f"{source.path} already has a column {taken[0]!r}, which apply adds: rename it.")
    return bool(present)


def _check_sources(words: list[str], source: Source) -> list[str]:
    unknown = sorted({word for word in words if word and word not in LABEL_SOURCES})
    if unknown:
        raise ValueError(
            f"column {SOURCE!r} of {source.path} was not written by permll, it contains "
            f"{format_list(unknown, 'unknown value')}: rename it."
        )
    return words
