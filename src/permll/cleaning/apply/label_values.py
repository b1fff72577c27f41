"""How a source writes its labels: from class names back to its own words, numbers or cells."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from permll.cleaning.apply.corrections import GIVEN, SOURCES
from permll.cleaning.apply.source import Source
from permll.data.readers.feature_columns import APPLY_COLUMNS
from permll.utils.messages import format_list

Value = TypeVar("Value")
LABEL = "label"  # what the labels are called where they had no name


def as_written(labels: Mapping[int, str], values: Sequence[Value]) -> dict[str, Value]:
    """Return for each class what stands for it in the source, most often if there are several ways.

    Args:
        labels: position -> class.
        values: by position.

    Examples:
        >>> as_written({0: "1", 1: "1", 3: "2", 4: "1"}, ["1.0", "1", "", "2", "1"])
        {'1': '1', '2': '2'}
    """
    counts: dict[str, Counter[Value]] = {}
    for position, name in labels.items():
        counts.setdefault(name, Counter())[values[position]] += 1
    return {name: count.most_common(1)[0][0] for name, count in counts.items()}


def written(source: Source, name: str, values: Sequence[Any]) -> Any:
    """Return what stands for a class that no row has, as the labels of the other rows would write it."""
    example = next(value for position, value in enumerate(values) if position in source.labels)
    if isinstance(example, str):
        return name
    if isinstance(example, bytes):
        return name.encode()
    if isinstance(example, bool) and name in ("True", "False"):
        return name == "True"
    numbers = source.found.names is None and all(each.removeprefix("-").isdecimal() for each in source.classes)
    return type(example)(int(name) if numbers else source.classes.index(name))


def new_values(source: Source, changed: Mapping[int, str], values: Sequence[Any]) -> list[Any]:
    """Return the labels of all rows, those in ``changed`` (position -> class) replaced, as the source writes them."""
    known = as_written(source.labels, values)
    replaced = list(values)
    for position, name in changed.items():
        replaced[position] = known[name] if name in known else written(source, name, values)
    return replaced


def marked(
    before: Sequence[Value],
    sources: Sequence[str],
    originals: Sequence[Value] | None = None,
    earlier: Sequence[str] | None = None,
) -> tuple[list[Value], list[str]]:
    """Return ``label_original``, the very first labels, and ``label_source``, where the present ones are from.

    Args:
        before: the labels until now.
        sources: where each label comes from in this round.
        originals: ``label_original`` of an earlier round, if there was one.
        earlier: its ``label_source``; "" where a row came later.

    Examples:
        >>> marked(["dog", "cat"], ["given", "chosen"])
        (['dog', 'cat'], ['given', 'chosen'])
        >>> marked(["dog", "cat"], ["given", "chosen"], ["cat", "dog"], ["accepted", "auto"])
        (['cat', 'dog'], ['accepted', 'chosen'])
    """
    if originals is None or earlier is None:
        return list(before), list(sources)
    first = [old if word else label for old, word, label in zip(originals, earlier, before, strict=True)]
    words = [now if now != GIVEN or not then else then for now, then in zip(sources, earlier, strict=True)]
    return first, words


def has_marks(names: Sequence[str], where: str, label: str | None) -> bool:
    """Return whether an earlier round left its two columns; refuse columns that have one of their names by chance."""
    there = [name for name in APPLY_COLUMNS if name in names]
    if label in APPLY_COLUMNS:
        raise ValueError(f"the labels of {where} are called {label!r}, as a column that is added: rename it.")
    if len(there) == 1:
        raise ValueError(f"{where} has a {there[0]!r} of its own, as a column that is added is called: rename it.")
    if label is None and LABEL in names:
        raise ValueError(f"{where} has a {LABEL!r} of its own, as the one that is added is called: rename it.")
    return bool(there)


def known_sources(words: Sequence[str], where: str) -> list[str]:
    """Return the ``label_source`` of an earlier round; refuse what no earlier round can have written."""
    other = sorted({word for word in words if word and word not in SOURCES})
    if other:
        raise ValueError(
            f"the column {APPLY_COLUMNS[1]!r} of {where} was not written by permll, it holds "
            f"{format_list(other, 'other word')}: rename it."
        )
    return list(words)
