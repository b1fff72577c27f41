"""``RawData``, the result of a reader, and helpers for its metadata."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from permll.data.inputs import Inputs
from permll.data.labels import RowRefs
from permll.utils.messages import Problems

APPLY_COLUMNS = ("label_original", "label_source")  # added by permll apply; not features
_MAX_NAMES = 1000  # in an entry of ``left_out``; its count is complete


@dataclass(frozen=True, eq=False)
class RawData:
    """N samples as a reader returns them, before labels are encoded and rows are left out."""

    inputs: Inputs
    values: Any  # N labels as in the source, or None
    ids: Sequence[str]
    metadata: dict[str, Any] = field(default_factory=dict)  # how the source was read, as JSON values
    names: Sequence[str] | None = None  # class names, if ``values`` are indices of them
    noun: str = "row"  # for one sample
    lines: Sequence[int] | None = None  # line numbers, which error messages then use instead of ids
    order: Sequence[str] | None = None  # class names in the order of the source; some may have no sample
    empty: Sequence[int] = ()  # rows without a text or an image, which are left out
    problems: Problems = field(default_factory=Problems)  # found by the reader, raised together with those of labels
    gold: Sequence[bool] | None = None  # which labels a person reviewed
    answers: Any = None  # ``RawAnswers`` of the columns of annotators
    groups: Sequence[str] | None = None  # names of groups, such as patients, that a split keeps together

    def row_refs(self, ids: Sequence[str]) -> RowRefs:
        """Return the names of the samples in error messages."""
        return RowRefs(ids, self.noun) if self.lines is None else RowRefs(self.lines, "line")


def left_out_entry(what: str, why: str, names: Sequence[object]) -> dict[str, Any]:
    """Return an entry of ``metadata["left_out"]``.

    Examples:
        >>> left_out_entry("column", "the same in every row", ["country"])
        {'what': 'column', 'why': 'the same in every row', 'count': 1, 'names': ['country']}
    """
    return {"what": what, "why": why, "count": len(names), "names": [str(name) for name in names[:_MAX_NAMES]]}


def merge_metadata(metadata: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Return both, with the entries of ``assumed`` (choices the reader made without an option) of both.

    Examples:
        >>> merge_metadata({"assumed": ["this"]}, {"kind": "images", "assumed": ["that"]})
        {'assumed': ['this', 'that'], 'kind': 'images'}
    """
    assumed = [*metadata.get("assumed", ()), *more.get("assumed", ())]
    return {**metadata, **more, **({"assumed": assumed} if assumed else {})}


def pluralize(number: int, noun: str) -> str:
    """Return a number with its noun.

    Examples:
        >>> pluralize(1, "id"), pluralize(2_000, "id")
        ('1 id', '2,000 ids')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def default_ids(count: int) -> tuple[str, ...]:
    """Return the ids of samples without names: "0", "1", ..."""
    return tuple(map(str, range(count)))


class RowNumbers(Sequence[str]):
    """``default_ids``, each made when it is needed: a million ids would take more memory than their predictions.

    Examples:
        >>> ids = RowNumbers(3)
        >>> ids[1], ids[-2:], list(ids)
        ('1', ('1', '2'), ['0', '1', '2'])
    """

    def __init__(self, count: int) -> None:
        self._rows = range(count)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        """Return the id at a position, or a tuple of those of a slice."""
        return tuple(map(str, self._rows[index])) if isinstance(index, slice) else str(self._rows[index])

    def __iter__(self) -> Iterator[str]:
        return map(str, self._rows)
