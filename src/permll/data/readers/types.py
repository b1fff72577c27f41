"""What was asked of the door, and what a reader found behind it: the two records that every reader shares."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from permll.data.inputs import Inputs
from permll.utils.messages import did_you_mean, format_list

Rare = Literal["refuse", "drop", "keep"]
_KEPT_NAMES = 1000  # of what was left out, in ``about``; the count is always whole


class ReadKeywords(TypedDict, total=False):
    """The keywords of ``permll.data.readers.read`` that functions built on it pass through."""

    label: str | None
    text: str | None
    image: str | None
    features: Sequence[str] | str | None
    id: str | None
    classes: Sequence[str] | None
    ids: Sequence[str] | None
    no_label: object
    rare: Rare
    check: bool
    skip_unreadable: bool
    image_size: int | None


def check_keywords(keywords: ReadKeywords, where: str) -> dict[str, Any]:
    """Return the keywords that were given; an unknown one is named.

    Examples:
        >>> check_keywords({"lable": "kind"}, "clean")
        Traceback (most recent call last):
        ...
        TypeError: clean() has no keyword 'lable', did you mean label?
    """
    for name in keywords:
        if name not in ReadKeywords.__annotations__:
            near = did_you_mean(name, ReadKeywords.__annotations__) or "."
            raise TypeError(f"{where}() has no keyword {name!r}{near}")
    return {name: value for name, value in keywords.items() if value is not None}


@dataclass(frozen=True)
class ReadOptions:
    """The keywords of ``read``, checked."""

    label: str | None = None
    text: str | None = None
    image: str | None = None
    features: tuple[str, ...] | None = None
    id: str | None = None
    classes: Sequence[str] | None = None
    labels: Any = None
    ids: Sequence[str] | None = None
    no_label: object = None
    rare: Rare = "refuse"
    check: bool = True
    skip_unreadable: bool = False
    image_size: int | None = None

    def refuse(self, *names: str, what: str) -> None:
        """Say that a keyword has no meaning for ``what``, rather than ignore it."""
        given = [name for name in names if getattr(self, name) is not None]
        if given:
            raise ValueError(f"{given[0]}= has no meaning for {what}: leave it out.")

    def choose_one(self, *names: str) -> None:
        """Say that two of the keywords exclude each other, if two were given."""
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{given[0]}= and {given[1]}= exclude each other: give one of them.")


@dataclass(frozen=True)
class RowRefs:
    """What complaints call the samples: rows by id, or the lines of a file that one can go to.

    Examples:
        >>> RowRefs([2, 3, 5], "line").format_list([0, 2])
        '2 lines (2, 5)'
        >>> RowRefs(["a", "b"]).named(1), RowRefs([2, 3], "line").named(1)
        ('b', 'line 3')
    """

    names: Sequence[object]
    noun: str = "row"

    def format_list(self, rows: Sequence[int]) -> str:
        """Return the samples at ``rows`` as a phrase, the first ten by name."""
        return format_list([self.names[row] for row in rows], self.noun)

    def named(self, row: int) -> str:
        """Return what one sample is called where nothing says what kind of name that is."""
        return f"line {self.names[row]}" if self.noun == "line" else str(self.names[row])

    def take(self, rows: Sequence[int]) -> "RowRefs":
        """Return the names at ``rows``."""
        return RowRefs([self.names[row] for row in rows], self.noun)


@dataclass(frozen=True, eq=False)
class RawData:
    """Samples as a reader found them, before labels are numbered and anything is left out.

    Args:
        inputs: N samples.
        values: N labels in the source's own words, or None if it has none.
        ids: N names.
        about: what was understood, as JSON would hold it.
        names: where ``values`` are places in a list of names, those names.
        noun: what one sample is called.
        lines: where the samples stand in a file of lines: complaints then say that instead of ids.
        order: names of classes in the order the source gives them, among them perhaps some that no sample has.
    """

    inputs: Inputs
    values: Any
    ids: Sequence[str]
    metadata: dict[str, Any] = field(default_factory=dict)
    names: Sequence[str] | None = None
    noun: str = "row"
    lines: Sequence[int] | None = None
    order: Sequence[str] | None = None

    def places(self, ids: Sequence[str]) -> RowRefs:
        """Return what complaints call the samples."""
        return RowRefs(ids, self.noun) if self.lines is None else RowRefs(self.lines, "line")


def leave_out(what: str, why: str, names: Sequence[object]) -> dict[str, Any]:
    """Return an entry of ``about["left_out"]``.

    Examples:
        >>> leave_out("column", "the same in every row", ["country"])
        {'what': 'column', 'why': 'the same in every row', 'count': 1, 'names': ['country']}
    """
    return {"what": what, "why": why, "count": len(names), "names": [str(name) for name in names[:_KEPT_NAMES]]}


def assumed(metadata: dict[str, Any], what: str) -> dict[str, Any]:
    """Return ``about`` with one more thing that was taken for granted, without being asked for.

    Examples:
        >>> assumed({"kind": "texts"}, "column 'text' is the text")
        {'kind': 'texts', 'assumed': ["column 'text' is the text"]}
    """
    return {**metadata, "assumed": [*metadata.get("assumed", ()), what]}


def joined(metadata: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Return both, with what either takes for granted.

    Examples:
        >>> joined({"assumed": ["this"]}, {"kind": "images", "assumed": ["that"]})
        {'assumed': ['this', 'that'], 'kind': 'images'}
    """
    both = [*metadata.get("assumed", ()), *more.get("assumed", ())]
    return {**metadata, **more, **({"assumed": both} if both else {})}


def pluralize(number: int, what: str) -> str:
    """Return a number with its noun.

    Examples:
        >>> pluralize(1, "id"), pluralize(2_000, "id")
        ('1 id', '2,000 ids')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def row_numbers(count: int) -> tuple[str, ...]:
    """Return the ids of samples that have no names: "0", "1", ..."""
    return tuple(map(str, range(count)))
